"""When a server starts with Java's archive of classes, and what is left in the cache."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from evenkeel.spark import local_files
from evenkeel.spark.class_archive import OFF, VARIABLE, ClassArchive, class_archive, of_this_installation
from evenkeel.spark.class_archive_maker import make, remove_old
from evenkeel.spark.command import ServerSettings, server_command
from evenkeel.spark.home import Home, pid_of
from evenkeel.spark.java import CACHE_VARIABLE, cache_folder, delta_jars, spark_home
from evenkeel.spark.server import engine_for
from evenkeel.spark.session import close, connect


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClassArchive:
    """A place for the archive of this installation in a cache of its own, and files there that stand for it."""
    own_cache(tmp_path / "cache", monkeypatch)
    archive = of_this_installation()
    archive.folder.mkdir(parents=True, mode=0o700)
    for path in (archive.jar, archive.classes):
        path.write_bytes(b"")
        path.chmod(0o444)
    return archive


def own_cache(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jars = folder / "jars"
    jars.mkdir(parents=True)
    for jar in delta_jars():
        shutil.copy2(jar, jars)
    monkeypatch.setenv(CACHE_VARIABLE, str(folder))


def test_a_server_takes_the_archive_of_its_own_installation(archive: ClassArchive, tmp_path: Path) -> None:
    command = server_command(15002, tmp_path, ServerSettings(java=("-Xshare:off",)))
    assert command[command.index("-cp") + 1].split(os.pathsep)[0] == str(archive.jar)
    assert command.index(f"-XX:SharedArchiveFile={archive.classes}") < command.index("-Xshare:off")
    without = server_command(15002, tmp_path, ServerSettings(class_archive=False))
    assert not any("SharedArchiveFile" in word or str(archive.folder) in word for word in without)


def test_it_can_be_switched_off(archive: ClassArchive) -> None:
    assert class_archive({}) == archive
    assert class_archive({VARIABLE: OFF}) is None


@pytest.mark.parametrize("damage", ["folder", "jar", "classes"])
def test_what_others_may_write_is_not_used(archive: ClassArchive, damage: str) -> None:
    path: Path = getattr(archive, damage)
    path.chmod(path.stat().st_mode | 0o020)
    assert class_archive({}) is None


@pytest.mark.parametrize("part", ["jar", "classes"])
def test_half_an_archive_is_none(archive: ClassArchive, part: str) -> None:
    getattr(archive, part).unlink()
    assert class_archive({}) is None


def test_another_source_of_the_compiled_class_is_another_installation(
    archive: ClassArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_files, "SOURCE", "another")
    assert of_this_installation() != archive


def test_a_jar_that_was_changed_is_another_installation(archive: ClassArchive) -> None:
    jar = cache_folder() / "jars" / delta_jars()[0].name
    content = jar.read_bytes()
    jar.unlink()
    jar.write_bytes(content)
    os.utime(jar, (1, 1))
    assert of_this_installation() != archive


def test_earlier_archives_of_this_spark_go_and_those_of_a_spark_that_is_gone(
    archive: ClassArchive, tmp_path: Path
) -> None:
    there = tmp_path / "another-spark"
    there.mkdir()
    made_for = {"earlier": spark_home(), "gone": tmp_path / "removed", "elsewhere": there}
    for name, spark in made_for.items():
        folder = archive.folder.with_name(name)
        folder.mkdir()
        (folder / "made-for").write_text(str(spark))
    (archive.folder / "made-for").write_text(str(spark_home()))
    remove_old(archive.folder.parent, archive)
    assert sorted(path.name for path in archive.folder.parent.iterdir()) == sorted(["elsewhere", archive.folder.name])


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.exhaustive
def test_servers_start_with_an_archive_that_was_made_and_without_one_that_is_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_cache(tmp_path / "cache", monkeypatch)
    assert make()
    assert not make()
    archive = of_this_installation()
    assert archive.is_usable()
    assert serves(tmp_path / "with", archive)
    archive.classes.chmod(0o600)
    with archive.classes.open("r+b") as file:
        file.seek(file.seek(0, os.SEEK_END) // 2)
        file.write(os.urandom(64))
    assert not serves(tmp_path / "damaged", archive)


def serves(home: Path, archive: ClassArchive) -> bool:
    """Starts a server and writes a table; whether Java has the archive in memory. Its log tells nothing of archives."""
    home.mkdir()
    with engine_for(home, settings=ServerSettings(memory="512m")) as engine:
        spark = connect(engine.url)
        spark.range(3).write.format("delta").save(str(home / "table"))
        close(spark)
        assert list((home / "table").glob(".*.crc")) == []
        log = Home.of(home).log.read_text().lower()
        assert not any(word in log for word in ("cds", "archive", "sharing"))
        return str(archive.classes) in Path(f"/proc/{pid_of(engine.server)}/maps").read_text()
