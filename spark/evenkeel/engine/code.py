"""Which code is this: a version for people, a digest for machines.

Every commit names both, and a grouped map compares digests before it decides (see `grouped`).
"""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterator
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import evenkeel

SKIPPED_FOLDERS = frozenset({"__pycache__"})


@cache
def code_digest() -> str:
    """sha256 (hex) over the package's .py files, sorted by path; read once per process."""
    return read_code_digest()


def read_code_digest() -> str:
    """As `code_digest`, but read from disk (or from the zip the package was shipped in) at every call."""
    digest = hashlib.sha256()
    for path, file in sources():
        body = file.read_bytes()
        digest.update(f"{path}\0{len(body)}\0".encode())
        digest.update(body)
    return digest.hexdigest()


def sources() -> list[tuple[str, Traversable]]:
    """The package's .py files as (path below the package, file), sorted by path."""
    return sorted(_walk(resources.files("evenkeel"), ""), key=lambda found: found[0])


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        path = f"{prefix}{entry.name}"
        if entry.name.endswith(".py") and entry.is_file():
            yield path, entry
        elif entry.name not in SKIPPED_FOLDERS and entry.is_dir():
            yield from _walk(entry, f"{path}/")


def source_root() -> Path:
    """The folder that must stand on `PYTHONPATH` for `import evenkeel` to find this very package."""
    return Path(evenkeel.__file__).resolve().parent.parent


@cache
def code_version() -> str:
    """The version for people: `git describe` of the checkout, or the package's version outside of one."""
    return _described() or evenkeel.__version__


def _described() -> str | None:
    root = source_root()
    if not (root.parent / ".git").exists():  # an installed copy inside somebody else's checkout is not that checkout
        return None
    command = ["git", "-C", str(root), "describe", "--tags", "--always", "--dirty"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{evenkeel.__version__}+{answer.stdout.strip()}"
