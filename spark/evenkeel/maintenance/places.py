"""A lake's files for copying: in a folder of this machine, or below a key of a bucket.

A copied file exists whole under its name or not at all; in a folder it also outlives the machine's end.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from evenkeel.folders import open_below
from evenkeel.lake.table_files import arrow_place
from evenkeel.object_store import is_object_store

_AT_ONCE_BYTES = 16 << 20
_PART = ".part-"
_ABANDONED_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class LakePlace:
    """A folder, or all objects below a key. Names are paths below it, with `/`."""

    address: str
    root: str
    system: Any
    """Arrow's file system."""

    @classmethod
    def at(cls, address: str) -> LakePlace:
        """Return the place at an address.

        Raises LakeError for a store that does not speak S3, and SettingsError if its credentials are missing.
        """
        root, system = arrow_place(address)
        return cls(address, root.rstrip("/"), system)

    @property
    def in_store(self) -> bool:
        """True if it is in an object store."""
        return is_object_store(self.address)

    def holds(self, other: LakePlace) -> bool:
        """Return True if the other is this place, or below it."""
        return self.in_store == other.in_store and f"{other.root}/".startswith(f"{self.root}/")

    def folders(self) -> list[str]:
        """Return the names of the folders directly in it, sorted."""
        from pyarrow.fs import FileSelector, FileType

        entries = self.system.get_file_info(FileSelector(self.root, allow_not_found=True))
        return sorted(info.base_name for info in entries if info.type == FileType.Directory)

    def files(self, below: str = "") -> dict[str, int]:
        """Return name -> bytes of every file in a folder and all below it; none if the folder does not exist.

        Files and folders whose name begins with a dot are not part of a lake: locks, and parts of files.
        """
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(self._full(below), recursive=True, allow_not_found=True)
        entries = self.system.get_file_info(selector)
        cut = len(self.root) + 1
        files = {info.path[cut:]: int(info.size) for info in entries if info.type == FileType.File}
        return {name: size for name, size in files.items() if "/." not in f"/{name}"}

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if it does not exist."""
        try:
            with self._opened(name) as opened:
                return bytes(opened.read())
        except FileNotFoundError:
            return None

    def put(self, name: str, data: bytes) -> None:
        """Make or replace a file."""
        with self._new(name) as out:
            out.write(data)

    def take(self, other: LakePlace, name: str) -> int | None:
        """Copy a file of another place, and return its bytes; None if it no longer exists."""
        try:
            opened = other._opened(name)
        except FileNotFoundError:
            return None
        with opened, self._new(name) as out:
            return sum(out.write(part) for part in iter(lambda: opened.read(_AT_ONCE_BYTES), b""))

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        try:
            self.system.delete_file(self._full(name))
        except FileNotFoundError:
            return

    def clear(self) -> None:
        """Remove parts of files that killed copying left a day ago or earlier."""
        if self.in_store:
            return
        for part in Path(self.root).rglob(f"{_PART}*"):
            with suppress(FileNotFoundError):
                if part.stat().st_mtime < time.time() - _ABANDONED_SECONDS:
                    part.unlink()

    def _opened(self, name: str) -> IO[bytes] | Any:
        full = self._full(name)
        return self.system.open_input_stream(full) if self.in_store else os.fdopen(open_below(self.root, name), "rb")

    def _full(self, name: str) -> str:
        return f"{self.root}/{name}".rstrip("/")

    @contextmanager
    def _new(self, name: str) -> Iterator[IO[bytes] | Any]:
        if self.in_store:
            with self.system.open_output_stream(self._full(name)) as out:
                yield out
            return
        path = Path(self._full(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{_PART}{uuid.uuid4().hex}")
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with os.fdopen(open_below(self.root, str(part.relative_to(self.root)), flags), "wb") as out:
                yield out
                out.flush()
                os.fsync(out.fileno())
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)
