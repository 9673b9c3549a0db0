"""When a publish comes to the log: with the plan before anything is sent, with the rest at the end, and after errors.

Without Spark: manifests are appended as `append_manifests` would, and what sends is watched.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from evenkeel.handover import Handover
from evenkeel.lake.store import Lake
from evenkeel.publish import task
from evenkeel.publish.gate import SendingResult
from evenkeel.publish.manifests import AttemptsSoFar
from evenkeel.transparency.lake_log import begin, open_log, storage_of
from evenkeel.transparency.leaves import parse_manifest_leaf
from tests.transparency.lakes import LOG_KEY, append_rows, kept_lake, linked, rows_of

Row = dict[str, Any]
AT = "2026-11-21T09:00:00+00:00"


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake with a log over 11 manifests, whose key is in the environment."""
    lake = kept_lake(tmp_path)
    begin(str(lake), [LOG_KEY])
    monkeypatch.setenv("EVENKEEL_LOG_KEY", LOG_KEY.secret().reveal())
    monkeypatch.delenv("EVENKEEL_WITNESSES", raising=False)

    def append(spark: object, place: Lake, rows: Sequence[Row]) -> None:
        for row in rows:
            head = rows_of(lake, "lab")[-1]
            append_rows(lake, linked([{**row, "attempt": 1}], head["manifest_digest"], head["sequence"]))

    monkeypatch.setattr(task, "append_manifests", append)
    return lake


def leaves(lake: Path) -> list[str]:
    """The statuses of the manifests that were logged since the log began."""
    tree = open_log(storage_of(str(lake))).tree()
    found = [parse_manifest_leaf(entry) for entry in tree.entries(12, tree.size)]
    return [leaf.status for leaf in found if leaf is not None]


def handed(lake: Path) -> Handover:
    """As much of a hand-over as a publish of one cycle asks for."""
    run = SimpleNamespace(mode="auto", kind="live")
    found = SimpleNamespace(run=run, lake=str(lake), cycles=(), writes=(), is_window=lambda: False)
    found.with_cycles = lambda cycles: found
    return cast(Handover, found)


def planned(lake: Path) -> Row:
    row = rows_of(lake, "lab")[0]
    return {**row, "attempt_id": "ab" * 32, "write_id": "ab" * 32}


@pytest.mark.parametrize("commands", [0, 2])
def test_a_plan_with_commands_is_logged_before_they_are_sent(
    lake: Path, commands: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []

    def act(*given: Any) -> tuple[SendingResult, dict[str, str]]:
        seen.append(leaves(lake))
        raise RuntimeError("killed while sending")

    monkeypatch.setattr(task, "_act", act)
    row = planned(lake)
    key = ("lab", AT)
    with pytest.raises(RuntimeError, match="killed while sending"):
        task._publish_one_each(  # type: ignore[arg-type]
            None,
            Lake(str(lake)),
            handed(lake),
            {key: {"commands": commands}},
            None,
            AttemptsSoFar([]),
            {key: row},
            None,
        )
    assert seen == [["planned"] if commands else []]


def test_what_a_publish_has_put_on_record_is_logged_even_where_it_ends_in_an_error(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: Any) -> Handover:
        task.append_manifests(None, Lake(str(lake)), [planned(lake)])  # type: ignore[arg-type, attr-defined]
        raise RuntimeError("an error that nobody foresaw")

    for name, answer in (("_plan", ({}, None, handed(lake))), ("_attempts_so_far", None), ("manifest_rows", {})):
        monkeypatch.setattr(task, name, lambda *given, found=answer: found)
    monkeypatch.setattr(task, "_take_roots", lambda *given: None)
    monkeypatch.setattr(task, "_publish_one_each", fail)
    with pytest.raises(RuntimeError, match="nobody foresaw"):
        task.run(None, handed(lake))  # type: ignore[arg-type]
    assert leaves(lake) == ["planned"]
