"""Questions to real lakes: what was, what was decided, and what is said where there is no answer."""

import json
import re
import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from evenkeel.errors import BadInput, LakeError, NoSuchCycle
from evenkeel.explain import Course, Moment, as_json, as_text, explain, times
from evenkeel.explain import cycles as course_module
from evenkeel.explain.explanation import Quiet
from evenkeel.model.topics import topic_hash
from tests.lakes.acting_lake import B1, B2, B3, CHILDREN, FIRST, REST, SPLIT_AT, SPLIT_ID, UNLOAD_ID, WHOLE, fill
from tests.lakes.plausible import HOT, LAB, LAB_FIRST, LARGE, A, B, broker_load, bundle_load
from tests.lakes.small_lake import SmallLake

pytestmark = pytest.mark.slow


def at(text: str | None, tz: str | None = None):
    return times(text, None, None, tz)


def between(first: str | None, last: str | None, tz: str | None = None):
    return times(None, first, last, tz)


def sentences(found: Moment) -> list[str]:
    return [change.sentence for reason in found.reasons for change in reason.changes]


# What was decided


def test_a_bundle_that_was_unloaded_is_explained_from_its_place_to_its_outcome(acting: Path) -> None:
    found = explain(acting, WHOLE, when=at("2026-03-01T03:12"))

    assert (found.cluster, found.cycle_at, found.where.broker) == ("prod", FIRST, B1)
    assert [(r.step, r.subject, r.outcome, r.rule) for r in found.reasons] == [
        ("unload", B1, "unload", "above_threshold"),
        ("unload", WHOLE, "unload", "heaviest_first"),
        ("placement", WHOLE, "placed", "least_long_term_rate"),
    ]
    broker, bundle, placed = found.reasons
    assert [(a.name, round(a.behind, 3)) for a in broker.alternatives] == [(B2, 0.2), (B3, 0.2)]
    assert [(a.name, a.verdict) for a in bundle.alternatives] == [(REST, "next in line")]
    assert [(a.name, a.verdict, a.behind) for a in placed.alternatives] == [
        (B3, "possible, busier", 40.25),
        (B1, "ruled out: too many topics", None),
    ]
    (sent,) = found.commands
    assert [(sent.command_id, sent.destination)] == [(UNLOAD_ID, B2)]
    assert [one.outcome for one in sent.seen] == ["unknown", "done"]


def test_what_would_have_changed_it_names_the_others_and_by_how_much(acting: Path) -> None:
    found = explain(acting, WHOLE, when=at("2026-03-01T03:12"))

    assert sentences(found) == [
        f"Had {B1} been more than 15.0 points less busy (usage as remembered), it would not have been shed from "
        "(below threshold).",
        f"With loadBalancerBrokerThresholdShedderPercentage at 21, {B1} would not have been shed from "
        "(below threshold).",
        f"Had {B2} been 30.0 points busier (usage as remembered), its unload would have been refused (sole bundle).",
        f"Had {B3} been 30.0 points busier (usage as remembered), its unload would have been refused (sole bundle).",
        f"Had {B2} carried over 40.3 msg/s more in the long term, {B3} would have been chosen.",
        f"Had {B3} carried over 40.3 msg/s less in the long term, it would have been chosen.",
        f"With loadBalancerBrokerOverloadedThresholdPercentage at 19, {B1} would have been chosen.",
    ]


def test_a_split_and_a_guard_have_their_own_statements(acting: Path) -> None:
    split = explain(acting, WHOLE, when=at("2026-03-02T03:13"))
    assert sentences(split)[:2] == [
        f"With at most 1,000 topics in {WHOLE}, it would not have been split (below limits).",
        f"With loadBalancerNamespaceBundleMaxTopics at 1100, {WHOLE} would not have been split (below limits).",
    ]
    assert "nothing is on record of it yet" in as_text(split)

    held = explain(acting, REST, when=at("2026-03-02T03:13"))
    assert [(r.step, r.outcome, r.rule) for r in held.reasons if r.subject == REST] == [
        ("unload", "unload", "heaviest_first"),
        ("placement", "placed", "least_long_term_rate"),
        ("guard", "held", "unloads_per_cycle"),
    ]
    assert "With evenkeelMaxUnloadsPerCycle at 2, this guard would not have objected." in sentences(held)
    assert "Guards' verdicts" in as_text(held)
    assert held.commands == ()


