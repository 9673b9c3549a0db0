"""When a publish comes to the log: with the plan before anything is sent, with the rest at the end, and after errors.

Without Spark: manifests are appended as `append_manifests` would, and what sends is watched.
"""

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
from evenkeel.transparency.lake_log import begin
from tests.transparency.lakes import append as commit
from tests.transparency.lakes import leaves, linked, rows_of, small_lake
from tests.transparency.logs import LOG_KEY

Row = dict[str, Any]
AT = "2026-11-21T09:00:00+00:00"


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake with a log over 11 commits, whose key is in the environment."""
    lake = small_lake(tmp_path)
    begin(str(lake), [LOG_KEY])
    monkeypatch.setenv("EVENKEEL_LOG_KEY", LOG_KEY.secret().reveal())
    monkeypatch.delenv("EVENKEEL_WITNESSES", raising=False)

    def append(spark: object, place: Lake, rows: Sequence[Row]) -> None:
        for row in rows:
            head = rows_of(lake, "lab")[-1]
            made = linked([{**row, "attempt": 1}], head["manifest_digest"], head["sequence"])
            place.committed += commit(lake, "cycles", made)

    monkeypatch.setattr(task, "append_manifests", append)
    return lake


def logged(lake: Path) -> int:
    """The number of commits of `cycles` that were logged since the log began."""
    return sum(leaf.table == "cycles" for leaf in leaves(lake)[11:])


def handed(lake: Path) -> Handover:
    """As much of a hand-over as a publish of one cycle asks for."""
    run = SimpleNamespace(mode="auto", kind="live")
    found = SimpleNamespace(run=run, lake=str(lake), cycles=(), writes=(), commits=(), is_window=lambda: False)
    found.with_cycles = lambda cycles: found
    return cast(Handover, found)


def planned(lake: Path) -> Row:
    row = rows_of(lake, "lab")[0]
    return {**row, "attempt_id": "ab" * 32, "write_id": "ab" * 32}


@pytest.mark.parametrize("commands", [0, 2])
def test_a_plan_with_commands_is_logged_before_they_are_sent(
    lake: Path, commands: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []

    def act(*given: Any) -> tuple[SendingResult, dict[str, str]]:
        seen.append(logged(lake))
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
    assert seen == [1 if commands else 0]


def test_what_a_publish_has_put_on_record_is_logged_even_where_it_ends_in_an_error(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: Any) -> Handover:
        task.append_manifests(None, given[1], [planned(lake)])  # type: ignore[arg-type, attr-defined]
        raise RuntimeError("an error that nobody foresaw")

    for name, answer in (("_plan", ({}, None, handed(lake))), ("_attempts_so_far", None), ("manifest_rows", {})):
        monkeypatch.setattr(task, name, lambda *given, found=answer: found)
    monkeypatch.setattr(task, "_publish_one_each", fail)
    with pytest.raises(RuntimeError, match="nobody foresaw"):
        task.run(None, handed(lake))  # type: ignore[arg-type]
    assert logged(lake) == 1
