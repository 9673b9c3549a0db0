"""Identity of the code: a version for people, digests for machines.

Four digests answer four questions:

- `code_digest`: which code decided this? Every commit and manifest holds it, and `verify` compares it.
- `runtime_of`: do the Python workers run what the client expects? A grouped map compares it before it decides.
- `workers_digest`: may running Python workers go on? Not if code that they can have imported has changed.
- `engine_digest`: may the running Spark server go on? Not if the engine's own code has changed.

Each covers some modules with all that these import inside the package, read from the source text, and the minor
versions of Python and pyspark (`engine_digest`: the whole versions). A module that is named only in a string is not
found. Such modules are named in this module (`DECIDING`, `IN_WORKERS`, `ENGINE`), and a test watches what a cycle
imports.
"""

from __future__ import annotations

import ast
import hashlib
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from pathlib import Path
from sysconfig import get_default_scheme, get_path

import evenkeel

DEFINITION = "d3"
"""Name of the definition that a code digest follows, as in `d3:3.11/4.1:4f0c…`: Python 3.11, pyspark 4.1, and the
SHA-256 of the deciding code. A digest of `d2` has one SHA-256 of the code and of the whole versions. A digest without a
name covers the whole package and nothing else."""

DECIDING = (
    "evenkeel.validate.task",
    "evenkeel.aggregate.task",
    "evenkeel.plan_splits.task",
    "evenkeel.shed.task",
    "evenkeel.place.task",
    "evenkeel.repetition",
)
"""The modules that decide: the tasks from the observed rows to the placements, and all rounds with the plan and its
guards. Fetching snapshots and sending commands are not among them: the rows, settings and acts that they hand over are
recorded."""

IN_WORKERS = (*DECIDING, "evenkeel.replay.fold", "evenkeel.spark.worker")
ENGINE = ("evenkeel.spark.server", "evenkeel.spark.supervisor", "evenkeel.spark.daemon")
WORKER = "evenkeel.spark.worker"

SUITES_VARIABLE = "EVENKEEL_EXPECTATIONS"
SKIPPED_FOLDERS = frozenset({"__pycache__"})
# Parsing whole files takes half a second of every process that appends; a test compares the two ways.
_OWN_IMPORTS = re.compile(r"^[ \t]*((?:from|import)[ \t]+evenkeel\b[^(\n]*(?:\([^)]*\))?)", re.MULTILINE)

_PARTS = re.compile(rf"{DEFINITION}:(?P<Python>[^:/]+)/(?P<pyspark>[^:/]+):(?P<code>.+)")

Files = Mapping[str, bytes]
"""Content of .py files by path below the package."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """The `files` that a Python worker runs for a decide function (paths below the package) and their digest."""

    digest: str
    files: tuple[str, ...]


@cache
def code_digest() -> str:
    """Return the digest of the deciding code, `d3:Python/pyspark:SHA-256` (hex); read once per process.

    The SHA-256 covers `DECIDING` with its imports and the suites in `expectations/`.
    """
    return code_digest_of(package_files())


def definition_of(digest: str | None) -> str:
    """Return the definition that a recorded code digest follows, "" for one without a name."""
    name, colon, _ = (digest or "").partition(":")
    return name if colon else ""


def differing_parts(recorded: str | None) -> str:
    """Return which parts of a recorded code digest differ from those of this process, in words; "" if none does.

    A digest of another definition differs as a whole.
    """
    then, now = _PARTS.fullmatch(recorded or ""), _PARTS.fullmatch(code_digest())
    if then is None or now is None:
        return "other definition of the code digest"
    versions = [
        f"{name} {then[name]} in place of {now[name]}" for name in ("Python", "pyspark") if then[name] != now[name]
    ]
    return ", ".join([*versions, *(["other deciding code"] if then["code"] != now["code"] else [])])


@cache
def engine_digest() -> str:
    """Return the SHA-256 (hex) of the code that starts, watches and configures a Spark server, and of Python and
    pyspark."""
    return _digest([*sorted(_some(package_files(), ENGINE).items()), *versions().items()])


@cache
def workers_digest() -> str:
    """Return the SHA-256 (hex) of all code that a Python worker can have imported, and of Python and pyspark."""
    return runtime_digest(workers_files())


def workers_files() -> Files:
    """Return the files that a Python worker can import, as this process first read them."""
    return _some(package_files(), IN_WORKERS)


@cache
def runtime_of(module: str) -> Runtime:
    """Return the files and digest that a Python worker runs to call a function of this module.

    Suites are not part of it: no worker reads them, and they are not shipped. For a module outside the package it
    covers only the worker's own code.
    """
    files = _some(package_files(), (module, WORKER))
    return Runtime(runtime_digest(files), tuple(files))


def runtime_digest(files: Files) -> str:
    """Return the SHA-256 (hex) of these files under the minor versions of Python and pyspark of this process."""
    return _digest([*sorted(files.items()), ("versions", _minor_versions().encode())])


def versions() -> dict[str, bytes]:
    """Return the versions of Python and pyspark in this process."""
    loaded = sys.modules.get("pyspark")  # its metadata may have changed under this process
    pyspark = metadata.version("pyspark-client") if loaded is None else str(loaded.__version__)
    return {"python": platform.python_version().encode(), "pyspark": pyspark.encode()}


def minor_version(whole: str) -> str:
    """Return the first two numbers of a version, as `4.1` of `4.1.3`."""
    return ".".join(whole.split(".")[:2])


def _minor_versions() -> str:
    return "/".join(minor_version(version.decode()) for version in versions().values())


def imports_of(source: bytes) -> set[str]:
    """Return the full names of the source's imports of this package, also inside functions and for type checking only.

    `from evenkeel.spark import code` gives `evenkeel.spark` and `evenkeel.spark.code`, even if `code` is not a module.
    """
    names: set[str] = set()
    for statement in _OWN_IMPORTS.findall(source.decode()):
        (node,) = ast.parse(statement).body
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def closure(files: Files, roots: Iterable[str]) -> list[str]:
    """Return the sorted paths of these modules, of all that they import inside the package, and of their packages."""
    paths = {_module_name(path): path for path in files}
    reached: set[str] = set()
    left = list(roots)
    while left:
        name = left.pop()
        path = paths.get(name)
        if path is not None and path not in reached:
            reached.add(path)
            left += [*imports_of(files[path]), name.rpartition(".")[0]]
    return sorted(reached)


@cache
def package_files() -> Files:
    """Return the package's .py files as they were when this process first asked: nearly what it imported."""
    return read_package_files()