def test_a_decision_rests_on_what_the_cycle_before_remembers(acting: Path) -> None:
    """B3 was at 20.0 % in all three cycles; B1 fell from 50.0 % to 20.0 % in the last one, and is remembered busier."""
    (change,) = explain(acting, B3).reasons[0].changes
    assert (change.figure, change.measured) == ("usage as remembered", pytest.approx(0.2))
    mean = (0.9 * 0.5 + 0.1 * 0.2 + 0.9 * 0.2 + 0.1 * 0.25 + 0.2) / 3
    assert change.by == pytest.approx((mean + 0.1 - 0.2) * 3 / 2, rel=1e-6)


def test_what_no_longer_comes_out_as_recorded_is_not_said(tmp_path: Path) -> None:
    fill(tmp_path)
    DeltaTable(str(tmp_path / "broker_reports")).update(
        {"cpu_usage": "90.0"}, predicate=f"cycle_date = '2026-03-01' and broker = '{B3}'"
    )
    found = explain(tmp_path, WHOLE, when=at("2026-03-01T03:12"))
    assert not any("usage as remembered" in sentence for sentence in sentences(found))
    assert "of 4 decisions: repeated, this version decides differently" in found.notes[-1]


def test_a_topic_is_where_its_hash_lies_with_the_boundaries_of_that_time(acting: Path) -> None:
    name = next(f"persistent://acme/web/t{n}" for n in range(99) if topic_hash(f"persistent://acme/web/t{n}") < 1 << 30)

    assert explain(acting, name, when=at("2026-03-01T04:00")).bundle == WHOLE
    assert explain(acting, name.removeprefix("persistent://")).bundle == CHILDREN[0]
    course = explain(acting, name, when=between("2026-03-01", None))
    assert [step.bundle for step in course.steps if isinstance(step, Moment)] == [WHOLE, WHOLE]
    assert CHILDREN[0] in course.steps[-1].sentence


def test_a_broker_shows_what_left_it_and_what_came(acting: Path) -> None:
    gives = explain(acting, B1, when=at("2026-03-01T03:13"))
    assert gives.where.usage == 0.5
    assert {(r.step, r.subject) for r in gives.reasons} == {("unload", B1), ("unload", WHOLE), ("placement", WHOLE)}

    takes = explain(acting, B2, when=at("2026-03-01T03:13"))
    assert {(r.step, r.subject) for r in takes.reasons} == {("unload", B2), ("placement", WHOLE)}
    assert [sent.destination for sent in takes.commands] == [B2]


@pytest.mark.parametrize("given", [UNLOAD_ID, UNLOAD_ID[:9], UNLOAD_ID[:9].upper()])
def test_a_command_is_found_by_its_id_or_a_part_that_no_other_has(acting: Path, given: str) -> None:
    found = explain(acting, given)
    assert (found.subject.name, found.bundle, found.cycle_at) == (UNLOAD_ID, WHOLE, FIRST)
    assert [sent.command_id for sent in found.commands] == [UNLOAD_ID]


def test_what_a_placement_would_have_been_without_groups_is_said(lake: Path) -> None:
    found = explain(lake, "acme/spread3/0x00000000_0xffffffff")
    assert f"Without anti-affinity groups, {B} would have been chosen." in sentences(found)


def test_json_has_the_documented_keys(acting: Path) -> None:
    body = json.loads(as_json(explain(acting, WHOLE, when=at("2026-03-01T03:12"))))
    assert list(body) == [
        *("version", "type", "subject", "bundle", "cluster", "cycle_at", "attempt", "attempt_id", "kind", "status"),
        *("reason", "mode", "plan_id", "where", "commands", "notes", "reasons"),
    ]
    assert list(body["reasons"][0]) == [
        *("step", "subject", "subject_kind", "broker", "destination", "strategy", "outcome", "rule", "setting"),
        *("measured", "threshold", "margin", "unit", "sentence", "alternatives", "changes"),
    ]
    assert list(body["reasons"][0]["changes"][0]) == [
        *("subject", "figure", "measured", "needed", "unit", "is_strict", "effect", "sentence", "is_more", "by")
    ]
    assert body["cycle_at"] == "2026-03-01T03:12:37.500250Z"
    course = json.loads(as_json(explain(acting, WHOLE, when=between("2026-03-01", None))))
    assert [step["type"] for step in course["steps"]] == ["moment", "moment", "quiet"]


