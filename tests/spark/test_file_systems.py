"""The Java classes of the server, as files of the package. What they do is in `test_local_files.py` and in
`tests/object_store`."""

import re
import shutil
from pathlib import Path

import pytest

from evenkeel.spark import file_systems
from evenkeel.spark.command import ServerSettings


def test_every_class_that_a_setting_names_has_a_source_and_none_is_left_over(tmp_path: Path) -> None:
    named = {value for value in file_systems.settings(tmp_path).values() if value.startswith("evenkeel.")}
    sources = {path.stem: path.read_text() for path in file_systems.sources(with_object_store=True)}
    for name in named:
        outer, _, inner = name.removeprefix("evenkeel.").partition("$")
        assert re.search(rf"\bclass {inner or outer}\b", sources[outer]), name
    used = {name.removeprefix("evenkeel.").partition("$")[0] for name in named}
    helpers = sources.keys() - used
    assert helpers == {name for name in helpers if any(f"{name}.hold(" in sources[user] for user in used)}


def test_without_the_jars_for_s3_only_what_needs_none_of_them_is_compiled() -> None:
    sources = file_systems.sources(with_object_store=False)
    assert [path.name for path in sources] == ["LakeLock.java", "LocalFiles.java"]
    assert not any("s3a" in path.read_text() or "amazon" in path.read_text() for path in sources)


def test_a_server_with_other_java_is_not_reused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = ServerSettings().as_json()
    shutil.copytree(file_systems._SOURCES, tmp_path / "java")
    monkeypatch.setattr(file_systems, "_SOURCES", tmp_path / "java")
    assert ServerSettings().as_json() == before
    with (tmp_path / "java" / "LakeLock.java").open("a") as file:
        file.write("// another\n")
    assert ServerSettings().as_json() != before
