"""Guards in whole cycles through the real tasks: what they hold back is on record, in a dry run too."""

from pathlib import Path
from typing import Any

import pytest

from evenkeel.explain import explain
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.lake.record import Attempt, read_attempts, read_rows
from evenkeel.pipeline import run_cycle
from evenkeel.report import build_model, gather
from evenkeel.sources.recordings import Recording

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.exhaustive]

RECORDING = Path(__file__).resolve().parent.parent / "recordings" / "lost-modular"
AT = Recording(RECORDING).snapshots[0].cycle_at
MANY_SPLITS = {"loadBalancerNamespaceBundleMaxTopics": 8}


def run(spark: Any, lake: Path, **settings: Any) -> Attempt:
    """The newest attempt after a cycle by these settings."""
    overrides = MANY_SPLITS | settings
    request = CycleRequest(str(lake), source=f"recording:{RECORDING}", at=AT, overrides=overrides, run_id="test")
    run_cycle(spark, request, lambda *_: None)
    return read_attempts(lake)[-1]


def commands(spark: Any, lake: Path, attempt: Attempt) -> list[Any]:
    rows = spark.read.format("delta").load(f"{lake}/commands").where(f"plan_id = '{attempt.plan_id}'")
    return rows.orderBy("step").collect()


def test_what_is_held_back_is_listed_with_the_plan_and_is_no_command(spark: Any, new_lake: Path) -> None:
    bound = run(spark, new_lake, evenkeelMaxSplitsPerCycle=1)
    asked, held = commands(spark, new_lake, bound), read_rows(new_lake, bound, "guard_decisions")
    assert [(row["kind"], row["step"]) for row in asked] == [("split", 1)]
    assert len(held) == bound.planned["held"] == bound.planned["splits"] + bound.planned["unloads"] - 1 > 0
    assert {row["rule"] for row in held if row["kind"] == "split"} == {"splits_per_cycle"}
    assert all(row["sentence"].endswith("1 split in one cycle is the most, and it is used up.") for row in held)
    (chapter,) = build_model(new_lake, gather(new_lake)).chapters
    assert chapter.headline.text.endswith(f"split 1 bundle; {len(held)} commands were held back.")
    found = explain(new_lake, held[0]["subject"])
    (guard,) = [reason for reason in found.reasons if reason.step == "guard"]
    assert (guard.sentence, found.commands, found.notes) == (held[0]["sentence"], (), ())
    enough = f"With evenkeelMaxSplitsPerCycle at {held[0]['position']}, this guard would not have objected."
    assert guard.changes[0].sentence == enough
    done = explain(new_lake, asked[0]["command_id"][:10])
    assert [(reason.outcome, reason.subject) for reason in done.reasons if reason.step == "split"] == [
        ("split", asked[0]["bundle"])
    ]
    assert (done.where.broker, [sent.command_id for sent in done.commands]) == (
        asked[0]["from_broker"],
        [asked[0]["command_id"]],
    )

    nothing = run(spark, new_lake, evenkeelMaxSplitsPerCycle=0, evenkeelMaxUnloadsPerCycle=0)
    assert (commands(spark, new_lake, nothing), nothing.status) == ([], "closed")
    assert len(read_rows(new_lake, nothing, "guard_decisions")) == nothing.planned["held"] == bound.planned["held"] + 1
    assert nothing.plan_id != bound.plan_id
