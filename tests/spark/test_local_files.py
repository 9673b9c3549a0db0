"""Files as the JVM keeps them: compared with Hadoop's own way, in small JVMs without Spark."""

import os
import re
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from evenkeel.lake.one_writer import WRITER_FILE, refusal_in, writer_of
from evenkeel.spark.file_systems import settings
from evenkeel.spark.server import Engine
from evenkeel.spark.session import close, connect
from tests.lake.lock_holder import held
from tests.spark.ended_processes import ended_processes
from tests.spark.small_jvms import frozen, running
from tests.system_calls import are_in_order, needs_strace, system_calls

pytestmark = pytest.mark.spark
OWN = {key.removeprefix("spark.hadoop."): value for key, value in settings(Path("/nowhere")).items()}
HADOOPS = {
    "fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
    "fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.LocalFs",
}


@dataclass(frozen=True)
class Files:
    """Hadoop's file system and file context for `file:` in a JVM, as the settings given name them."""

    gateway: Any
    system: Any
    context: Any
    settings: Any

    def path(self, place: Path) -> Any:
        return self.gateway.jvm.org.apache.hadoop.fs.Path(str(place))

    def mode(self, octal: int) -> Any:
        return self.gateway.jvm.org.apache.hadoop.fs.permission.FsPermission(f"{octal:o}")

    def write(self, place: Path, text: str, *, overwrite: bool = False) -> None:
        stream = self.system.create(self.path(place), overwrite)
        stream.write(text.encode())
        stream.close()

    def read(self, place: Path) -> str:
        stream = self.system.open(self.path(place))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def listed(self, folder: Path) -> list[str]:
        return sorted(found.getPath().getName() for found in self.system.listStatus(self.path(folder)))

    def rename(self, source: Path, target: Path) -> None:
        """Asks the file context's own file system, which by itself does not look whether the name is taken."""
        root = self.gateway.jvm.java.net.URI.create("file:///")
        found = self.gateway.jvm.org.apache.hadoop.fs.AbstractFileSystem.get(root, self.settings)
        found.renameInternal(self.path(source), self.path(target), False)

    def commit(self, place: Path, text: str, *, overwrite: bool = False) -> None:
        """Writes one line by the log store that Delta takes for `file:`."""
        lines = self.gateway.jvm.java.util.ArrayList()
        lines.add(text)
        store = self.gateway.jvm.io.delta.storage.HDFSLogStore(self.settings)
        store.write(self.path(place), lines.iterator(), overwrite, self.settings)

    def commits(self, place: Path, text: str) -> bool:
        """Whether this very text came to be the commit of that name, and no other had come to be it before."""
        try:
            self.commit(place, text)
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() != "java.nio.file.FileAlreadyExistsException":
                raise
            return False
        return True


def files_in(gateway: Any, settings: dict[str, str]) -> Files:
    conf = gateway.jvm.org.apache.hadoop.conf.Configuration()
    for key, value in settings.items():
        conf.set(key, value)
    conf.set("fs.file.impl.disable.cache", "true")
    root = gateway.jvm.java.net.URI.create("file:///")
    system = gateway.jvm.org.apache.hadoop.fs.FileSystem.get(root, conf)
    context = gateway.jvm.org.apache.hadoop.fs.FileContext.getFileContext(root, conf)
    return Files(gateway, system, context, conf)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with running(tmp_path_factory.mktemp("classes")) as started:
        yield started


@pytest.fixture
def own(gateway: Any) -> Files:
    return files_in(gateway, OWN)


@pytest.fixture
def hadoops(gateway: Any) -> Files:
    return files_in(gateway, HADOOPS)


