"""From an operator's words to a wish on record: what is not a wish is refused at once."""

from dataclasses import replace
from typing import Any

import pytest

from evenkeel.errors import BadInput
from evenkeel.handover import ClusterCycle, Run, Snapshot
from evenkeel.ingest import wish_intake
from evenkeel.ingest.wish_intake import Maker, wish_row, wishes_of_run, with_taken, with_wishes_on_record
from evenkeel.lake.schemas import TABLES
from evenkeel.lake.wishes import TakenWishes, wishes_for

AT = "2026-11-21T08:27:04.000000+00:00"
MAKER = Maker("ann", AT)
SPLIT = {"kind": "split", "namespace": "t/n", "bundle": "0x00000000_0x40000000"}
UNLOAD = {**SPLIT, "kind": "unload"}
DRAIN = {"kind": "drain", "broker": "b1:8080"}
TOPIC = {"kind": "unload_topic", "topic": "persistent://t/n/in"}
CYCLE = ClusterCycle("lab", AT, Snapshot("/s", AT), {})


def test_a_wish_is_a_row_of_its_table_and_spells_its_range_as_pulsar_does() -> None:
    for given in (SPLIT, UNLOAD, TOPIC, DRAIN, {**DRAIN, "kind": "undrain"}):
        assert wish_row(given, "lab", MAKER).keys() == set(TABLES["wishes"].column_names())
    assert wish_row({**SPLIT, "bundle": "0X0_1073741824"}, "lab", MAKER)["bundle"] == SPLIT["bundle"]
    given = {**SPLIT, "splitAlgorithmName": "specified_positions_divide", "splitBoundaries": ["0x10", "17", 18]}
    row = wish_row(given, "lab", MAKER)
    assert (row["algorithm"], row["positions"]) == ("specified_positions_divide", [16, 17, 18])


