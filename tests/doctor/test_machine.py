"""What is said of this machine, as it is and as it is not to be."""

import os
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from evenkeel.doctor import machine
from evenkeel.doctor.checks import CheckFinding, CheckOutcome, Site
from evenkeel.errors import EvenkeelError
from evenkeel.sources.configuration import ClusterSource, LiveSource
from evenkeel.spark.jars import cache_folder, delta_pins

HERE = Site(environment={})


def test_this_machine_is_fine_for_what_tests_need() -> None:
    checks = (
        machine.check_package,
        machine.check_python,
        machine.check_packages,
        machine.check_java,
        machine.check_jars,
    )
    for check in checks:
        found = check(HERE, "")
        assert found.outcome == CheckOutcome.OK, found
    assert "Java 17" in machine.check_java(HERE, "").words


def test_a_version_outside_its_range_is_named_and_so_is_a_missing_package(monkeypatch: pytest.MonkeyPatch) -> None:
    needs = ["psutil<0.1", "filelock", "no-such-package-anywhere", 'other-package; extra == "engine"']
    monkeypatch.setattr("importlib.metadata.requires", lambda _: needs)
    found = machine.check_packages(HERE, "")
    assert found.outcome == CheckOutcome.FAIL
    assert re.fullmatch(r"no-such-package-anywhere missing; psutil [\d.]+, outside <0\.1", found.words)


def test_an_engine_of_another_version_than_its_client_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"pyspark": "4.0.4", "pyspark-client": "4.1.3", "evenkeel": "1.0.0"}
    monkeypatch.setattr("importlib.metadata.requires", lambda _: [])
    monkeypatch.setattr(machine, "installed_version", versions.get)
    found = machine.check_packages(HERE, "")
    assert found.words == "pyspark 4.0.4 beside pyspark-client 4.1.3, which share files"


def test_another_python_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "PYTHONS", ((3, 97), (3, 99)))
    found = machine.check_python(HERE, "")
    assert found.outcome == CheckOutcome.FAIL
    assert "from 3.97 to 3.99" in found.advice


def test_a_folder_without_expectations_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EVENKEEL_EXPECTATIONS", str(tmp_path))
    found = machine.check_package(HERE, "")
    assert found.outcome == CheckOutcome.FAIL
    assert f"no expectations in {tmp_path}" in found.words


@pytest.mark.parametrize(
    ("says", "words"),
    [('openjdk version "21.0.2" 2024', "Java 21.0.2"), ("nothing of use", "does not say its version")],
)
def test_another_java_fails(says: str, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text(f"#!/bin/sh\necho '{says}' >&2\n", encoding="utf-8")
    java.chmod(0o755)
    monkeypatch.setenv("EVENKEEL_JAVA", str(java))
    found = machine.check_java(HERE, "")
    assert found.outcome == CheckOutcome.FAIL
    assert words in found.words


def test_a_java_that_is_not_there_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EVENKEEL_JAVA", str(tmp_path / "java"))
    with pytest.raises(EvenkeelError, match="No java that can be run"):
        machine.check_java(HERE, "")


def test_jars_that_are_missing_or_others_fail_and_nothing_is_fetched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real, (spark, storage) = cache_folder() / "jars", delta_pins()
    monkeypatch.setenv("EVENKEEL_CACHE", str(tmp_path))
    found = machine.check_jars(HERE, "")
    assert found.outcome == CheckOutcome.FAIL
    assert f"{spark.file_name} is missing. 1 more" in found.words
    (tmp_path / "jars").mkdir()
    shutil.copy(real / spark.file_name, tmp_path / "jars")
    (tmp_path / "jars" / storage.file_name).write_bytes(b"other")
    found = machine.check_jars(HERE, "")
    assert "is not the pinned io.delta:delta-storage" in found.words
    assert (tmp_path / "jars" / storage.file_name).read_bytes() == b"other"
    in_store = Site(lake="s3a://bucket/x", environment={})
    assert "more are missing or wrong" in machine.check_jars(in_store, "").words


@pytest.mark.parametrize(
    ("free", "outcome"), [(10 << 30, CheckOutcome.OK), (1 << 30, CheckOutcome.WARN), (1 << 20, CheckOutcome.FAIL)]
)
def test_a_disk_that_is_nearly_full_is_told_with_what_lies_there(
    free: int, outcome: CheckOutcome, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    usage: Any = shutil.disk_usage(tmp_path)._replace(free=free)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    source = ClusterSource("east", tmp_path / "landing", live=LiveSource(("http://b",)))
    found = machine.check_disk(Site(lake=str(tmp_path / "lake"), sources=(source,), environment={}), "")
    assert found.outcome == outcome
    assert f"{free / (1 << 30):.1f} GiB free" in found.words


def test_files_with_secrets_are_for_their_owner_alone(tmp_path: Path) -> None:
    def of(**environment: str) -> CheckFinding:
        return machine.check_secret_files(Site(environment=environment), "")

    assert of().outcome == CheckOutcome.SKIPPED
    token = tmp_path / "token"
    token.write_text("sesame", encoding="utf-8")
    token.chmod(0o600)
    assert of(EVENKEEL_TOKEN_EAST_FILE=str(token), EVENKEEL_LOG_KEY=f"file:{token}").outcome == CheckOutcome.OK
    token.chmod(0o644)
    found = of(EVENKEEL_TOKEN_EAST_FILE=str(token))
    assert found.outcome == CheckOutcome.WARN
    assert f"{token} (0644, EVENKEEL_TOKEN_EAST_FILE)" in found.words
    assert "sesame" not in found.words
    found = of(EVENKEEL_HANDOVER_KEY_FILE=str(tmp_path / "absent"))
    assert (found.outcome, "absent" in found.words) == (CheckOutcome.FAIL, True)
    assert os.path.exists(token)
