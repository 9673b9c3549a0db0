"""What a report says of commands that went out."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from evenkeel.cli import main
from evenkeel.report import build_model, gather, render
from tests.lakes.plausible import HOT, MIB, NEXT, ODD, A, B, C, broker_load, bundle_load, candidate, decision, placement
from tests.lakes.small_lake import Row, SmallLake, moment
from tests.report.page_reader import Reader

AT = moment("2026-11-21T08:00:00")
PLAN = "9" * 64
TABLES = {
    "broker_load": [broker_load(A, 0.7), broker_load(B, 0.2), broker_load(C, 0.1)],
    "bundle_load": [bundle_load(HOT, A, MIB), bundle_load(NEXT, A, MIB)],
    "unload_decisions": [
        decision(b, "bundle", "unload", "heaviest_first", "It leaves.", broker=A) for b in (HOT, NEXT)
    ],
    "placement_decisions": [placement(b, C, "shed", "To C.", [candidate(C, 1.0)], broker=A) for b in (HOT, NEXT)],
}


def command(step: int, bundle: str, **more: Any) -> Row:
    row = {"command_id": f"{step}" * 8, "plan_id": PLAN, "step": step, "kind": "unload", "bundle": bundle}
    row |= {"from_broker": A, "destination": C, "mode": "auto", "request": "PUT /x", "expires_at": AT}
    return row | more


def seen(step: int, outcome: str, seconds: int, detail: str = "") -> Row:
    return {
        "command_id": f"{step}" * 8,
        "outcome": outcome,
        "seen_at": AT + timedelta(seconds=seconds),
        "detail": detail,
    }


def lake(folder: Path, outcomes: list[Row], **manifest: Any) -> SmallLake:
    made = SmallLake(folder)
    commands = [command(2, NEXT), command(1, HOT), command(1, HOT)]  # doubled rows of one id are one command
    acted = {"commands": commands, "outcomes": outcomes}
    made.add("lab", AT, TABLES | acted, **{"mode": "auto", "plan_id": PLAN, "unloads": 2, **manifest})
    return made


def test_the_last_word_on_each_command_is_shown_in_the_order_of_the_plan(tmp_path: Path) -> None:
    odd = f"the bundle is on {ODD}"
    made = lake(tmp_path, [seen(1, "unknown", 3), seen(2, "overridden", 4, odd)])
    stamp = {"cluster": "lab", "cycle_at": AT, "cycle_date": AT.date(), "write_id": "a later cycle's"}
    made.append("outcomes", [{**seen(1, "done", 400, f"the bundle is on {C}"), **stamp}])
    model = build_model(tmp_path, gather(tmp_path))
    shown = model.chapters[0]
    assert [(one.bundle, one.outcome, one.mood) for one in shown.results] == [
        (HOT, "done", "good"),
        (NEXT, "overridden", "warn"),
    ]
    assert shown.headline.effect.startswith("Of the commands that were on record: 1 done and 1 overridden.")
    page = render(model)
    Reader(page)
    assert "What came of it" in page
    assert "<script>" not in page


def test_a_command_of_which_nothing_is_known_says_that_the_next_cycle_looks(tmp_path: Path) -> None:
    lake(tmp_path, [seen(1, "refused", 3, "Pulsar said: no")])
    found = build_model(tmp_path, gather(tmp_path)).chapters[0].results
    assert [(one.outcome, one.mood) for one in found] == [("refused", "bad"), ("open", "warn")]
    assert "the next cycle looks" in found[1].detail


def test_a_dry_run_has_no_results(tmp_path: Path) -> None:
    lake(tmp_path, [seen(1, "dry_run", 0)], mode="dry_run")
    model = build_model(tmp_path, gather(tmp_path))
    assert model.chapters[0].results == ()
    assert "What came of it" not in render(model)


def test_harm_is_shown_before_all_else_whichever_cycle_saw_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = lake(tmp_path, [seen(1, "done", 3), seen(2, "done", 4)])
    stamp = {"cluster": "lab", "cycle_at": AT, "cycle_date": AT.date(), "write_id": "a later cycle's"}
    gone = f"0 of 8 producers are connected, says {ODD}"
    made.append("outcomes", [{**seen(2, "harmed", 240, gone), **stamp}])
    model = build_model(tmp_path, gather(tmp_path))
    shown = model.chapters[0]
    assert shown.harm == (
        f"The unload of {NEXT} from {A} to {C}, decided at 2026-11-21 08:00:00 UTC, did harm, seen at "
        f"2026-11-21 08:04:00 UTC: {gone}.",
    )
    assert [(one.bundle, one.outcome, one.mood) for one in shown.results] == [
        (NEXT, "done but harmed", "bad"),
        (HOT, "done", "good"),
    ]
    assert shown.headline.effect.startswith("Of the commands that were on record: 1 done but harmed and 1 done.")
    page = render(model)
    Reader(page)
    assert "<script>" not in page
    assert page.index("Harm was done") < page.index('class="lead"')

    assert main(["explain", NEXT, "--lake", str(tmp_path), "--cluster", "lab"]) == 0
    said = capsys.readouterr().out
    assert said.index("Harm that was seen") < said.index("Where it was")
    assert "0 of 8 producers are connected" in said


def test_where_no_harm_was_seen_none_is_spoken_of(tmp_path: Path) -> None:
    lake(tmp_path, [seen(1, "done", 3)])
    model = build_model(tmp_path, gather(tmp_path))
    assert model.chapters[0].harm == ()
    assert "Harm was done" not in render(model)