def test_equal_wishes_have_one_id_and_a_different_one_another() -> None:
    assert wish_row(SPLIT, "lab", MAKER) == wish_row(dict(SPLIT), "lab", MAKER)
    others = [
        wish_row(SPLIT, "other", MAKER),
        wish_row({**SPLIT, "unload": True}, "lab", MAKER),
        wish_row(SPLIT, "lab", replace(MAKER, made_by="bob")),
        wish_row(SPLIT, "lab", MAKER, 1),
        wish_row(SPLIT, "lab", MAKER),
    ]
    assert len({row["wish_id"] for row in others}) == len(others)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "merge"}, "is of the kind split, unload, unload_topic, drain, undrain, not 'merge'"),
        ({"namespace": "n"}, "tenant/namespace, not as 'n'"),
        ({"namespace": None}, "tenant/namespace, not as None"),
        ({"bundle": "largest"}, "LARGEST or HOT"),
        ({"bundle": None}, "names its bundle as a range"),
        ({"kind": "unload", "bundle": "LARGEST"}, "a wish for unload names its bundle as a range or ALL:"),
        ({"destinationBroker": "b1:8080"}, "has no 'destinationBroker'"),
        ({"splitBoundaries": "5"}, "list of positions"),
        ({"splitBoundaries": ["x"]}, "'x' is not a boundary"),
        ({"splitBoundaries": [1.5]}, "1.5 in splitBoundaries is not a position"),
        ({"unload": "yes"}, "unload of a wish is true or false"),
        ({"splitAlgorithmName": 5}, "splitAlgorithmName of a wish is a name"),
    ],
)
def test_what_is_no_wish_is_refused_in_plain_words(change: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        wish_row(SPLIT | change, "lab", MAKER)


@pytest.mark.parametrize("typed", ["PERSISTENT://t/n/in", "t/n/in", " persistent://t/n/in "])
def test_a_topic_is_put_on_record_under_its_full_name(typed: str) -> None:
    row = wish_row({**TOPIC, "topic": typed}, "lab", MAKER)
    assert (row["namespace"], row["bundle"], row["topic"]) == ("t/n", "", "persistent://t/n/in")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"topic": None}, "names it as domain://tenant/namespace/topic: topic '' "),
        ({"topic": 5}, "topic of a wish is a name, not 5"),
        ({"topic": "kafka://t/n/in"}, "unknown domain 'kafka'"),
        ({"topic": "persistent://t/cluster/n/in"}, "not of the form domain://tenant/namespace/topic"),
        ({"topic": "persistent://t/n/.."}, "none that could be asked for"),
        ({"topic": "persistent://t/n/a\nb"}, "none that could be asked for"),
        ({"bundle": "0x00000000_0x40000000"}, "has no 'bundle': known are kind, cluster, topic, by"),
    ],
)
def test_what_is_no_topic_is_refused_in_plain_words(change: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        wish_row(TOPIC | change, "lab", MAKER)


def test_wishes_of_a_run_are_made_at_its_cycles_moment_and_stay_the_same_when_it_is_tried_again() -> None:
    run = Run("rebalance", "manual__1", triggered_by="olga")
    (row,) = wishes_of_run([CYCLE], run, [{**SPLIT, "by": "ann"}])
    assert (row["cluster"], row["made_at"], row["made_by"], row["run_id"]) == ("lab", AT, "olga (ann)", "manual__1")
    assert wishes_of_run([CYCLE], run, [SPLIT])[0]["made_by"] == "olga"
    assert wishes_of_run([CYCLE], run, [{**SPLIT, "by": "ann"}]) == [row]
    twice = wishes_of_run([CYCLE], run, [SPLIT, SPLIT])
    assert len({one["wish_id"] for one in twice}) == 2


def test_a_wish_of_a_run_names_its_cluster_where_there_is_more_than_one() -> None:
    both, run = [CYCLE, replace(CYCLE, cluster="other")], Run("rebalance", "manual__1")
    assert wishes_of_run(both, run, [{**SPLIT, "cluster": "other"}])[0]["cluster"] == "other"
    with pytest.raises(BadInput, match="wish 1 names its cluster as None: this run decides lab, other"):
        wishes_of_run(both, run, [SPLIT])


def test_a_backfill_brings_no_wishes() -> None:
    with pytest.raises(BadInput, match="a backfill carries no wishes out"):
        wishes_of_run([CYCLE], Run("rebalance", "b", "backfill"), [SPLIT])


def test_a_wish_for_a_whole_namespace_has_no_destination() -> None:
    whole = {"kind": "unload", "namespace": "acme/orders", "bundle": "ALL"}
    assert wish_row(whole, "lab", MAKER)["bundle"] == "ALL"
    with pytest.raises(BadInput, match="unloads all of acme/orders names no destination"):
        wish_row({**whole, "destinationBroker": "b1:8080"}, "lab", MAKER)
    with pytest.raises(BadInput, match="names its bundle as a range, LARGEST or HOT"):
        wish_row({**whole, "kind": "split"}, "lab", MAKER)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": "drain"}, "a wish for a drain names its broker as host:port, not as None"),
        ({"kind": "drain", "broker": "b1"}, "names its broker as host:port, not as 'b1'"),
        ({"kind": "undrain", "broker": "b1:80 80"}, "a wish for an undrain names its broker as host:port"),
        ({"kind": "drain", "broker": ["b1:8080"]}, "broker of a wish is a name"),
        ({**DRAIN, "namespace": "acme/orders"}, "a drain has no 'namespace': known are kind, cluster"),
    ],
)
def test_a_drain_names_one_broker_and_nothing_else(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        wish_row(given, "lab", MAKER)
    assert wish_row({**DRAIN, "broker": " http://b1:8080 "}, "lab", MAKER)["broker"] == "b1:8080"


def test_a_dry_run_begins_and_ends_no_drain_since_that_would_outlast_it() -> None:
    for kind, words in (("drain", "a drain"), ("undrain", "an undrain")):
        with pytest.raises(BadInput, match=f"{words} outlasts the run that brings it, and this run is a dry run"):
            wishes_of_run([CYCLE], Run("rebalance", "m"), [{**DRAIN, "kind": kind}])
    for mode in ("approve", "auto"):
        (row,) = wishes_of_run([CYCLE], Run("rebalance", "m", mode=mode), [DRAIN])
        assert (row["kind"], row["broker"], row["namespace"], row["bundle"]) == ("drain", "b1:8080", "", "")


def test_a_drained_broker_joins_those_that_the_configuration_empties_unless_nothing_may_leave_it() -> None:
    rows = tuple(wish_row({**DRAIN, "broker": name}, "lab", MAKER) for name in ("b3:8080", "b1:8080", "b2:8080"))
    configured = {"evenkeelDrainingBrokers": ["b4:8080", "b1:8080"], "evenkeelFrozenBrokers": ["b2:8080"]}
    taken = with_taken(replace(CYCLE, overrides=configured), rows)
    assert taken.overrides == {**configured, "evenkeelDrainingBrokers": ["b1:8080", "b3:8080", "b4:8080"]}
    assert taken.wishes == rows
    assert with_taken(CYCLE, (wish_row(UNLOAD, "lab", MAKER),)).overrides == {}


def test_cycles_of_a_window_take_the_wishes_that_a_backfill_of_each_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of an attempt at the very cycle; one that waits is left for a run that can carry it out."""
    moments = [f"2026-11-21T08:{minute:02}:00.000000+00:00" for minute in range(0, 50, 5)]
    cycles = [ClusterCycle(name, at, Snapshot("/s", at), {}) for name in ("lab", "west") for at in moments]
    given = (SPLIT, UNLOAD, DRAIN, {**UNLOAD, "bundle": "0x40000000_0x80000000"})
    known = [
        wish_row(one, name, Maker("ann", moments[n]))
        for name in ("lab", "west")
        for n, one in enumerate(given, start=1)
    ]
    of_lab = [row["wish_id"] for row in known[:4]]
    taken = [
        TakenWishes("lab", moments[2], (of_lab[0], of_lab[2])),
        TakenWishes("lab", moments[3], (of_lab[1], of_lab[2])),
        TakenWishes("west", moments[2], ()),
    ]
    asked = []

    def read(_spark: object, _lake: object, keys: Any, _running: Any) -> list[TakenWishes]:
        asked.append(list(keys))
        return taken

    monkeypatch.setattr(wish_intake, "read_wishes", lambda *_: known)
    monkeypatch.setattr(wish_intake, "read_taken", read)
    monkeypatch.setattr(wish_intake, "append_wishes", lambda *_: pytest.fail("a window brings no wishes"))
    found = with_wishes_on_record(None, None, cycles, Run("cli", "window"))  # type: ignore[arg-type]
    backfill = Run("cli", "single", kind="backfill")
    assert found == [with_taken(one, wishes_for(*one.key, known, taken, backfill)) for one in cycles]
    assert [one.key for one in found if one.wishes] == [("lab", moments[2]), ("lab", moments[3])]
    assert found[2].overrides["evenkeelDrainingBrokers"] == ["b1:8080"]
    assert [len(keys) for keys in asked] == [2], "one read, with a cycle for each cluster"
