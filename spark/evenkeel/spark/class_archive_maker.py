"""Makes Java's archive of loaded classes (`class_archive`): a server of its own lists them, then Java writes them down.

Takes most of a minute, once for an installation. Ended anywhere, it leaves nothing that a server would use.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from evenkeel.errors import EngineError
from evenkeel.locks import held
from evenkeel.spark.class_archive import ClassArchive, archives_folder, of_this_installation
from evenkeel.spark.command import ServerSettings
from evenkeel.spark.gateway import classes_folder
from evenkeel.spark.home import OWNER_ONLY, Home
from evenkeel.spark.java import server_java, spark_home
from evenkeel.spark.server import engine_for
from evenkeel.spark.session import close, connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_SECONDS = 600.0
_MADE_FOR = "made-for"


def make() -> bool:
    """Makes the archive of this installation; False where it is there already.

    Archives of Sparks that are gone, and earlier ones of this Spark, are removed. EngineError says why there is none.
    """
    archive, folder = of_this_installation(), archives_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with held(folder / ".lock", wait_seconds=MOST_SECONDS) as is_held:
        if not is_held:
            raise EngineError(f"{folder} is in use by another `evenkeel engine prepare` for too long")
        if archive.is_usable():
            return False
        archive.folder.mkdir(OWNER_ONLY, exist_ok=True)
        archive.folder.chmod(OWNER_ONLY)
        (archive.folder / _MADE_FOR).write_text(str(spark_home()), encoding="utf-8")
        try:
            with tempfile.TemporaryDirectory(prefix="evenkeel-") as scratch:
                listed = _list_classes(archive, Path(scratch))
                _write_archive(archive, listed)
        except BaseException:
            shutil.rmtree(archive.folder, ignore_errors=True)
            raise
        remove_old(folder, archive)
        return True


def remove_old(folder: Path, kept: ClassArchive) -> None:
    """Removes from `folder` what was made for this Spark before, and for a Spark that is no longer there."""
    for mark in folder.glob(f"*/{_MADE_FOR}"):
        made_for = Path(mark.read_text(encoding="utf-8"))
        if mark.parent != kept.folder and (made_for == spark_home() or not made_for.exists()):
            shutil.rmtree(mark.parent, ignore_errors=True)


def _list_classes(archive: ClassArchive, scratch: Path) -> Path:
    """Starts a server without an archive, has it work a little, and keeps its compiled class in the archive's jar."""
    listed = scratch / "classes.lst"
    settings = ServerSettings(java=("-Xshare:auto", f"-XX:DumpLoadedClassList={listed}"), class_archive=False)
    with engine_for(scratch, settings=settings) as engine:
        spark = connect(engine.url, "prepare")
        try:
            _work(spark, str(scratch / "table"))
        finally:
            close(spark)
        compiled = classes_folder(Home.of(scratch).folder)
        part = archive.jar.with_suffix(".part")
        with zipfile.ZipFile(part, "w") as jar:
            for path in sorted(compiled.rglob("*.class")):
                jar.write(path, path.relative_to(compiled))
        part.replace(archive.jar)
    return listed


def _work(spark: SparkSession, table: str) -> None:
    """What every cycle does with tables, once: most classes are loaded by then."""
    spark.sql(f"CREATE TABLE delta.`{table}` (part STRING, id BIGINT) USING delta PARTITIONED BY (part)").collect()
    for _ in range(2):
        rows = spark.sql("SELECT concat('p', id % 2) AS part, id FROM range(100)")
        rows.write.format("delta").mode("append").option("userMetadata", "prepare").save(table)
    found = spark.read.format("delta").load(table).where("part = 'p1'")
    found.groupBy("part").count().join(found.select("part").distinct(), "part").toPandas()
    spark.sql(f"DESCRIBE HISTORY delta.`{table}`").collect()


def _write_archive(archive: ClassArchive, listed: Path) -> None:
    part = archive.classes.with_suffix(".part")
    command = [
        *(str(server_java()), "-Xshare:dump", f"-XX:SharedClassListFile={listed}", f"-XX:SharedArchiveFile={part}"),
        *("-cp", os.pathsep.join(archive.class_path()), "-XX:+UseSerialGC"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=MOST_SECONDS, check=False)
    if done.returncode != 0 or not part.exists():
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise EngineError(f"Java wrote no archive of classes, exit code {done.returncode}: {lines[-1:] or 'no output'}")
    part.replace(archive.classes)