def work(files: Files, folder: Path) -> dict[str, int]:
    """What a table's commit does with files, and more; the modes that came of it."""
    system, path = files.system, files.path
    system.mkdirs(path(folder / "made" / "part=1"))
    files.write(folder / "made" / "part=1" / "rows", "rows")
    files.commit(folder / "made" / "0.json", "{}")
    files.commit(folder / "made" / "last", "1")
    files.commit(folder / "made" / "last", "2", overwrite=True)
    files.write(folder / "made" / "moved.tmp", "moved")
    assert system.rename(path(folder / "made" / "moved.tmp"), path(folder / "made" / "moved"))
    files.write(folder / "made" / "private", "hush")
    system.setPermission(path(folder / "made" / "private"), files.mode(0o600))
    system.mkdirs(path(folder / "made" / "open"), files.mode(0o777))
    for found in system.listStatus(path(folder / "made")):
        there = Path(found.getPath().toUri().getPath())
        assert found.getPermission().toShort() == stat.S_IMODE(there.stat().st_mode)
        assert (found.getOwner(), found.getGroup()) == (there.owner(), there.group())
        assert found.getModificationTime() == there.stat().st_mtime_ns // 1_000_000
        assert found.isDirectory() == there.is_dir()
        assert found.isDirectory() or found.getLen() == there.stat().st_size
    assert files.read(folder / "made" / "last") == "2\n"
    assert files.read(folder / "made" / "moved") == "moved"
    assert files.listed(folder / "made" / "moved") == ["moved"]
    assert not system.exists(path(folder / "made" / "gone"))
    files.write(folder / "made" / "gone", "gone")
    assert system.delete(path(folder / "made" / "gone"), False)
    return {
        str(place.relative_to(folder)): stat.S_IMODE(place.stat().st_mode)
        for place in sorted(folder.rglob("*"))
        if not place.name.endswith(".crc")
    }


def test_files_are_as_hadoop_makes_them_without_checksum_files_and_processes(
    own: Files, hadoops: Files, tmp_path: Path
) -> None:
    pid = own.gateway.java_process.pid
    (tmp_path / "own").mkdir()
    (tmp_path / "hadoop").mkdir()
    work(own, tmp_path / "own")  # classes are loaded once, and some of Hadoop's ask by a process who the user is
    before = ended_processes(pid)
    own.system.delete(own.path(tmp_path / "own" / "made"), True)
    modes = work(own, tmp_path / "own")
    assert ended_processes(pid) == before
    assert list(tmp_path.rglob("*.crc")) == []
    assert modes == work(hadoops, tmp_path / "hadoop")
    assert ended_processes(pid) > before, "else this test sees no processes"
    assert list(tmp_path.rglob("*.crc")), "else this test sees no checksum files"


def test_a_folder_keeps_the_bit_by_which_new_files_take_over_its_group(
    own: Files, hadoops: Files, tmp_path: Path
) -> None:
    for files, name in ((own, "own"), (hadoops, "hadoop")):
        shared = tmp_path / name
        shared.mkdir()
        shared.chmod(0o2775)
        files.system.mkdirs(files.path(shared / "below"))
        assert stat.S_IMODE((shared / "below").stat().st_mode) == 0o2755
        files.system.setPermission(files.path(shared), files.mode(0o700))
        assert stat.S_IMODE(shared.stat().st_mode) == 0o2700


def test_what_is_not_there_is_told_as_hadoop_tells_it(own: Files, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "gone", tmp_path / "file" / "below"):
        for asked in (own.system.getFileStatus, own.system.listStatus, own.context.getFileStatus, own.system.open):
            with pytest.raises(Py4JJavaError) as caught:
                asked(own.path(place))
            assert caught.value.java_exception.getClass().getName() == "java.io.FileNotFoundException"


