"""A table's files that this process reads itself: in a folder, or in an object store that speaks S3."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenkeel import object_store
from evenkeel.errors import LakeError
from evenkeel.folders import links_in, make_folder, open_below, sync
from evenkeel.object_store import SCHEME, StoreAccess, bucket_of, canonical, is_object_store

if TYPE_CHECKING:
    from deltalake import DeltaTable

_FILE = "file://"
_LOG = "_delta_log"
_AT_ONCE_BYTES = 64 << 20
"""Size in bytes up to which an object is fetched whole: Arrow requests each column by itself, and the answer to a
request takes longer than its bytes."""
_READ_AT_ONCE = 16 << 20


@dataclass(frozen=True, slots=True)
class FolderFiles:
    """A table in a folder of this machine. Names are paths below the folder, with `/`."""

    folder: str

    def full(self, name: str) -> str:
        """Return the file's path, as Spark takes it too."""
        return f"{self.folder}/{name}"

    def read(self, name: str, most: int = -1) -> bytes:
        """Return all bytes of a file, or the first `most`; raises FileNotFoundError if it does not exist."""
        with self._opened(name) as file:
            return file.read(most)

    def exists(self, name: str) -> bool:
        """Return True if the file exists."""
        try:
            return stat.S_ISREG(os.lstat(self.full(name)).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def names(self, below: str) -> list[str]:
        """Return the names of the files directly in a folder; none if the folder does not exist."""
        place = Path(self.folder, below)
        return [file.name for file in place.iterdir()] if place.is_dir() else []

    def sizes(self, below: str = "") -> Iterator[int]:
        """Yield the bytes of each file in a folder and all below it."""
        for path in Path(self.folder, below).rglob("*"):
            try:
                if stat.S_ISREG((status := path.lstat()).st_mode):
                    yield status.st_size
            except FileNotFoundError:  # a writer's temporary file
                continue

    def has_folder(self, below: str) -> bool:
        """Return True if the folder exists."""
        return Path(self.folder, below).is_dir()

    def size_and_digest(self, name: str) -> tuple[int, str]:
        """Return the bytes of a file and their SHA-256 (hex)."""
        with self._opened(name) as file:
            return os.fstat(file.fileno()).st_size, hashlib.file_digest(file, "sha256").hexdigest()

    def copy_to(self, name: str, target: Path) -> None:
        """Copy a file to a new one, whose folder is made."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with self._opened(name) as file, target.open("xb") as out:
            shutil.copyfileobj(file, out, _READ_AT_ONCE)

    def write_new(self, name: str, data: bytes) -> None:
        """Write a new file durably; raises OSError if it exists or cannot be written."""
        place = Path(self.folder, name)
        make_folder(place.parent)
        with os.fdopen(open_below(self.folder, name, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        sync(place.parent)

    def sync(self, names: Iterable[str]) -> None:
        """Sync files and the folders of their names to disk, in this order, up to the table's own folder."""
        places = dict.fromkeys(place for name in names for place in (Path(name), *Path(name).parents))
        for place in places:
            sync(Path(self.folder, place))

    def _opened(self, name: str) -> BufferedReader:
        return os.fdopen(open_below(self.folder, name), "rb")

    def modified(self, below: str) -> dict[str, float]:
        """Return name -> seconds since 1970 of the last change, of the files directly in a folder."""
        place = Path(self.folder, below)
        return {file.name: file.stat().st_mtime for file in place.iterdir()} if place.is_dir() else {}

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        Path(self.folder, name).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class StoreFiles:
    """A table in an object store. Names are keys below the table's own."""

    address: str

    def full(self, name: str) -> str:
        """Return the object's address, as Spark takes it."""
        return f"{self.address}/{name}"

    def _key(self, name: str) -> str:
        return self.full(name).removeprefix(SCHEME).rstrip("/")

    def read(self, name: str, most: int | None = None) -> bytes:
        """Return all bytes of an object, or the first `most`; raises FileNotFoundError if it does not exist."""
        with self._well_told(name), _arrow().open_input_stream(self._key(name)) as opened:
            return bytes(opened.read(most))

    def exists(self, name: str) -> bool:
        """Return True if the object exists, by one request; Arrow's question for it also looks for a folder."""
        try:
            with self._well_told(name), _arrow().open_input_file(self._key(name)):
                return True
        except FileNotFoundError:
            return False

    def has_bucket(self) -> bool:
        """Return True if the bucket exists."""
        from pyarrow.fs import FileType

        with self._well_told("_"):
            bucket = bucket_of(self.address)
            return bool(_arrow().get_file_info(bucket).type != FileType.NotFound)

    @contextmanager
    def _well_told(self, name: str) -> Iterator[None]:
        """Raise the store's full error: its answer to a HEAD has only a status, so a listing is requested."""
        try:
            yield
        except FileNotFoundError:
            raise
        except OSError:
            self._listed(f"{name}/_", recursive=False)
            raise

    def names(self, below: str) -> list[str]:
        """Return the names of the objects directly below a key."""
        return [info.base_name for info in self._listed(below, recursive=False)]

    def sizes(self, below: str = "") -> Iterator[int]:
        """Yield the bytes of each object below a key."""
        return (int(info.size) for info in self._listed(below, recursive=True))

    def modified(self, below: str) -> dict[str, float]:
        """Return name -> seconds since 1970 of the last change, of the objects directly below a key."""
        return {info.base_name: info.mtime.timestamp() for info in self._listed(below, recursive=False)}

    def _listed(self, below: str, *, recursive: bool) -> list[Any]:
        from pyarrow.fs import FileSelector, FileType

        selector = FileSelector(self._key(below), recursive=recursive, allow_not_found=True)
        return [info for info in _arrow().get_file_info(selector) if info.type == FileType.File]

    def has_folder(self, below: str) -> bool:
        """Return True if there is any object below a key."""
        return bool(self._listed(below, recursive=False))

    def size_and_digest(self, name: str) -> tuple[int, str]:
        """Return the bytes of an object and their SHA-256 (hex)."""
        digest, size = hashlib.sha256(), 0
        with _arrow().open_input_stream(self._key(name)) as opened:
            while part := opened.read(_READ_AT_ONCE):
                digest.update(part)
                size += len(part)
        return size, digest.hexdigest()

    def copy_to(self, name: str, target: Path) -> None:
        """Copy an object to a new file, whose folder is made."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with _arrow().open_input_stream(self._key(name)) as opened, target.open("xb") as file:
            shutil.copyfileobj(opened, file, _READ_AT_ONCE)

    def write_new(self, name: str, data: bytes) -> None:
        """Write an object under a new name; raises OSError if it exists or cannot be written."""
        with _arrow().open_output_stream(self._key(name)) as opened:
            opened.write(data)

    def sync(self, names: Iterable[str]) -> None:
        """Do nothing: a store keeps what it has acknowledged."""

    def remove(self, name: str) -> None:
        """Remove an object, if it is there."""
        try:
            _arrow().delete_file(self._key(name))
        except FileNotFoundError:
            return


TableFiles = FolderFiles | StoreFiles


def files_of(path: str) -> TableFiles:
    """Return the files of the table at `path`, a folder or an address in a store that speaks S3.

    Raises LakeError for any other address.
    """
    if is_object_store(path):
        return StoreFiles(canonical(path))
    if "://" in path and not path.startswith(_FILE):
        scheme = path.partition("://")[0]
        raise LakeError(
            f"{scheme}://…: a lake is in a folder, or in an object store that speaks S3 (s3a://bucket/prefix)"
        )
    return FolderFiles(path.removeprefix(_FILE).rstrip("/") or "/")


def links_at(address: str, *, is_deep: bool = True) -> Iterator[Path]:
    """Yield the symbolic links below a lake or table: all, or those directly in it; none in an object store."""
    files = files_of(address)
    if isinstance(files, FolderFiles):
        yield from links_in(Path(files.folder), is_deep=is_deep)


def demand_no_links(address: str, *, is_deep: bool = True) -> None:
    """Raise LakeError for a lake or table with a symbolic link below it: a copy, VACUUM and writers would follow it."""
    for link in links_at(address, is_deep=is_deep):
        raise LakeError(
            f"{link} is a symbolic link, by which readers and upkeep would leave the lake; nothing was written. Remove "
            "it, and mount a disk in its place if its files have to lie elsewhere"
        )


def arrow_source(file: str) -> Any:
    """Return Arrow's source for a data file, given by its `TableFiles.full` name."""
    if not is_object_store(file):
        return file
    import pyarrow as pa

    system = _arrow()
    key = file.removeprefix(SCHEME)
    with system.open_input_file(key) as opened:
        if opened.size() <= _AT_ONCE_BYTES:
            return pa.BufferReader(opened.read_buffer())
    return system.open_input_file(key)


def row_count(file: str) -> int:
    """Return the number of rows of a data file, by its footer."""
    from pyarrow.parquet import read_metadata

    if not is_object_store(file):
        return int(read_metadata(file).num_rows)
    with _arrow().open_input_file(file.removeprefix(SCHEME)) as opened:
        return int(read_metadata(opened).num_rows)


def arrow_place(path: str) -> tuple[str, Any]:
    """Return the table's folder as Arrow's own file system has it: path and file system."""
    from pyarrow.fs import LocalFileSystem

    files = files_of(path)
    if isinstance(files, StoreFiles):
        return files.address.removeprefix(SCHEME), _arrow()
    return str(Path(files.folder).resolve()), LocalFileSystem()


def _arrow() -> Any:
    return _arrow_of(object_store.access())


@lru_cache(maxsize=4)
def _arrow_of(access: StoreAccess) -> Any:
    return access.for_arrow()


# Tables as deltalake opens them. Only this module names its classes with a path.


def storage_options(path: str) -> dict[str, str] | None:
    """Return deltalake's options for the store; None for a folder, and for a store that it knows by itself."""
    return object_store.access().for_deltalake() if is_object_store(path) else None


def delta_table(path: str) -> DeltaTable:
    """Return the table as its log describes it; raises what deltalake raises."""
    from deltalake import DeltaTable

    return DeltaTable(path, storage_options=storage_options(path))


def load_libraries(lake: str) -> None:
    """Import all that reads the tables of a lake.

    It is for callers that start threads: two must not import one package at once.
    """
    import deltalake  # noqa: F401
    import numpy  # noqa: F401
    import pyarrow.compute
    import pyarrow.dataset
    import pyarrow.fs
    import pyarrow.parquet  # noqa: F401

    object_store.load_client(lake)


def is_delta_table(path: str) -> bool:
    """Return True if `path` has a table; raises OSError for a store that cannot be asked, where deltalake says no.

    Raises PermissionError for a folder that this user may not look into, where deltalake says no too.
    """
    from deltalake import DeltaTable

    files = files_of(path)
    if not isinstance(files, StoreFiles):
        if DeltaTable.is_deltatable(path):
            return True
        with suppress(FileNotFoundError, NotADirectoryError):
            os.scandir(Path(path.removeprefix("file://"), _LOG)).close()
        return False
    known = (f"{_LOG}/_last_checkpoint", f"{_LOG}/{0:020d}.json")
    if any(files.exists(name) for name in known):
        return True
    if any(name.endswith((".json", ".parquet")) and name[:20].isdigit() for name in files.names(_LOG)):
        return True
    if not files.has_bucket():
        raise OSError(f"NoSuchBucket: {path}")
    return False
