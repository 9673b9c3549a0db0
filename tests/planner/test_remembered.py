"""What the planner remembers comes back from its rows, bit for bit, and is few rows."""

from collections.abc import Mapping
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from evenkeel.cycle.fold import PLANNER, state_row
from evenkeel.planner.memory import BrokerMemory, PlannerMemory, Promise, WantedSplit
from evenkeel.planner.round import PACKED, WANTED, has_fallen_back, memory_of, rows_of
from evenkeel.planner.usage_model import SUM_NAMES, UsageSums
from tests.cycle.rows import as_read

AT = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
NAMES = st.one_of(st.sampled_from(["b1", "b2", "cluster", 'b"3\\ broker {']), st.text(min_size=1, max_size=8))
MOMENTS = st.integers(0, 10**9).map(lambda n: AT + timedelta(microseconds=n))
TIMES = st.one_of(st.none(), MOMENTS)
RESOURCES = st.sampled_from(["cpu", "direct_memory", "bandwidth_out"])


WISHES = st.builds(
    WantedSplit, MOMENTS, RESOURCES, NUMBERS, NUMBERS, NUMBERS, st.booleans(), TIMES, st.none(), st.none()
)
ROOMS = st.tuples(WISHES, NUMBERS, NUMBERS).map(lambda found: found[0]._replace(stay=found[1], leave=found[2]))


def records(kind: type[Any], **known: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.builds(kind, **{one.name: known.get(one.name, NUMBERS) for one in fields(kind)})


MEMORIES = records(
    PlannerMemory,
    at=TIMES, above=st.integers(0, 9), is_acting=st.booleans(), unsteady=st.integers(0, 9), misses=st.integers(0, 9),
    fell_back=TIMES,
    brokers=st.dictionaries(NAMES, records(BrokerMemory, since=TIMES), max_size=4),
    sums=st.dictionaries(st.tuples(RESOURCES, NAMES), records(UsageSums), max_size=6),
    promises=st.dictionaries(NAMES, records(Promise, at=MOMENTS, resource=RESOURCES), max_size=4),
    deaf=st.dictionaries(NAMES, MOMENTS, max_size=4),
    splits=st.dictionaries(
        NAMES,
        st.one_of(WISHES, ROOMS),
        max_size=4,
    ),
)  # fmt: skip


@given(MEMORIES, st.randoms())
def test_what_is_remembered_comes_back_bit_for_bit_in_any_order_of_rows(memory: PlannerMemory, chance: Any) -> None:
    rows = as_read(rows_of(memory))
    chance.shuffle(rows)
    assert repr(sorted_of(memory_of(rows))) == repr(sorted_of(memory))
    assert len({(row["subject"], row["name"]) for row in rows}) == len(rows)
    assert has_fallen_back(rows) == (memory.fell_back is not None)


def sorted_of(memory: PlannerMemory) -> dict[str, Any]:
    """The memory without the order of its parts; a repr tells 0.0 from -0.0."""
    found = {one.name: getattr(memory, one.name) for one in fields(memory)}
    return {name: sorted(own.items()) if isinstance(own, Mapping) else own for name, own in found.items()}


def test_a_broker_is_one_row_whatever_is_remembered_of_it() -> None:
    memory = PlannerMemory(
        brokers={"b1": BrokerMemory(3.0, 4.0, 0.5, AT)},
        sums={(resource, "b1"): UsageSums() for resource in ("cpu", "memory", "direct_memory")},
        promises={"b1": Promise(AT, "cpu", 0.1, 0.5, 7.0)},
    )
    own = [row for row in rows_of(memory) if row["subject"] == "b1"]
    assert [(row["at"], row["name"][: len(PACKED)]) for row in own] == [(AT, PACKED)]


def test_a_figure_a_row_as_it_was_before_is_passed_over_and_the_cluster_is_still_known() -> None:
    """Such rows are in lakes of cycles before; each broker had one for every figure."""
    figures = ("bundles", "load", "change", *(f"cpu {name}" for name in SUM_NAMES), "promised cpu gain")
    rows = [
        *(state_row(PLANNER, "b1", name, value=1.0) for name in figures),
        *(state_row(PLANNER, "b1", name, at=AT) for name in ("bundles since", "promised cpu at")),
        *(state_row(PLANNER, "cluster", name, value=2.0) for name in ("message_bytes", "misses")),
        state_row(PLANNER, "cluster", "seen", at=AT),
    ]
    assert memory_of(as_read(rows)) == PlannerMemory(at=AT, message_bytes=2.0, misses=2)
    assert memory_of([]) == PlannerMemory()


def test_what_cannot_be_read_is_left_out() -> None:
    for text in ("", "{", "[]", '{"load":[1.0]}', '{"load":[1.0,NaN,2.0]}', '{"promise":["cpu","?",1.0,1.0,1.0]}',
                 '{"sums":{"cpu":[true]}}', '{"sums":[]}', '{"promise":[1]}', '{"load":[1.0,"2",3.0]}'):  # fmt: skip
        assert memory_of(as_read([state_row(PLANNER, "b1", PACKED + text)])) == PlannerMemory()
    for text in (
        "",
        "[]",
        "{}",
        '["cpu",1.0,2.0]',
        '["cpu",1.0,2.0,"3",true,null]',
        '["cpu",1.0,2.0,3.0,true,"?"]',
        '["cpu",1.0,2.0,3.0,true,null,1.0]',
        '["cpu",1.0,2.0,3.0,true,null,1.0,"2"]',
    ):
        assert memory_of(as_read([state_row(PLANNER, "a", WANTED + text, at=AT)])) == PlannerMemory()


def test_a_wish_of_an_older_record_says_nothing_of_rooms() -> None:
    text = '["cpu",1.0,2.0,3.0,true,null]'
    old = WantedSplit(AT, "cpu", 1.0, 2.0, 3.0, True)
    assert memory_of(as_read([state_row(PLANNER, "a", WANTED + text, at=AT)])).splits == {"a": old}
    (row,) = [row for row in rows_of(PlannerMemory(splits={"a": old})) if row["subject"] == "a"]
    assert row["name"] == WANTED + text