def test_a_link_is_followed_and_shown_as_hadoop_does(own: Files, hadoops: Files, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("four")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    for files in (own, hadoops):
        assert files.system.getFileStatus(files.path(tmp_path / "link")).getLen() == 4
        shown = files.system.getFileLinkStatus(files.path(tmp_path / "link"))
        assert shown.isSymlink()
        assert shown.getSymlink().toString() == f"file:{tmp_path / 'file'}"


def test_a_checksum_file_of_an_earlier_version_is_not_read_and_goes_with_its_file(
    own: Files, hadoops: Files, tmp_path: Path
) -> None:
    names = ("rewritten", "removed", "committed", "kept")
    for name in names:
        hadoops.write(tmp_path / name, "as it was")
        (tmp_path / name).write_text("by another")
    assert {f".{name}.crc" for name in names} <= {place.name for place in tmp_path.iterdir()}
    assert [own.read(tmp_path / name) for name in names] == ["by another"] * 4
    assert own.listed(tmp_path) == sorted(names)

    own.write(tmp_path / "rewritten", "anew", overwrite=True)
    own.system.delete(own.path(tmp_path / "removed"), False)
    own.commit(tmp_path / "committed", "anew", overwrite=True)
    assert sorted(place.name for place in tmp_path.iterdir()) == [".kept.crc", "committed", "kept", "rewritten"]
    assert [hadoops.read(tmp_path / name) for name in ("rewritten", "committed")] == ["anew", "anew\n"]


def test_a_name_that_another_took_meanwhile_is_left_to_it(own: Files, tmp_path: Path) -> None:
    """Delta looks before it asks for the name; here the other comes between the two."""
    (tmp_path / "0.json").write_text("theirs")
    (tmp_path / "0.json.tmp").write_text("ours")
    with pytest.raises(Py4JJavaError, match="FileAlreadyExistsException"):
        own.rename(tmp_path / "0.json.tmp", tmp_path / "0.json")
    assert (tmp_path / "0.json").read_text() == "theirs"
    assert (tmp_path / "0.json.tmp").read_text() == "ours"


def test_a_name_that_was_given_though_its_answer_was_lost_is_ours(own: Files, tmp_path: Path) -> None:
    (tmp_path / "0.json.tmp").write_text("ours")
    (tmp_path / "0.json").hardlink_to(tmp_path / "0.json.tmp")
    own.rename(tmp_path / "0.json.tmp", tmp_path / "0.json")
    assert [place.name for place in tmp_path.iterdir()] == ["0.json"]


def test_a_file_is_not_lost_where_its_new_name_is_its_own(own: Files, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").symlink_to(tmp_path / "here")
    (tmp_path / "here" / "file").write_text("text")
    (tmp_path / "here" / "link").symlink_to(tmp_path / "here" / "file")
    for target in (tmp_path / "here" / "file", tmp_path / "there" / "file", tmp_path / "here" / "link"):
        with pytest.raises(Py4JJavaError, match="FileAlreadyExistsException"):
            own.rename(tmp_path / "here" / "file", target)
        assert target.read_text() == "text"


@pytest.mark.parametrize("times", [500, pytest.param(2_000, marks=pytest.mark.exhaustive)])
def test_of_a_file_that_comes_and_goes_it_says_there_or_not_and_never_fails(
    own: Files, tmp_path: Path, times: int
) -> None:
    """Delta asks whether a version is there while others write it."""
    place = tmp_path / "0.json"
    is_over = Event()

    def comes_and_goes() -> None:
        while not is_over.is_set():
            place.touch()
            place.unlink()

    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(comes_and_goes)
        try:
            for _ in range(times):
                own.context.util().exists(own.path(place))
        finally:
            is_over.set()
        coming.result()


def races(both: tuple[Files, Files], folder: Path, times: int) -> int:
    """Two JVMs write each version at the same time, past the lock; how many commits were acknowledged and are lost."""
    lost = 0
    with ThreadPoolExecutor(2) as pool:
        for version in range(times):
            place = folder / f"{version:020}.json"
            texts = [f"writer {number}" for number in range(2)]
            won = list(pool.map(lambda files, text, place=place: files.commits(place, text), both, texts))
            there = place.read_text()
            assert there in [f"{text}\n" for text in texts]
            lost += sum(is_told and there != f"{text}\n" for is_told, text in zip(won, texts, strict=True))
    return lost


@pytest.mark.parametrize("times", [50, pytest.param(1_000, marks=[pytest.mark.exhaustive, pytest.mark.slow])])
def test_of_two_jvms_that_write_one_version_one_succeeds(
    own: Files, hadoops: Files, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, times: int
) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "hadoops").mkdir()
    with running(tmp_path_factory.mktemp("others")) as other:
        assert races((own, files_in(other, OWN)), tmp_path / "own", times) == 0
        assert len(list((tmp_path / "own").iterdir())) == times
        if times == 1_000:
            assert races((hadoops, files_in(other, HADOOPS)), tmp_path / "hadoops", times), "what this test can see"


@pytest.mark.skipif(
    not Path("/dev/shm").is_dir() or Path("/dev/shm").stat().st_dev == Path("/tmp").stat().st_dev,
    reason="needs a second disk",
)
def test_where_the_disk_gives_no_second_name_a_file_is_moved_as_hadoop_does(own: Files, tmp_path: Path) -> None:
    """Seen here from one disk to another; a disk without hard links answers alike."""
    place = Path("/dev/shm") / f"evenkeel-{os.getpid()}"
    source = tmp_path / "source"
    source.write_text("text")
    try:
        own.rename(source, place)
        assert place.read_text() == "text"
        assert not source.exists()
        source.write_text("another")
        with pytest.raises(Py4JJavaError, match="FileAlreadyExistsException"):
            own.rename(source, place)
        assert place.read_text() == "text"
    finally:
        place.unlink(missing_ok=True)


# A power cut: what was acknowledged is on disk.


@needs_strace
def test_a_commit_is_on_disk_before_it_has_its_name_and_after_the_files_that_it_names(
    own: Files, tmp_path: Path
) -> None:
    log = commit_of(tmp_path, 0).parent
    own.commit(log / f"{0:020}.json", "the lock is taken")
    with system_calls(own.gateway.java_process.pid, tmp_path / "calls") as calls:
        own.system.mkdirs(own.path(tmp_path / "table" / "part=1"))
        own.write(tmp_path / "table" / "part=1" / "rows", "rows")
        own.commit(log / f"{1:020}.json", "first")
        own.commit(log / "_last_checkpoint", "1", overwrite=True)
    assert are_in_order(
        [(kind, re.sub(r"/\.(\w+)\.json\.\S+\.tmp$", r"/\1, unnamed", place)) for kind, place in calls],
        [
            ("sync", f"{tmp_path}/table"),
            ("sync", f"{tmp_path}/table/part=1/rows"),
            ("sync", f"{tmp_path}/table/part=1"),
            ("sync", f"{log}/{1:020}, unnamed"),
            ("name", f"{log}/{1:020}.json"),
            ("sync", f"{log}"),
            ("name", f"{log}/_last_checkpoint"),
            ("sync", f"{log}"),
        ],
    ), calls


# One writer: before its first commit to a lake a JVM takes the lake's lock.


def commit_of(lake: Path, version: int) -> Path:
    place = lake / "table" / "_delta_log" / f"{version:020}.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    return place


@pytest.fixture
def another(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Files]:
    """The same class in a JVM of its own, which may be killed and stopped."""
    with running(tmp_path_factory.mktemp("another")) as started:
        yield files_in(started, OWN)


def test_a_second_server_is_refused_with_the_name_of_the_first_until_that_is_gone(
    own: Files, another: Files, tmp_path: Path
) -> None:
    another.gateway.jvm.System.setProperty("evenkeel.writer", "alice on host-7, server of /srv/evenkeel")
    another.commit(commit_of(tmp_path, 0), "first")
    process = another.gateway.java_process
    holder = writer_of(str(tmp_path))
    assert holder is not None
    assert holder.pid == process.pid
    assert holder.words.startswith(f"alice on host-7, server of /srv/evenkeel, process {process.pid}, since 20")
    for _ in range(2):
        with pytest.raises(Py4JJavaError) as refused:
            own.commit(commit_of(tmp_path, 1), "second")
        told = refusal_in(refused.value)
        assert told is not None
        assert f"The lake {tmp_path} is written by another server: {holder.words}. Nothing" in str(told)
    with (
        frozen(another.gateway),  # and keeps what it holds
        pytest.raises(Py4JJavaError, match="is written by another server: alice on host-7"),
    ):
        own.commit(commit_of(tmp_path, 1), "second")
    another.commit(commit_of(tmp_path, 1), "second")
    process.kill()
    process.wait()
    assert writer_of(str(tmp_path)) is None
    own.commit(commit_of(tmp_path, 2), "third")
    found = writer_of(str(tmp_path))
    assert found is not None
    assert found.pid == own.gateway.java_process.pid
    texts = [place.read_text() for place in sorted(commit_of(tmp_path, 0).parent.iterdir())]
    assert texts == ["first\n", "second\n", "third\n"]


def test_a_lock_whose_file_is_removed_is_taken_again_and_one_that_another_took_is_lost(
    own: Files, another: Files, tmp_path: Path
) -> None:
    own.commit(commit_of(tmp_path, 0), "own")
    (tmp_path / WRITER_FILE).unlink()
    own.commit(commit_of(tmp_path, 1), "own")
    with pytest.raises(Py4JJavaError, match="is written by another server"):
        another.commit(commit_of(tmp_path, 2), "another's")
    (tmp_path / WRITER_FILE).unlink()
    another.commit(commit_of(tmp_path, 2), "another's")
    with pytest.raises(Py4JJavaError, match="is written by another server"):
        own.commit(commit_of(tmp_path, 3), "own")


def test_a_lake_that_is_moved_stays_its_servers(own: Files, another: Files, tmp_path: Path) -> None:
    own.commit(commit_of(tmp_path / "old", 0), "own")
    (tmp_path / "old").rename(tmp_path / "new")
    (tmp_path / "link").symlink_to(tmp_path / "new")
    own.gateway.jvm.System.gc()  # a lock whose channel is forgotten is given up
    own.commit(commit_of(tmp_path / "new", 1), "own")
    own.commit(commit_of(tmp_path / "link", 2), "own")
    with pytest.raises(Py4JJavaError, match="is written by another server"):
        another.commit(commit_of(tmp_path / "link", 3), "another's")


def test_whoever_may_write_to_the_folder_may_take_its_lock(own: Files, tmp_path: Path) -> None:
    tmp_path.chmod(0o2775)
    own.commit(commit_of(tmp_path, 0), "own")
    assert stat.S_IMODE((tmp_path / WRITER_FILE).stat().st_mode) == 0o664


def test_the_lock_is_not_taken_through_a_link(own: Files, tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("theirs")
    for target in ("theirs", "gone"):
        lake = tmp_path / f"lake-{target}"
        lake.mkdir()
        (lake / WRITER_FILE).symlink_to(tmp_path / target)
        with pytest.raises(Py4JJavaError, match="_writer is a symbolic link, which no server makes"):
            own.commit(commit_of(lake, 0), "first")
        assert not list(commit_of(lake, 0).parent.glob("[0-9]*"))
    assert (tmp_path / "theirs").read_text() == "theirs"
    assert not (tmp_path / "gone").exists()


def test_a_folder_with_a_link_out_of_it_is_not_listed(own: Files, tmp_path: Path) -> None:
    (tmp_path / "table" / "part=1").mkdir(parents=True)
    (tmp_path / "theirs").mkdir()
    (tmp_path / "table" / "same").symlink_to("part=1")
    assert own.listed(tmp_path / "table") == ["part=1", "same"]
    (tmp_path / "table" / "part=2").symlink_to(tmp_path / "theirs")
    with pytest.raises(Py4JJavaError, match=r"part=2 is a symbolic link that leads out of its folder"):
        own.listed(tmp_path / "table")


def test_a_table_that_the_server_writes_has_no_checksum_files(engine: Engine, tmp_path: Path) -> None:
    spark = connect(engine.url)
    path = str(tmp_path / "table")
    for _ in range(2):
        spark.range(10).write.format("delta").mode("append").save(path)
    spark.sql(f"DELETE FROM delta.`{path}` WHERE id = 3").collect()
    spark.sql(f"OPTIMIZE delta.`{path}`").collect()
    assert spark.read.format("delta").load(path).count() == 18
    assert spark.read.format("delta").option("versionAsOf", 1).load(path).count() == 20
    close(spark)
    assert [place.name for place in tmp_path.rglob("*") if place.name.startswith(".")] == []


def test_a_commit_of_spark_that_is_refused_says_who_writes_the_lake(engine: Engine, tmp_path: Path) -> None:
    spark = connect(engine.url)
    rows, path = spark.range(10).write.format("delta").mode("append"), str(tmp_path / "table")
    with held(tmp_path) as pid:
        with pytest.raises(Exception, match="is written by another server") as refused:
            rows.save(path)
        assert str(refusal_in(refused.value)).startswith(f"The lake {tmp_path} is written by another server: alice on")
        assert pid != engine.pid
    rows.save(path)
    close(spark)
    found = writer_of(str(tmp_path))
    assert found is not None
    assert found.pid == engine.pid
    assert f"server of {engine.home}" in found.words
