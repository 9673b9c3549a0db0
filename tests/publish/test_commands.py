"""Plan ids and commands."""

import json

from hypothesis import given
from hypothesis import strategies as st

from evenkeel.publish.commands import numbered, plan_id, wanted
from evenkeel.settings import Settings

CYCLE = {"cluster": "lab", "cycle_at": "2026-11-21T08:27:04.000000+00:00", "settings_digest": "s", "mode": "dry_run",
         "manager": "modular"}  # fmt: skip
BUNDLE = "acme/ns0/0x00000000_0x40000000"


def split(bundle: str = BUNDLE, outcome: str = "split") -> dict:
    return {"subject": bundle, "broker": "b1:8080", "outcome": outcome, "algorithm": "range_equally_divide",
            "cuts": [536870912], "unload_children": True}  # fmt: skip


def placement(bundle: str = BUNDLE, cause: str = "shed", outcome: str = "placed", to: str = "b2:8080") -> dict:
    return {"subject": bundle, "broker": "b1:8080", "cause": cause, "outcome": outcome, "destination": to,
            "rule": "least_long_term_rate"}  # fmt: skip


def commands(plan: str, cycle: dict, splits: list, placements: list, settings: Settings) -> list[dict]:
    """The rows of `commands` with nothing held back."""
    return numbered(plan, cycle, wanted(cycle, splits, placements), settings)


rows = st.lists(
    st.fixed_dictionaries(
        {"subject": st.text(max_size=5), "measured": st.none() | st.floats(), "rule": st.text(max_size=3)}
    ),
    max_size=6,
)


@given(rows, st.randoms())
def test_plan_id_does_not_depend_on_the_order_of_rows_or_columns(decided, random) -> None:
    shuffled = [dict(random.sample(sorted(row.items(), key=str), len(row))) for row in decided]
    random.shuffle(shuffled)
    assert plan_id(CYCLE, {"unload_decisions": shuffled}) == plan_id(CYCLE, {"unload_decisions": decided})


@given(rows.filter(bool))
def test_plan_id_changes_with_any_value(decided) -> None:
    changed = [{**decided[0], "rule": decided[0]["rule"] + "x"}, *decided[1:]]
    assert plan_id(CYCLE, {"t": changed}) != plan_id(CYCLE, {"t": decided})
    assert plan_id({**CYCLE, "settings_digest": "other"}, {"t": decided}) != plan_id(CYCLE, {"t": decided})


def test_splits_come_before_unloads_and_each_command_has_an_id_of_its_own() -> None:
    made = commands("p", CYCLE, [split("z/z/0x00000000_0x40000000")], [placement()], Settings())
    assert [(one["step"], one["kind"]) for one in made] == [(1, "split"), (2, "unload")]
    assert len({one["command_id"] for one in made}) == 2
    assert [one["command_id"] for one in commands("other plan", CYCLE, [], [placement()], Settings())] != [
        one["command_id"] for one in commands("p", CYCLE, [], [placement()], Settings())
    ]


def test_an_unload_that_a_wish_left_to_placement_names_no_destination_to_pulsar() -> None:
    (free,) = commands("p", CYCLE, [], [placement(cause="wish") | {"rule": "wish"}], Settings())
    (bound,) = commands("p", CYCLE, [], [placement(cause="wish") | {"rule": "wish_with_destination"}], Settings())
    assert (free["destination"], free["request"].endswith("/unload")) == (None, True)
    assert bound["destination"] == "b2:8080"


def test_the_extensible_manager_names_the_destination_of_a_transfer_and_none_of_a_bundle_that_it_only_frees() -> None:
    extensible = {**CYCLE, "manager": "extensible"}
    freed = placement() | {"rule": "well_below_mean_load"}
    (free,) = commands("p", extensible, [], [freed], Settings())
    (moved,) = commands("p", extensible, [], [placement() | {"rule": "transferred"}], Settings())
    (modular,) = commands("p", CYCLE, [], [freed], Settings())
    assert (free["destination"], free["request"].endswith("/unload")) == (None, True)
    assert (moved["destination"], modular["destination"]) == ("b2:8080", "b2:8080")


def test_what_is_kept_refused_or_has_no_owner_asks_for_nothing() -> None:
    placements = [placement(outcome="kept"), placement(outcome="refused", to=None), placement(cause="no_owner")]
    assert commands("p", CYCLE, [split(outcome="refused")], placements, Settings()) == []


def test_requests_say_the_very_cut_and_destination_and_quote_what_a_name_may_hold() -> None:
    odd = "acme/a%2F b'<script>/0x00000000_0x40000000"
    (asked, unload) = commands("p", CYCLE, [split(odd)], [placement(odd)], Settings())
    assert asked["request"] == (
        "PUT /admin/v2/namespaces/acme/a%252F%20b%27%3Cscript%3E/0x00000000_0x40000000/split"
        "?splitAlgorithmName=specified_positions_divide&unload=true [536870912]"
    )
    assert unload["request"].endswith("/unload?destinationBroker=b2:8080")
    assert json.loads(asked["request"].rsplit(" ", 1)[1]) == asked["cuts"]


def test_a_command_expires_when_its_figures_count_as_old() -> None:
    (unload,) = commands("p", CYCLE, [], [placement()], Settings(evenkeelMaxReportAgeSeconds=60.0))
    assert unload["expires_at"].isoformat() == "2026-11-21T08:28:04+00:00"
