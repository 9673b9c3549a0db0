"""`--json`: every command with a result has it, its schema is documented, and what it prints fits that schema."""

from __future__ import annotations

import argparse
import shutil
import tarfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest

from evenkeel.cli import main, parser
from evenkeel.lake.record import Record
from tests.json_schemas import REFERENCE, SCHEMAS, check
from tests.lakes.urgent_lake import urgent_lake
from tests.pulsar.admin.books import Size, sized
from tests.pulsar.admin.simulated import SimulatedCluster

if TYPE_CHECKING:
    from evenkeel.spark.server import Engine

pytestmark = pytest.mark.slow

TESTS = Path(__file__).resolve().parents[1]
KEPT = TESTS / "kept_lakes" / "schema_1.tar.gz"
RECORDING = TESTS.parent / "demo" / "recordings" / "own-threshold"
WITHOUT = {
    "agent": "it serves until it is ended, and logs",
    "metrics": "it serves until it is ended, and logs",
    "completion": "it prints code for a shell",
    "config schema": "it prints a JSON schema",
    "views": "it prints an SQL script",
}
ELSEWHERE = {
    "config check": "it wants a file: tests/doctor/test_configuration_faults.py",
    "approve": "the plan that waits is made in the test of its own below",
    "reject": "the plan that waits is made in the test of its own below",
    "watch": "it goes on until Ctrl-C; its lines are those of `status`, in a test of its own below",
    "takeover": "the simulated brokers have no dynamic configuration that can be set: tests/e2e/test_takeover.py",
    "handback": "the simulated brokers have no dynamic configuration that can be set: tests/e2e/test_takeover.py",
}
BROKER = "127.0.0.1:22080"
SPAN = "--from 2026-11-21 --to 2026-11-22"
HERE = {
    "status": ["status --lake {lake}"],
    "doctor": ["doctor --lake {lake} --only lake --only lake_writer --skip lake_writer"],
    "settings": ["settings", "settings --lake {lake} --all"],
    "explain": [f"explain {BROKER} --lake {{lake}}", f"explain {BROKER} --lake {{lake}} {SPAN}"],
    "trace": [f"trace {BROKER} --lake {{lake}}", f"trace --broker {BROKER} --lake {{lake}} {SPAN}"],
    "verify": ["verify --lake {lake} --depth chain", "verify --lake {logged} --depth chain"],
    "report": ["report --lake {lake} --cluster lab --out {new}/report.html"],
    "data-docs": ["data-docs --lake {lake} --cluster lab --out {new}/docs"],
    "storage": ["storage --lake {lake}"],
    "sql": ['sql SELECT*FROM"cycles" --lake {lake}'],
    "export": [f"export --lake {{lake}} {SPAN} --out {{new}}/part"],
    "backup": ["backup --lake {lake} --to {new}/kept"],
    "restore": ["restore --from {kept} --lake {new}/lake"],
    "heat": ["heat --lake {lake}"],
    "pause": ["pause lab --lake {lake} --reason why"],
    "resume": ["resume lab --lake {lake}"],
    "wish split": ["wish split acme/ns1 -b LARGEST --cluster lab --lake {lake}"],
    "wish unload": ["wish unload acme/ns1 --cluster lab --lake {lake}"],
    "wish unload-topic": ["wish unload-topic persistent://acme/ns1/c --cluster lab --lake {lake}"],
    "wish drain": [f"wish drain {BROKER} --cluster extensible --lake {{lake}}"] * 2,
    "wish undrain": [f"wish undrain {BROKER} --cluster extensible --lake {{lake}}"],
    "wish list": ["wish list --lake {lake}"],
    "log make-key": ["log make-key example.com/other --out {new}/key"],
    "log begin": ["log begin --lake {fresh}"],
    "log catch-up": ["log catch-up --lake {logged}"],
    "log show": ["log show --lake {logged}"],
    "prove": ["prove lab latest --lake {logged} --out {new}/proof"],
    "collect": ["collect --admin {admin} --token-env A_TOKEN --to {new}/collected --count 2 --every 0.1"],
    "simulate": ["simulate --scenario zipf --cycles 3 --strategy AvgShedder"],
    "engine": ["engine status", "engine stop"],
    "paths": ["paths", "paths dags"],
}
WITH_SPARK = {
    "rebalance": [f"rebalance --recording {RECORDING} --lake {{new}}/lake"],
    "replay": ["replay --lake {lake} --cluster modular --strategy AvgShedder"],
    "upkeep": ["upkeep --lake {lake}"],
}
RUNS = [(name, words) for name, every in HERE.items() for words in dict.fromkeys(every)]
LONGEST = ("upkeep",)
SPARK_RUNS = [
    pytest.param(name, words, id=name, marks=pytest.mark.exhaustive if name in LONGEST else ())
    for name, every in WITH_SPARK.items()
    for words in every
]


