import hashlib
import zipfile
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from evenkeel.errors import JarError
from evenkeel.spark.jars import (
    CACHE_VARIABLE,
    MIRROR_VARIABLE,
    OBJECT_STORE,
    Jar,
    delta_jars,
    delta_pins,
    locked_jars,
    main,
    object_store_jars,
    resolve,
)

POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>org.example</groupId><artifactId>hull</artifactId><version>1.0</version>
<dependencies><dependency><groupId>org.example</groupId><artifactId>absent</artifactId><version>9</version></dependency>
</dependencies></project>"""


@pytest.fixture
def repository(tmp_path: Path) -> tuple[Path, Jar]:
    """A repository of Maven's layout with one jar, whose dependency it does not have."""
    jar = put(tmp_path / "repository", "hull", "1.0")
    place_of(tmp_path / "repository", jar).with_suffix(".pom").write_text(POM)
    return tmp_path / "repository", jar


def place_of(repository: Path, jar: Jar) -> Path:
    """Where a repository of Maven's layout has a jar."""
    return repository.joinpath(*jar.group.split("."), jar.artifact, jar.version, jar.file_name)


def put(repository: Path, artifact: str, version: str, classifier: str = "") -> Jar:
    """Makes a jar of its own content in a repository of Maven's layout."""
    jar = Jar("org.example", artifact, version, "", classifier)
    path = place_of(repository, jar)
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("keel.txt", jar.coordinates)
    return replace(jar, sha256=hashlib.sha256(path.read_bytes()).hexdigest())


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
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
    assert "It was just fetched: check the repository" in str(caught.value)
    assert list(cache.iterdir()) == []


def test_a_cached_jar_of_other_content_is_refused_and_left_alone(repository: tuple[Path, Jar], cache: Path) -> None:
    _, jar = repository
    cache.mkdir(parents=True)
    (cache / jar.file_name).write_bytes(b"something else")
    with pytest.raises(JarError, match=r"Remove .*hull-1\.0\.jar to fetch it again"):
        resolve([jar])
    assert (cache / jar.file_name).read_bytes() == b"something else"


def test_a_jar_that_cannot_be_had_names_what_was_tried(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MIRROR_VARIABLE, "file:///nowhere")
    with pytest.raises(JarError, match=r"Cannot fetch org\.example:hull:1\.0 \(Ivy: exit code .*EVENKEEL_MAVEN_MIRROR"):
        resolve([Jar("org.example", "hull", "1.0", "0" * 64)])
    assert list(cache.iterdir()) == []


def test_deltas_jars_are_there_and_are_the_pinned_ones() -> None:
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in delta_jars()]
    assert digests == [jar.sha256 for jar in delta_pins()]
    assert {jar.version for jar in delta_pins()} == {metadata.version("delta-spark")}


@pytest.mark.parametrize("delta", [metadata.version("delta-spark"), None])
@pytest.mark.parametrize("spark", ["4.0.4", "4.1.3", "4.2.0"])
def test_deltas_jar_is_the_one_for_the_spark_that_is_there(
    spark: str, delta: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenkeel.spark.jars.installed_version", {"pyspark": spark, "delta-spark": delta}.get)
    assert [jar.artifact for jar in delta_pins()] == [f"delta-spark_{spark[:3]}_2.13", "delta-storage"]


@pytest.mark.parametrize(("spark", "delta"), [("4.3.0", None), ("4.1.3", "4.3.1")])
def test_versions_without_a_pinned_jar_are_named(
    spark: str, delta: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    delta = delta or metadata.version("delta-spark")
    monkeypatch.setattr("evenkeel.spark.jars.installed_version", {"pyspark": spark, "delta-spark": delta}.get)
    with pytest.raises(JarError, match=rf"No jar is pinned of Delta {delta} .* for Spark {spark[:3]}: install one of"):
        delta_pins()


def test_without_the_engine_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenkeel.spark.jars.installed_version", lambda _: None)
    with pytest.raises(JarError, match=r"^pyspark is not installed here: pip install 'evenkeel\[engine\]'"):
        delta_pins()


def test_the_jars_for_object_stores_are_taken_only_where_all_of_them_are_there(cache: Path) -> None:
    assert object_store_jars() == []
    cache.mkdir(parents=True)
    first, *others = locked_jars(OBJECT_STORE)
    for jar in others:
        (cache / jar.file_name).write_bytes(b"")
    assert object_store_jars() == []
    (cache / first.file_name).write_bytes(b"")
    with pytest.raises(JarError, match=r"is not the pinned org\.apache\.hadoop:hadoop-aws:3\.4\.2"):
        object_store_jars()


def test_many_jars_come_with_one_call_also_those_of_one_module_with_different_classifiers(
    repository: tuple[Path, Jar], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, hull = repository
    monkeypatch.setenv(MIRROR_VARIABLE, folder.as_uri())
    linux, mac = put(folder, "rudder", "2.1", "linux"), put(folder, "rudder", "2.1", "mac")
    wanted = [mac, *(put(folder, f"plank{number}", "1") for number in range(10)), hull, linux]
    found = resolve(wanted)
    assert [path.name for path in found] == [jar.file_name for jar in wanted]
    assert [hashlib.sha256(path.read_bytes()).hexdigest() for path in found] == [jar.sha256 for jar in wanted]


def test_one_jar_of_many_that_cannot_be_had_is_named(
    repository: tuple[Path, Jar], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, hull = repository
    monkeypatch.setenv(MIRROR_VARIABLE, folder.as_uri())
    with pytest.raises(JarError, match=r"Ivy: exit code 1, org\.example#sunk;1: not found"):
        resolve([hull, Jar("org.example", "sunk", "1", "0" * 64, "deep")])


def test_a_malformed_line_of_a_lock_file_is_named(tmp_path: Path) -> None:
    lock = tmp_path / "some.lock"
    lock.write_text(f"org.example:hull:1.0 {'0' * 64}\norg.example:hull 1.0\n")
    with pytest.raises(JarError, match=r"some\.lock:2 is not `group:artifact:version"):
        locked_jars(lock)


def test_java_and_maven_need_not_be_on_the_machine(
    repository: tuple[Path, Jar], cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, jar = repository
    monkeypatch.setenv(MIRROR_VARIABLE, folder.as_uri())
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert resolve([jar]) == [cache / "hull-1.0.jar"]


def test_the_command_says_in_one_line_what_it_could_not_fetch(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MIRROR_VARIABLE, "http://127.0.0.1:9/maven")
    with pytest.raises(SystemExit, match=r"^Cannot fetch io\.delta:.* \(Ivy: .*Connection refused.*EVENKEEL_MAVEN"):
        main(["delta"])
