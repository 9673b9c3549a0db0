"""The planner's section of a report: what stands in its rows, in order, counted where they are many, and escaped."""

from collections.abc import Mapping, Sequence
from typing import Any

from evenkeel.lake.record import Row
from evenkeel.report.chapters import MOST_STEPS, PlannerChapter, planner_chapter
from evenkeel.report.page import environment

SHADOW = [{"key": "evenkeelPlanner", "value": '"shadow"'}]
ODD = "acme/<b>/0x00000000_0x40000000"


def target(subject: str, kind: str = "bundle", outcome: str = "kept", **more: Any) -> Row:
    row: dict[str, Any] = {
        "subject": subject, "subject_kind": kind, "broker": "b1:8080", "outcome": outcome, "rule": "due",
        "measured": 1.2, "threshold": 1.1, "numbers": {}, "sentence": f"About {subject}.", "destination": None,
        "position": None, "gain": None, "cost": None, "needs_split": None, "basis": "traffic",
    }  # fmt: skip
    return row | more


def step(number: int, outcome: str, **more: Any) -> Row:
    name = f"acme/ns/0x{number:08x}_0x{number + 1:08x}"
    return target(name, outcome=outcome, position=number, destination="b2:8080", gain=0.02, cost=0.01, **more)


def model(broker: str, *, is_used: bool) -> Row:
    return {"broker": broker, "resource": "cpu", "base": 0.1, "error": 0.01, "mean_error": 0.05, "samples": 12,
            "is_used": is_used, "sentence": f"About {broker}."}  # fmt: skip


def chapter(tables: Mapping[str, Sequence[Row]]) -> PlannerChapter:
    found = planner_chapter(tables)
    assert found is not None
    return found


def page_of(found: PlannerChapter) -> str:
    return str(environment().get_template("planner.html.j2").module.section(found, 0, 2))  # type: ignore[attr-defined]


def test_there_is_no_section_where_the_planner_was_off_or_unknown() -> None:
    assert planner_chapter({}) is None
    assert planner_chapter({"settings": [{"key": "evenkeelPlanner", "value": '"off"'}], "planner_targets": []}) is None
    assert chapter({"settings": SHADOW}).target == ""
    assert "no target on record" in page_of(chapter({"settings": SHADOW}))


def test_steps_come_in_their_order_due_ones_apart_from_those_for_later() -> None:
    later = [step(n, "planned") for n in range(3, 5 + MOST_STEPS)]
    rows = [
        *reversed(later), step(2, "unload"), step(1, "placed", broker=None), target("acme/ns/x"),
        target("b1:8080", "broker"), target("b0:8080", "broker", measured=None),
        target("lab", "cluster", numbers={"even": 0.5, "floor_moves": 3.0, "misses": 0.0, "other": 1.0}),
    ]  # fmt: skip
    found = chapter({"settings": SHADOW, "planner_targets": rows})
    assert found.only_looks_on
    assert [(one["outcome"], one["broker"]) for one in found.due] == [("placed", None), ("unload", "b1:8080")]
    assert (len(found.planned), found.planned_count, found.looked_at) == (MOST_STEPS, MOST_STEPS + 2, 1)
    assert found.planned[0]["subject"].startswith("acme/ns/0x00000003")
    assert [one["subject"] for one in found.brokers] == ["b1:8080", "b0:8080"]
    assert found.figures == (("Evenly used", "50.0 %"), ("Moves at least", "3"))
    assert (found.target, found.basis) == ("About lab.", "traffic for 2 brokers")
    page = page_of(found)
    assert "2 steps due now" in page
    assert "and 2 more, in the tables" in page
    assert "no owner" in page


def test_bundles_to_be_split_first_are_named_with_the_reason_and_not_counted_among_the_others() -> None:
    rows = [target(ODD, rule="split_first", needs_split=True), target("acme/ns/x", needs_split=False)]
    found = chapter({"settings": SHADOW, "planner_targets": rows})
    assert [(one["subject"], one["rule"]) for one in found.split_first] == [(ODD, "split_first")]
    assert found.looked_at == 1
    page = page_of(found)
    assert "To be split first" in page
    assert "<b>" not in page
    assert "To be split first" not in page_of(chapter({"settings": SHADOW, "planner_targets": rows[1:]}))


def test_models_and_findings_are_shown_with_names_as_data() -> None:
    findings = [{"subject": ODD, "rule": "hotter_than_a_broker", "sentence": f"{ODD} is <i>hot</i>."}]
    tables = {
        "settings": [{"key": "evenkeelPlanner", "value": '"on"'}],
        "planner_targets": [target("lab", "cluster")],
        "planner_findings": findings,
        "planner_models": [model("b1:8080", is_used=True), model("b2:8080", is_used=False)],
    }
    found = chapter(tables)
    assert not found.only_looks_on
    assert (found.models_used, len(found.models)) == (1, 2)
    page = page_of(found)
    assert "Models of usage: 1 of 2 used" in page
    assert "hotter than a broker" in page
    assert "<i>" not in page
    assert "<b>" not in page
