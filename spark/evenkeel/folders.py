"""Files in folders that other users may write to: synced to disk, and never reached through a symbolic link."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from evenkeel.errors import BadInput

_FOLDER = os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)  # a folder that may be entered need not be readable


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, and sync their names to disk."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync(folder.parent)


def sync(path: Path) -> None:
    """Sync a file, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_below(folder: str | Path, name: str, flags: int = os.O_RDONLY) -> int:
    """Return the descriptor of a file below a folder, by its name with `/`.

    Raises OSError if the name leaves the folder, or leads over a symbolic link below it.
    """
    *folders, file = name.split("/")
    at = os.open(folder, _FOLDER)
    try:
        for part in folders:
            at, above = _opened(part, _FOLDER, at), at
            os.close(above)
        return _opened(file, flags, at)
    except OSError as error:
        error.filename = f"{folder}/{name}"
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            error.strerror = (
                "a symbolic link, or a file in the place of a folder: nothing is read or written through it"
            )
        raise
    finally:
        os.close(at)


def _opened(part: str, flags: int, at: int) -> int:
    if part in ("", ".", ".."):
        raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    return os.open(part, flags | os.O_NOFOLLOW, 0o666, dir_fd=at)


def write_below(folder: Path, name: str, text: str) -> Path:
    """Write a text below a folder, which is made if missing, and return its path; raises BadInput if that fails."""
    try:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        with os.fdopen(open_below(folder, name, flags), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise BadInput(f"{folder / name} cannot be written: {error.strerror}. Name another folder") from error
    return folder / name


def links_in(folder: Path, *, is_deep: bool = True) -> Iterator[Path]:
    """Yield the symbolic links in a folder, if it exists, and in the folders below it."""
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                yield folder / entry.name
            elif is_deep and entry.is_dir(follow_symlinks=False):
                yield from links_in(folder / entry.name)