def leaves(top: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Each command with its parser; acts of a command by both names."""
    below = [action for action in top._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield name, top
    for action in below:
        for word, own in action.choices.items():
            yield from leaves(own, f"{name} {word}".strip())


COMMANDS = dict(leaves(parser()))


def test_every_command_has_json_and_a_schema_but_those_that_serve() -> None:
    having = {name for name, own in COMMANDS.items() if "--json" in own._option_string_actions}
    assert having == set(COMMANDS) - set(WITHOUT)
    assert set(SCHEMAS) == having
    for name in WITHOUT:
        assert f"evenkeel {name}" in (REFERENCE / "json.md").read_text("utf-8")


def test_every_command_with_json_is_run() -> None:
    assert {*HERE, *WITH_SPARK, *ELSEWHERE} == set(SCHEMAS)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_one_and_says_what_there_must_be(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[name])
    for nothing in ({}, [{}], None, "text"):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(nothing, SCHEMAS[name])


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """A lake that real cycles wrote, one with a log, and one whose log is to begin; a cluster to collect from."""
    folder = tmp_path_factory.mktemp("json")
    with tarfile.open(KEPT) as archive:
        archive.extractall(folder, filter="data")
    for name in ("logged", "fresh"):
        shutil.copytree(folder / "lake", folder / name)
    key = folder / "log.key"
    with pytest.MonkeyPatch.context() as patch, SimulatedCluster(sized(Size(20, 2, 2)), 2, token="t") as cluster:
        patch.setenv("EVENKEEL_HOME", str(folder))
        patch.setenv("A_TOKEN", "t")
        for variable in ("EVENKEEL_SPARK", "EVENKEEL_WITNESSES", "EVENKEEL_LAKE"):
            patch.delenv(variable, raising=False)
        assert main(["backup", "--lake", str(folder / "lake"), "--to", str(folder / "kept")]) == 0
        assert main(["log", "make-key", "example.com/log", "--out", str(key)]) == 0
        patch.setenv("EVENKEEL_LOG_KEY", f"file:{key}")
        assert main(["log", "begin", "--lake", str(folder / "logged")]) == 0
        yield {"admin": cluster.url, **{name: str(folder / name) for name in ("lake", "kept", "logged", "fresh")}}


@pytest.mark.parametrize(("name", "words"), RUNS, ids=[words[:60] for _, words in RUNS])
def test_what_is_printed_fits_the_documented_schema(
    name: str, words: str, places: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "wish undrain":
        main(HERE["wish drain"][0].format(**places).split())
    capsys.readouterr()
    assert main([*words.format(**places, new=tmp_path).split(), "--json"]) in (0, 1)
    assert check(name, capsys.readouterr().out)


def test_a_drain_that_is_on_record_already_is_the_one_that_is_printed(
    places: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["wish", "drain", "127.0.0.3:22080", "--cluster", "extensible", "--json", "--lake"]
    found = []
    for _ in range(2):
        assert main([*words, places["lake"]]) == 0
        found += check("wish drain", capsys.readouterr().out)
    first, second = found
    assert (first["put"], second["put"], second["wish_id"]) == (True, False, first["wish_id"])


def test_an_error_leaves_standard_output_empty(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for words in ("report", "export --from 2026-11-21 --to 2026-11-21 --out x", "wish list", "log show", "status"):
        assert main([*words.split(), "--lake", str(tmp_path / "gone"), "--json"]) == 2
        found = capsys.readouterr()
        assert found.out == ""
        assert found.err.startswith("evenkeel: ")


@pytest.mark.parametrize("answer", ["approve", "reject"])
def test_an_answer_to_a_plan_that_waits(
    answer: str, places: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = urgent_lake(tmp_path / "urgent", datetime.now(UTC))
    shutil.copytree(Path(places["fresh"]) / "approvals", lake / "approvals")
    record = Record(lake)
    newest = {name: record.in_force(name, datetime.now(UTC)) for name in record.clusters()}
    plan = next(str(one.plan_id) for one in newest.values() if one is not None and one.mode == "approve")
    assert main([answer, plan, "--lake", str(lake), "--reason", "seen", "--json"]) == 0
    (found,) = check(answer, capsys.readouterr().out)
    assert (found["plan_id"], found["reason"], found["answer"][:6]) == (plan, "seen", f"{answer}ed"[:6])


def test_a_watch_prints_a_status_in_one_line_for_each_change(
    places: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter((None, None, KeyboardInterrupt()))

    def sleep(_: float) -> None:
        end = next(looks)
        if end is not None:
            raise end

    monkeypatch.setattr(time, "sleep", sleep)
    assert main(["watch", "lab", "--lake", places["lake"], "--json"]) == 0, "it is calm"
    out = capsys.readouterr().out
    assert out.count("\n") == 1, "three looks, and nothing changed"
    assert check("watch", out)[0]["clusters"][0]["cluster"] == "lab"


@pytest.mark.spark
@pytest.mark.parametrize(("name", "words"), SPARK_RUNS)
def test_what_spark_works_out_fits_the_documented_schema(
    name: str,
    words: str,
    engine: Engine,
    places: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EVENKEEL_SPARK", engine.url)
    given = [*words.format(**places, new=tmp_path).split(), "--json"]
    assert main(given) in (0, 1)
    found = check(name, capsys.readouterr().out)
    assert found
    if name == "rebalance":
        (decided,) = found
        assert main([*given, "--from", decided["cycle_at"], "--to", decided["cycle_at"]]) == 0
        assert check(name, capsys.readouterr().out) == [{**decided, "seconds": 0.0}], "it is on record already"
