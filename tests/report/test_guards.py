"""What a report says of commands that guards hold back."""

from pathlib import Path
from typing import Any

import pytest

from evenkeel.report import build_model, gather, render
from evenkeel.report.chapters import Chapter
from tests.lakes.plausible import (
    HOT,
    LARGE,
    MIB,
    NEXT,
    ODD,
    A,
    B,
    C,
    broker_load,
    bundle_load,
    candidate,
    decision,
    kept,
    placement,
)
from tests.lakes.small_lake import Row, SmallLake, moment
from tests.report.page_reader import Reader

AT = moment("2026-11-21T08:00:00")
USED_UP = f"{NEXT} would be unloaded from {A} to {B} and is held back: 1 unload in one cycle is the most."
PAUSED = "No command is sent to lab: it is paused by anna (the storage is full)."


def guard(subject: str, kind: str | None, sentence: str, **more: Any) -> Row:
    row = {"subject": subject, "subject_kind": "bundle" if kind else "cluster", "kind": kind, "outcome": "held"}
    return row | {"position": 2 if kind else 0, "rule": "unloads_per_cycle", "sentence": sentence} | more


def tables(*guards: Row) -> dict[str, list[Row]]:
    """Two unloads and a split are decided."""
    return {
        "broker_load": [broker_load(A, 0.7), broker_load(B, 0.2), broker_load(C, 0.1)],
        "bundle_load": [bundle_load(HOT, A, MIB), bundle_load(NEXT, A, MIB), bundle_load(LARGE, B, MIB)],
        "split_decisions": [decision(LARGE, "bundle", "split", "topics_over_limit", "It is cut.", broker=B)],
        "unload_decisions": [
            kept(B, 0.2, 0.3),
            *(decision(name, "bundle", "unload", "heaviest_first", "It leaves.", broker=A) for name in (HOT, NEXT)),
        ],
        "placement_decisions": [
            placement(HOT, C, "shed", "To C.", [candidate(C, 1.0)], broker=A),
            placement(NEXT, B, "shed", "To B.", [candidate(B, 1.0)], broker=A),
        ],
        "guard_decisions": list(guards),
    }


def report(folder: Path, *guards: Row, **manifest: Any) -> tuple[Chapter, str]:
    SmallLake(folder).add("lab", AT, tables(*guards), **manifest)
    model = build_model(folder, gather(folder))
    page = render(model)
    Reader(page)  # fails on a page that is not well-formed
    return model.chapters[0], page


def test_the_headline_counts_what_goes_and_what_is_held_back(tmp_path: Path) -> None:
    shown, page = report(tmp_path, guard(NEXT, "unload", USED_UP, setting="evenkeelMaxUnloadsPerCycle"))
    assert shown.headline.text == (
        f"Evenkeel would unload 1 bundle from {A} and split 1 bundle; 1 command was held back."
    )
    assert {unload["subject"]: unload["is_held"] for unload in shown.decisions.unloads} == {HOT: False, NEXT: True}
    assert [(one["kind"], one["subject"], one["sentence"]) for one in shown.decisions.held] == [
        ("unload", NEXT, USED_UP)
    ]
    assert "unload held back: unloads per cycle" in page
    assert 'Limit: <span class="n">evenkeelMaxUnloadsPerCycle</span>' in page


def test_what_is_held_back_is_not_in_the_forecast(tmp_path: Path) -> None:
    whole, _ = report(tmp_path / "whole")
    shown, _ = report(tmp_path / "held", guard(NEXT, "unload", USED_UP))
    after = {line.broker: line.traffic_after for line in shown.brokers}
    assert after == pytest.approx({A: MIB, B: MIB, C: MIB})
    assert {line.broker: line.traffic_after for line in whole.brokers} == pytest.approx({A: 0.0, B: 2 * MIB, C: MIB})


def test_a_cluster_of_which_nothing_is_asked_says_why_first(tmp_path: Path) -> None:
    stopped = [guard("lab", None, PAUSED, rule="paused")]
    stopped += [guard(name, "unload", f"{name} is held back.", rule="paused") for name in (HOT, NEXT)]
    stopped.append(guard(LARGE, "split", f"{LARGE} is held back.", rule="paused", position=1))
    shown, page = report(tmp_path, *stopped)
    assert shown.headline.text == "Evenkeel would leave this cluster as it is: 3 commands were held back."
    assert shown.headline.effect == PAUSED
    assert [one["subject"] for one in shown.decisions.held] == [LARGE, HOT, NEXT]
    assert "<strong>Nothing is asked.</strong>" in page


def test_a_held_command_alone_gives_its_own_reason(tmp_path: Path) -> None:
    only = tables(guard(NEXT, "unload", USED_UP))
    only["split_decisions"] = []
    only["unload_decisions"] = only["unload_decisions"][2:]
    SmallLake(tmp_path).add("lab", AT, only)
    (shown,) = build_model(tmp_path, gather(tmp_path)).chapters
    assert shown.headline.text == "Evenkeel would leave this cluster as it is: 1 command was held back."
    assert shown.headline.effect == USED_UP


def test_what_was_let_through_in_spite_of_a_rule_is_told_and_counts_as_done(tmp_path: Path) -> None:
    said = f"{NEXT} would be unloaded from {A} to {B} and is let through: the gain is large enough."
    shown, page = report(tmp_path, guard(NEXT, "unload", said, outcome="allowed", rule="returns"))
    assert shown.headline.text == f"Evenkeel would unload 2 bundles from {A} and split 1 bundle."
    assert [one["rule"] for one in shown.decisions.excepted] == ["returns"]
    assert "unload let through: returns" in page


def test_words_of_operators_stay_text(tmp_path: Path) -> None:
    _, page = report(
        tmp_path, guard("lab", None, f"It is paused ({ODD}).", rule=ODD), guard(ODD, "unload", ODD, rule=ODD)
    )
    assert "<script>" not in page
    assert "\u202e" not in page


def test_more_than_a_page_holds_is_counted(tmp_path: Path) -> None:
    many = [guard(f"acme/ns{n}/0x00000000_0xffffffff", "unload", "Held.", position=n) for n in range(1, 131)]
    shown, page = report(tmp_path, *many)
    assert (len(shown.decisions.held), "and 30 more, in the tables." in page) == (130, True)
