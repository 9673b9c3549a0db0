"""Java's archive of classes, with which a Spark server starts sooner: where it lies, and when it is used.

Java reads and checks some fifteen thousand classes whenever a server starts. An archive (class data sharing) holds them
as they are in memory. `class_archive_maker` makes it once for an installation, in `<cache>/java/<fingerprint>/`, beside
the jar of the class that would be compiled at every start. Servers only read it. Java checks itself that an archive is
of this very Java and class path, and goes on without one that is not.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evenkeel.spark import local_files, object_store_files
from evenkeel.spark.java import cache_folder, delta_jars, object_store_jars, server_java, spark_home

VARIABLE = "EVENKEEL_CLASS_ARCHIVE"
OFF = "off"
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The folder of one installation's archive, whether or not there is one."""

    folder: Path

    @property
    def jar(self) -> Path:
        """The compiled class of `local_files`; first on the class path of archive and server."""
        return self.folder / "local-files.jar"

    @property
    def classes(self) -> Path:
        """Java's archive: some 200 MB."""
        return self.folder / "classes.jsa"

    def is_usable(self) -> bool:
        """Whether it is there, whole, and nobody but this user and root can have written it."""
        try:
            found = [path.stat() for path in (self.folder, self.jar, self.classes)]
        except OSError:
            return False
        return all(one.st_uid in (0, os.geteuid()) and not one.st_mode & _WRITABLE_BY_OTHERS for one in found)

    def class_path(self) -> list[str]:
        """What the archive's classes come from, in the order in which Java looks for them."""
        return [str(self.jar), *libraries()]

    def options(self) -> list[str]:
        """Java's options to use it; where it does not fit, or its sums are not those of its content, Java says nothing
        and goes on without."""
        return [f"-XX:SharedArchiveFile={self.classes}", "-Xshare:auto", "-XX:+VerifySharedSpaces", "-Xlog:cds=off"]


def class_archive(environment: Mapping[str, str] = os.environ) -> ClassArchive | None:
    """The archive that a server may start with; None where there is none, or EVENKEEL_CLASS_ARCHIVE is `off`."""
    if environment.get(VARIABLE) == OFF:
        return None
    found = of_this_installation()
    return found if found.is_usable() else None


def of_this_installation() -> ClassArchive:
    """The archive's place for the Java, jars and compiled class of now; it changes with each of them."""
    return ClassArchive(archives_folder() / fingerprint())


def archives_folder() -> Path:
    """The folder that holds an archive for each installation that uses this cache."""
    return cache_folder() / "java"


def fingerprint() -> str:
    """Names Java, all jars in the order of the class path, and the source of the compiled class: 16 hex digits."""
    digest = hashlib.sha256((local_files.SOURCE + object_store_files.SOURCE).encode())
    for path in (str(server_java().resolve()), *libraries()):
        found = os.stat(path)
        digest.update(f"{path}\0{found.st_size}\0{int(found.st_mtime)}\0".encode())  # what Java itself looks at
    return digest.hexdigest()[:16]


def libraries() -> list[str]:
    """The class path: Delta, Spark, and last, where nobody looks before, the jars for object stores if they are there.

    Jar by jar, since Java takes `*` in the order of the folder on the disk, and refuses an archive of another order.
    """
    of_spark = sorted((spark_home() / "jars").glob("*.jar"))
    return [*map(str, delta_jars()), *map(str, of_spark), *map(str, object_store_jars())]
