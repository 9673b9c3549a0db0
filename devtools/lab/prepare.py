"""Files made once for a release and a Java, and cached: jars, class archive, an empty cluster's metadata.

The archive contains the classes that a training cluster loaded, already read and checked; starting from it takes half
the CPU time. The metadata are ZooKeeper's files as Pulsar's own set-up leaves them. They are copied at every start,
which saves another JVM.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from devtools.lab.command import Java, class_path_text
from devtools.lab.errors import LabError
from devtools.lab.releases import lock_digest, lock_of
from evenkeel.spark.jars import cache_folder, locked_jars, resolve, server_java

LOG = logging.getLogger(__name__)
RECIPE = 1  # a higher number makes everything again
ARCHIVE_SECONDS = 600


@dataclass(frozen=True, slots=True)
class Prepared:
    """Inputs of a start: Java with jars and archive, and the folder of ZooKeeper's files of an empty cluster."""

    java: Java
    metadata: Path


def prepare(version: str) -> Prepared:
    """Fetch and make the missing files: a minute or two the first time, then a quick check. Raises EvenkeelError."""
    folder = cache_folder() / "pulsar" / version / _fingerprint(version)
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder / "lock"):
        class_path = tuple(resolve(locked_jars(lock_of(version))))
        archive, metadata = folder / "classes.jsa", folder / "metadata"
        if not archive.exists() or not metadata.exists():
            _make(version, class_path, folder)
    return Prepared(Java(class_path, archive), metadata)


def _make(version: str, class_path: tuple[Path, ...], folder: Path) -> None:
    from devtools.lab.training import train

    LOG.info("making the class archive of Pulsar %s (once; about a minute)", version)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        lists = Path(scratch) / "lists"
        lists.mkdir()
        metadata = train(version, Java(class_path, class_lists=lists), Path(scratch))
        archive = Path(scratch) / "classes.jsa"
        _dump(class_path, lists, archive)
        shutil.rmtree(folder / "metadata", ignore_errors=True)
        metadata.replace(folder / "metadata")
        archive.replace(folder / "classes.jsa")


def _dump(class_path: tuple[Path, ...], lists: Path, archive: Path) -> None:
    """Make one archive for all JVMs of a cluster, of every class that one of them has loaded.

    A JVM that was killed leaves half a line at the end of its list, which Java would refuse.
    """
    merged = lists / "all"
    whole = (file.read_text().rpartition("\n")[0].splitlines() for file in sorted(lists.iterdir()))
    lines = dict.fromkeys(line for file_lines in whole for line in file_lines)
    merged.write_text("\n".join(lines) + "\n")
    command = [str(server_java()), "-Xshare:dump", "-XX:+UseSerialGC", "-Xmx512m", "-Xlog:disable", "-Xlog:all=error"]
    command += [f"-XX:SharedClassListFile={merged}", f"-XX:SharedArchiveFile={archive}"]
    log = lists / "dump.log"
    with log.open("wb") as output:
        subprocess.run(
            [*command, "-cp", class_path_text(class_path)],
            stdout=output,
            stderr=output,
            timeout=ARCHIVE_SECONDS,
            check=False,
        )
    if not archive.exists():
        raise LabError(f"Java made no class archive. Its output:\n{log.read_text(errors='replace')[-2_000:]}")


def _fingerprint(version: str) -> str:
    """Return a digest of all inputs of the prepared files."""
    facts = f"{RECIPE}\0{lock_digest(version)}\0{_java_version(server_java())}"
    return hashlib.sha256(facts.encode()).hexdigest()[:16]


@cache
def _java_version(java: Path) -> str:
    done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    return f"{java.resolve()}\0{done.stderr}"


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Wait for another process that prepares the same."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