def test_names_do_nothing_to_a_terminal(odd_lake: Path) -> None:
    bundle = next(row["bundle"] for row in DeltaTable(str(odd_lake / "bundle_load")).to_pyarrow_table().to_pylist()
                  if len(row["bundle"]) < 200)  # fmt: skip
    told = as_text(explain(odd_lake, bundle))
    assert "\u202e" not in told
    assert "\\u202e" in told


# Times


def test_a_time_stands_for_the_cycle_in_force_at_it(lake: Path) -> None:
    seventh = LAB_FIRST + timedelta(minutes=6)
    for text in ("2026-11-21T08:30", "2026-11-21T08:30:23", seventh.isoformat(), "2026-11-21T08:31:22.9"):
        assert explain(lake, HOT, cluster=LAB, when=at(text)).cycle_at == seventh
    assert explain(lake, HOT, when=at("2026-11-21T08:30:23.3")).cycle_at == seventh - timedelta(minutes=1)
    assert explain(lake, HOT).cycle_at == explain(lake, HOT, when=at("latest")).cycle_at
    late = explain(lake, HOT, when=at("2026-12-24"))
    assert late.cycle_at == LAB_FIRST + timedelta(minutes=7)
    assert "is 783 h" in late.notes[0]


def test_times_are_read_and_printed_in_the_zone_asked_for(lake: Path) -> None:
    when = at("2026-11-21T09:30", "Europe/Berlin")
    found = explain(lake, HOT, when=when)
    assert found.cycle_at == LAB_FIRST + timedelta(minutes=6)
    assert "2026-11-21 09:30:23 CET" in as_text(found, when.where)


def test_a_time_before_the_first_cycle_names_the_first(lake: Path) -> None:
    with pytest.raises(NoSuchCycle, match="the first is that of 2026-11-21 08:24:23 UTC of lab"):
        explain(lake, HOT, when=at("2026-11-21T08:23"))


def test_a_skipped_cycle_gives_its_reason_and_its_neighbours(lake: Path) -> None:
    with pytest.raises(NoSuchCycle) as error:
        explain(lake, HOT, when=at("2026-11-21T08:27"))
    assert "was skipped: acme/ns1 has a hole" in str(error.value)
    assert "2026-11-21 08:26:23 UTC before and 2026-11-21 08:28:23 UTC after" in str(error.value)


def test_a_failed_cycle_is_told_from_a_skipped_one(tmp_path: Path) -> None:
    small = SmallLake(tmp_path)
    small.add("lab", LAB_FIRST, {}, status="failed", plan_id=None, reason="ingest failed: no disk.")
    with pytest.raises(NoSuchCycle, match=r"failed: ingest failed: no disk\. Nothing was .* decided: none"):
        explain(tmp_path, HOT)


def test_an_open_cycle_and_one_without_manifest_are_told(tmp_path: Path) -> None:
    small = SmallLake(tmp_path)
    load = {"bundle_load": [bundle_load(HOT, A, 1.0)], "cluster_policies": [{"manager": "modular"}]}
    small.add("lab", LAB_FIRST, load, status="planned", mode="approve", plan_id="p")
    later = LAB_FIRST + timedelta(minutes=1)
    stamp = {"cluster": "lab", "cycle_at": later, "cycle_date": later.date(), "write_id": "open"}
    small.append("cluster_policies", [{"manager": "modular", **stamp}])

    notes = explain(tmp_path, HOT).notes
    assert notes[0].startswith("The cycle is still open")
    assert "2026-11-21 08:25:23 UTC, has rows and no manifest" in notes[1]
    assert len(explain(tmp_path, HOT, when=at("2026-11-21T08:25:20")).notes) == 1


# Names that are not there


def test_an_unknown_namespace_and_broker_name_the_nearest(acting: Path) -> None:
    with pytest.raises(BadInput, match="Did you mean 'acme/web'"):
        explain(acting, "acme/wob/0x00000000_0x40000000")
    with pytest.raises(BadInput, match="Did you mean 'acme/web'"):
        explain(acting, "persistent://acme/weeb/t")
    with pytest.raises(BadInput, match="Did you mean 'b"):
        explain(acting, "b9.example:8080")