def read_package_files() -> Files:
    """Return the package's .py files, read from disk (or from the zip the package was shipped in), in the order of
    paths."""
    return {path: file.read_bytes() for path, file in sources()}


def read_files(paths: Iterable[str]) -> Files:
    """Return the files (paths below the package) that exist, read from disk or from the zip."""
    files = {path: resources.files("evenkeel").joinpath(path) for path in paths}
    return {path: file.read_bytes() for path, file in files.items() if file.is_file()}


def sources() -> list[tuple[str, Traversable]]:
    """Return the package's .py files as (path below the package, file), sorted by path."""
    return sorted(_walk(resources.files("evenkeel"), ""), key=lambda source: source[0])


def source_root() -> Path:
    """Return the folder that must be on `PYTHONPATH` for `import evenkeel` to load this package."""
    return Path(evenkeel.__file__).resolve().parent.parent


def suites_folder() -> Path:
    """Return the folder of the expectation suites: the one that EVENKEEL_EXPECTATIONS names, else the installed one."""
    named = os.environ.get(SUITES_VARIABLE)
    return Path(named) if named else folder_beside("expectations")


def folder_beside(name: str) -> Path:
    """Return the folder `dags`, `plugins` or `expectations` that belongs to this package.

    It is in the checkout, or where the wheel installed it: under `share/evenkeel` of the environment or of the user.
    """
    shares = (Path(get_path("data", scheme), "share", "evenkeel") for scheme in (get_default_scheme(), "posix_user"))
    places = [place / name for place in (source_root().parent, *shares)]
    return next((place for place in places if place.is_dir()), places[0])


@cache
def code_version() -> str:
    """Return the version for people: `git describe` of the checkout, or the package's version outside of one."""
    return _described() or evenkeel.__version__


def code_digest_of(files: Files) -> str:
    """Return `code_digest` computed over these files instead of the package's own."""
    suites = sorted((f"expectations/{path.name}", path.read_bytes()) for path in suites_folder().glob("*.json"))
    return f"{DEFINITION}:{_minor_versions()}:{_digest([*_some(files, DECIDING).items(), *suites])}"


def _some(files: Files, roots: Iterable[str]) -> Files:
    return {path: files[path] for path in closure(files, roots)}


def _digest(parts: Iterable[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for name, body in parts:
        digest.update(f"{name}\0{len(body)}\0".encode())
        digest.update(body)
    return digest.hexdigest()


def _module_name(path: str) -> str:
    return ".".join(("evenkeel", *path.removesuffix(".py").removesuffix("__init__").strip("/").split("/"))).strip(".")


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    for entry in folder.iterdir():
        path = f"{prefix}{entry.name}"
        if entry.name.endswith(".py") and entry.is_file():
            yield path, entry
        elif entry.name not in SKIPPED_FOLDERS and entry.is_dir():
            yield from _walk(entry, f"{path}/")


def _described() -> str | None:
    root = source_root()
    if not (root.parent / ".git").exists():  # a copy installed inside another checkout
        return None
    command = ["git", "-C", str(root), "describe", "--tags", "--always", "--dirty"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{evenkeel.__version__}+{answer.stdout.strip()}"
