from __future__ import annotations

import hashlib
import shutil
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from evenkeel.errors import JarError
from evenkeel.spark.java import (
    CACHE_VARIABLE,
    DELTA_JARS,
    FEWEST_FOR_AN_IVY,
    MIRROR_VARIABLE,
    OBJECT_STORE_JARS,
    Jar,
    by_ivy,
    by_maven,
    delta_jars,
    object_store_jars,
    resolve,
)
from tests.left_out import MAVEN, lacking

POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>org.example</groupId><artifactId>hull</artifactId><version>1.0</version>
<dependencies><dependency><groupId>org.example</groupId><artifactId>absent</artifactId><version>9</version></dependency>
</dependencies></project>"""


@pytest.fixture
def repository(tmp_path: Path) -> tuple[Path, Jar]:
    """A repository of Maven's layout with one jar, whose dependency it does not have."""
    jar = put(tmp_path / "repository", "hull", "1.0")
    (tmp_path / "repository" / jar.repository_path).with_suffix(".pom").write_text(POM)
    return tmp_path / "repository", jar


def put(repository: Path, artifact: str, version: str, classifier: str = "") -> Jar:
    """Makes a jar of its own content in a repository of Maven's layout."""
    jar = Jar("org.example", artifact, version, "", classifier)
    path = repository / jar.repository_path
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("keel.txt", jar.coordinates)
    return replace(jar, sha256=hashlib.sha256(path.read_bytes()).hexdigest())


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    return tmp_path / "cache" / "jars"


def test_a_jar_comes_from_the_mirror_through_ivy_once_and_then_from_the_cache(
    repository: tuple[Path, Jar], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, jar = repository
    monkeypatch.setenv(MIRROR_VARIABLE, folder.as_uri())
    assert resolve([jar]) == [cache / "hull-1.0.jar"]
    monkeypatch.setenv(MIRROR_VARIABLE, "file:///nowhere")
    assert resolve([jar]) == [cache / "hull-1.0.jar"]
    assert [path.name for path in cache.iterdir()] == ["hull-1.0.jar"]


def test_a_fetched_jar_of_other_content_is_refused_and_not_kept(
    repository: tuple[Path, Jar], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, jar = repository
    monkeypatch.setenv(MIRROR_VARIABLE, folder.as_uri())
    with pytest.raises(JarError, match=r"is not the pinned org.example:hull:1.0: its sha256 is") as caught:
        resolve([replace(jar, sha256="0" * 64)])
    assert "It was fetched by Ivy; check the repository" in str(caught.value)
    assert list(cache.iterdir()) == []


def test_a_cached_jar_of_other_content_is_refused_and_left_alone(repository: tuple[Path, Jar], cache: Path) -> None:
    _, jar = repository
    cache.mkdir(parents=True)
    (cache / jar.file_name).write_bytes(b"something else")
    with pytest.raises(JarError, match=r"Remove .*hull-1\.0\.jar to fetch it again"):
        resolve([jar])
    assert (cache / jar.file_name).read_bytes() == b"something else"


def test_the_machines_maven_repository_is_used_where_its_jar_is_the_right_one(
    repository: tuple[Path, Jar], cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder, jar = repository
    (tmp_path / "nobody" / ".m2").mkdir(parents=True)
    folder.rename(tmp_path / "nobody" / ".m2" / "repository")
    monkeypatch.setenv(MIRROR_VARIABLE, "file:///nowhere")
    assert resolve([jar])[0].read_bytes() == (tmp_path / "nobody/.m2/repository" / jar.repository_path).read_bytes()


def test_a_jar_that_cannot_be_had_names_what_was_tried(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MIRROR_VARIABLE, "file:///nowhere")
    with pytest.raises(JarError, match=r"Cannot fetch org\.example:hull:1\.0 \(Ivy: exit code .*EVENKEEL_MAVEN_MIRROR"):
        resolve([Jar("org.example", "hull", "1.0", "0" * 64)])
    assert list(cache.iterdir()) == []


def test_deltas_jars_are_there_and_are_the_pinned_ones() -> None:
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in delta_jars()]
    assert digests == [jar.sha256 for jar in DELTA_JARS]


def test_the_jars_for_object_stores_are_taken_only_where_all_of_them_are_there(cache: Path) -> None:
    assert object_store_jars() == []
    cache.mkdir(parents=True)
    for jar in OBJECT_STORE_JARS[1:]:
        (cache / jar.file_name).write_bytes(b"")
    assert object_store_jars() == []
    (cache / OBJECT_STORE_JARS[0].file_name).write_bytes(b"")
    with pytest.raises(JarError, match=r"is not the pinned org\.apache\.hadoop:hadoop-aws:3\.4\.2"):
        object_store_jars()


def test_ivy_takes_no_dependencies(
    repository: tuple[Path, Jar], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, jar = repository
    monkeypatch.setenv(MIRROR_VARIABLE, folder.as_uri())
    (tmp_path / "out").mkdir()
    by_ivy([jar], tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").glob("*.jar")] == ["hull-1.0.jar"]


def test_many_jars_come_with_one_call_also_those_of_one_module_with_different_classifiers(
    repository: tuple[Path, Jar], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, hull = repository
    monkeypatch.setenv(MIRROR_VARIABLE, folder.as_uri())
    linux, mac = put(folder, "rudder", "2.1", "linux"), put(folder, "rudder", "2.1", "mac")
    wanted = [mac, *(put(folder, f"plank{number}", "1") for number in range(FEWEST_FOR_AN_IVY)), hull, linux]
    found = resolve(wanted)
    assert [path.name for path in found] == [jar.file_name for jar in wanted]
    assert [hashlib.sha256(path.read_bytes()).hexdigest() for path in found] == [jar.sha256 for jar in wanted]


def test_one_jar_of_many_that_cannot_be_had_is_named(
    repository: tuple[Path, Jar], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, hull = repository
    monkeypatch.setenv(MIRROR_VARIABLE, folder.as_uri())
    with pytest.raises(JarError, match=r"Ivy: exit code .* not found: org\.example#sunk;1"):
        resolve([hull, Jar("org.example", "sunk", "1", "0" * 64, "deep")])


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mvn") is None, reason=lacking(MAVEN))
def test_maven_fetches_many_into_the_folder(tmp_path: Path) -> None:
    wanted = [Jar("io.delta", "delta-storage", "4.4.0", DELTA_JARS[1].sha256)]
    by_maven(wanted, tmp_path)
    assert hashlib.sha256((tmp_path / wanted[0].file_name).read_bytes()).hexdigest() == wanted[0].sha256