def test_a_bundle_that_was_split_names_its_children_and_the_cycle(acting: Path) -> None:
    with pytest.raises(BadInput) as error:
        explain(acting, WHOLE)
    assert "was split, as asked in the cycle of 2026-03-02 03:12:37 UTC" in str(error.value)
    assert f"{CHILDREN[0]} and {CHILDREN[1]} have its range" in str(error.value)


def test_a_bundle_that_is_not_yet_split_off_names_its_parent_and_the_cycle(acting: Path) -> None:
    with pytest.raises(BadInput) as error:
        explain(acting, CHILDREN[1], when=at("2026-03-01T12:00"))
    assert f"part of {WHOLE}" in str(error.value)
    assert "its split was asked in the cycle of 2026-03-02 03:12:37 UTC" in str(error.value)


def test_a_bundle_split_by_somebody_else_was_last_seen(lake: Path, tmp_path: Path) -> None:
    small = SmallLake(tmp_path)
    small.add("lab", LAB_FIRST, {"bundle_load": [bundle_load(WHOLE, A, 1.0)]})
    small.add("lab", LAB_FIRST + timedelta(minutes=1), {"bundle_load": [bundle_load(b, A, 1.0) for b in CHILDREN]})
    with pytest.raises(BadInput, match="was split, and was last seen in the cycle of 2026-11-21 08:24:23 UTC: "):
        explain(tmp_path, WHOLE)
    with pytest.raises(BadInput, match=f"other boundaries: {CHILDREN[0]} and {CHILDREN[1]} overlap"):
        explain(tmp_path, "acme/web/0x20000000_0x60000000")


def test_two_clusters_with_the_same_name_are_both_named(lake: Path) -> None:
    with pytest.raises(BadInput, match=r"in 2 clusters: lab and spread. Say which: --cluster lab"):
        explain(lake, A)
    assert explain(lake, A, cluster="spread").cluster == "spread"
    with pytest.raises(BadInput, match="in 2 clusters"):
        explain(lake, A, when=between("2026-11-21", "2026-11-22"))


def test_commands_that_are_not_one_are_refused(acting: Path, lake: Path) -> None:
    with pytest.raises(BadInput, match="2 commands begin with 'a01d'"):
        explain(acting, "a01d")
    with pytest.raises(BadInput, match=r"no command 'beef' is on record .* kept from 2026-03-01 to 2026-03-02"):
        explain(acting, "beef")
    with pytest.raises(BadInput, match="no command is on record at all"):
        explain(lake, "beef")
    with pytest.raises(BadInput, match="belongs to the cycle of 2026-03-02 03:12:37 UTC: leave out --at"):
        explain(acting, SPLIT_ID, when=at("2026-03-01"))


def test_a_command_of_a_run_that_died_before_its_manifest_is_told(tmp_path: Path) -> None:
    fill(tmp_path)
    DeltaTable(str(tmp_path / "cycles")).delete("plan_id = 'p1'")
    with pytest.raises(LakeError, match=r"no manifest of prod .* has its plan p1"):
        explain(tmp_path, UNLOAD_ID)


# What is kept


def test_loads_past_their_retention_leave_what_was_done(tmp_path: Path) -> None:
    """Loads and what was let be expire first; decisions that acted are kept."""
    fill(tmp_path)
    first = "cycle_date = '2026-03-01'"
    for table in ("bundle_load", "broker_load", "settings"):
        DeltaTable(str(tmp_path / table)).delete(first)
    DeltaTable(str(tmp_path / "unload_decisions")).delete(f"{first} and outcome = 'kept'")

    found = explain(tmp_path, WHOLE, when=at("2026-03-01T04:00"))
    assert found.where is None
    assert [r.rule for r in found.reasons if r.subject == WHOLE] == ["heaviest_first", "least_long_term_rate"]
    _, gone, unknown = found.notes
    assert "unload_decisions are past their retention" in gone
    assert re.fullmatch(
        r"What would have changed the answer is not known: its settings .* are not on record any more\.", unknown
    )
    assert sentences(found) == []
    with pytest.raises(LakeError, match="past their retention: the oldest kept are of 2026-03-02"):
        explain(tmp_path, REST, when=at("2026-03-01T04:00"))


# Ranges


