"""Storage of the files of a log: its interface, and a folder that implements it.

A log is safe if a written file exists whole or not at all, also after a power cut, and if one process at a time
appends. The tree itself demands no more: checkpoints are written last, and files written before without a checkpoint
are overwritten.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from evenkeel.errors import DamagedLog, LogBusy, LogError
from evenkeel.locks import acquired

if TYPE_CHECKING:
    from filelock import BaseFileLock

MOST_FILE_BYTES = 256 * (2 + 65_535)
"""Largest file of a log: a full bundle of the longest entries."""

_PARTS = ".parts"
_LOCK = ".lock"
_TRIES = 20


class LogStorage(Protocol):
    """A place for the files of one log. Names are relative, with `/`, as in C2SP tlog-tiles."""

    def get(self, name: str) -> bytes | None:
        """Return the content of a file; None if it does not exist."""

    def put(self, name: str, data: bytes) -> None:
        """Make or replace a file durably; readers find either the old or the new content. Raises LogError on
        failure."""

    def names(self, folder: str, most: int) -> list[str]:
        """Return the names in a folder, sorted; none if it does not exist. Raises DamagedLog for more than `most`."""

    def remove(self, folder: str) -> None:
        """Remove a folder with all that is in it; do nothing if it does not exist."""

    def appending(self) -> AbstractContextManager[None]:
        """Exclude all other appenders for a `with` block; raises LogBusy if another does not end."""


class FolderStorage:
    """A log in a folder of a file system that has locks."""

    def __init__(self, folder: Path, *, wait_seconds: float = 30.0) -> None:
        """Take `wait_seconds`, how long `appending` waits for another process."""
        self._folder = folder
        self._wait_seconds = wait_seconds

    def get(self, name: str) -> bytes | None:
        """Return the content of a file; None if it does not exist.

        Raises DamagedLog if it is larger than any file of a log, or cannot be read.
        """
        try:
            with (self._folder / name).open("rb") as file:
                data = file.read(MOST_FILE_BYTES + 1)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise DamagedLog(f"{self._folder / name} cannot be read: {error.strerror}") from None
        if len(data) > MOST_FILE_BYTES:
            raise DamagedLog(f"{self._folder / name} is larger than any file of a log: it was replaced")
        return data

    def put(self, name: str, data: bytes) -> None:
        """Write the file under another name, sync it, then give it its own name.

        Raises LogError on failure; the file then has its old content.
        """
        path = self._folder / name
        for left in reversed(range(_TRIES)):
            try:
                self._put(path, data)
                return
            except OSError as error:
                # An appender that begins removes the leftovers of writers, and this one may just have begun.
                if not isinstance(error, FileNotFoundError) or not left:
                    raise LogError(f"{path} cannot be written: {error.strerror}") from None

    def _put(self, path: Path, data: bytes) -> None:
        part = self._folder / _PARTS / uuid.uuid4().hex
        make_folder(part.parent)
        make_folder(path.parent)
        with part.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        keep_names(path.parent)

    def names(self, folder: str, most: int) -> list[str]:
        """Return the names in a folder, sorted; raises DamagedLog if there are more than `most`, or it cannot be
        read."""
        try:
            with os.scandir(self._folder / folder) as entries:
                names = [entry.name for entry in islice(entries, most + 1)]
        except FileNotFoundError:
            return []
        except OSError as error:
            raise DamagedLog(f"{self._folder / folder} cannot be read: {error.strerror}") from None
        if len(names) > most:
            raise DamagedLog(f"{self._folder / folder} holds more than {most:,} files: remove what is not the log's")
        return sorted(names)

    def remove(self, folder: str) -> None:
        """Remove a folder with all that is in it; do nothing if it does not exist."""
        shutil.rmtree(self._folder / folder, ignore_errors=True)

    @contextmanager
    def appending(self) -> Iterator[None]:
        """Hold the folder's lock, which the system releases when its holder is killed; raises LogError if it has no
        locks."""
        lock = self._locked()
        try:
            self.remove(_PARTS)  # leftovers of a killed writer
            yield
        finally:
            lock.release()

    def _locked(self) -> BaseFileLock:
        try:
            make_folder(self._folder)
            lock = acquired(self._folder / _LOCK, wait_seconds=self._wait_seconds)
        except OSError as error:
            raise LogError(f"the lock in {self._folder} cannot be had: {error.strerror or error}") from None
        if lock is None:
            raise LogBusy(
                f"the transparency log in {self._folder} is held by another process for {self._wait_seconds:g} s: "
                "wait for it to end, then run this again"
            )
        return lock


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, and sync their names to disk."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        keep_names(folder.parent)


def keep_names(folder: Path) -> None:
    """Sync the names in a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