def test_a_range_tells_what_was_done_and_sums_up_the_rest(lake: Path) -> None:
    course = explain(lake, HOT, when=between("2026-11-21T08:24", "2026-11-21T09:00"))
    told = [step.sentence if isinstance(step, Quiet) else step.cycle_at for step in course.steps]
    assert told == [
        f"3 cycles: it was on {A}; nothing was done.",
        "1 cycle skipped: acme/ns1 has a hole from 0x40000000 to 0x60000000",
        f"2 cycles: it was on {A}; nothing was done.",
        LAB_FIRST + timedelta(minutes=6),
        f"1 cycle: it was on {A}; nothing was done.",
    ]
    assert course.cycles == 8
    assert "8 cycles" in as_text(course)


def test_a_course_shows_where_a_bundle_went(acting: Path) -> None:
    course = explain(acting, REST, when=between("2026-03-01", "2026-03-04"))
    assert isinstance(course, Course)
    assert [getattr(step, "broker", None) for step in course.steps] == [B1, None, B3]


def test_of_too_much_the_first_part_is_told_with_where_to_go_on(acting: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(course_module, "MOST_MOMENTS", 1)
    course = explain(acting, WHOLE, when=between("2026-03-01", None))
    assert [step.cycle_at for step in course.steps if isinstance(step, Moment)] == [FIRST]
    assert "--from 2026-03-01T03:12:37Z" in course.notes[0]


def test_a_range_without_cycles_names_the_nearest(lake: Path) -> None:
    with pytest.raises(NoSuchCycle, match="The nearest: that of 2026-11-21 09:10:41 UTC of spread before"):
        explain(lake, HOT, when=between("2026-11-22", None))
    with pytest.raises(BadInput, match="--from 2026-11-22 is after --to 2026-11-21"):
        between("2026-11-22", "2026-11-21")
    with pytest.raises(BadInput, match="one or the other"):
        times("2026-11-22", "2026-11-21", None, None)


# Only what is needed


def test_files_of_other_dates_are_not_read(tmp_path: Path) -> None:
    """Without the files of other dates, but for what the cycle before remembers, the answer is the same."""
    fill(tmp_path)
    question = (WHOLE, at("2026-03-02T03:13"))
    before = as_json(explain(tmp_path, question[0], when=question[1]))
    gone = 0
    for day in ("2026-03-01", "2026-03-03"):
        for folder in tmp_path.glob(f"*/cluster=prod/cycle_date={day}"):
            if folder.parts[-3] != "strategy_state":
                shutil.rmtree(folder)
                gone += 1
    assert gone >= 10
    assert as_json(explain(tmp_path, question[0], when=question[1])) == before
    with pytest.raises(LakeError, match="cannot be read"):
        explain(tmp_path, WHOLE, when=at("2026-03-01T04:00"))


def test_manifests_of_other_cycles_are_not_read(tmp_path: Path) -> None:
    """`cycles` has no dates for partitions: its files are chosen by the moments in the log."""
    fill(tmp_path)
    before = as_json(explain(tmp_path, WHOLE, when=at("2026-03-02T03:13")))
    table = DeltaTable(str(tmp_path / "cycles"))
    files = table.get_add_actions(flatten=True)
    import pyarrow as pa

    rows = pa.table(files).to_pylist()
    for row in rows:
        if row["min.cycle_at"].date() != SPLIT_AT.date():
            (tmp_path / "cycles" / row["path"]).unlink()
    assert as_json(explain(tmp_path, WHOLE, when=at("2026-03-02T03:13"))) == before


def test_another_clusters_rows_of_the_same_moment_stay_apart(tmp_path: Path) -> None:
    small = SmallLake(tmp_path)
    for cluster, owner in (("east", A), ("west", B)):
        load = {"bundle_load": [bundle_load(HOT, owner, 1.0)], "broker_load": [broker_load(owner, 0.5)]}
        small.add(cluster, LAB_FIRST, load)
    assert explain(tmp_path, HOT, cluster="west").where.broker == B
    assert explain(tmp_path, A).cluster == "east"
    with pytest.raises(BadInput, match="in 2 clusters: east and west"):
        explain(tmp_path, HOT)


def test_a_cluster_that_did_not_decide_is_not_passed_over_for_another(lake: Path) -> None:
    """In the skipped cycle of `lab` nothing says whether it has the bundle; the cycle before does."""
    with pytest.raises(NoSuchCycle, match=r"the cycle of lab at .* was skipped"):
        explain(lake, LARGE, when=at("2026-11-21T08:27:59"))
