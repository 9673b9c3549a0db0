"""The examples of Pulsar's pages on UniformLoadShedder, AvgShedder and TransferShedder, named as in
`test_documented_examples`."""

from __future__ import annotations

from dataclasses import replace

from evenkeel.shed.shedder import ShedderState
from evenkeel.shed.strategies.transfer_shedder import TransferState
from tests.cycle.extensible_clusters import NOW
from tests.cycle.test_differences import avg, bundles, cluster, said_of, taken, uniform
from tests.shed import test_transfer_shedder as transfers


def test_administration_uniform_load_shedder_looks_at_throughput_only_where_the_rate_is_even() -> None:
    """The page has it look at both differences. Here both are above their limit, and only the rate is acted on."""
    busy, idle = bundles(1, 20_000.0, 10_000.0), bundles(2, 10_000.0)
    both = uniform(cluster(busy, idle, mib=(900.0, 10.0)), maxUnloadPercentage=0.5)
    assert [row.unit for row in both.considered if row.subject == "b1:1"] == ["percent"]
    assert taken(both) == ["n1-1"]
    even = bundles(3, 10_000.0, 1_000.0)
    only_throughput = uniform(cluster(even, idle, mib=(900.0, 10.0)), maxUnloadPercentage=0.5)
    assert "times the traffic of the idlest" in said_of(only_throughput, "b1:1")


def test_concepts_avg_shedder_reaching_15_eight_times_or_40_twice_is_enough() -> None:
    """The page says "exceeds". The count is each broker's own, not the pair's."""
    for busy, rounds in ((35.0, 8), (60.0, 2)):
        load = cluster(bundles(1, *[2500.0] * 20), bundles(2, *[500.0] * 20), cpu=(busy, 20.0))
        state: ShedderState = {}
        for _ in range(rounds - 1):
            found = avg(load, state)
            assert taken(found) == []
            state = found.state
        assert taken(avg(load, state))


def test_concepts_transfer_shedder_a_broker_without_traffic_is_one_far_below_the_highest() -> None:
    """The page has no broker receive 0 traffic. Some traffic does not help: it takes an eighth of the highest."""
    load = transfers.cluster(0.22, 0.20, 0.19, bundles=20)
    most = load.loads["b1:8080"].msg_throughput_ema
    some = replace(load.loads["b3:8080"], msg_throughput_ema=most / 10)
    made = transfers.shed(replace(load, loads={**load.loads, "b3:8080": some}))
    assert transfers.rule_of(made) == "throughput_under_highest"
    assert {one.reason for one in made.transfers} == {"Underloaded"}


def test_concepts_transfer_shedder_conditions_must_hold_four_times_and_no_broker_be_cooling_down() -> None:
    """The page names the conditions alone: deviation, lowest and highest load."""
    settings = transfers.AT_ONCE.with_values({"loadBalancerSheddingConditionHitCountThreshold": 3})
    uneven = transfers.cluster(0.9, 0.1)
    for hits, moved in ((2, False), (3, True)):
        assert bool(transfers.shed(uneven, settings, TransferState(hits)).transfers) is moved
    cooling = TransferState(3, {"b2:8080": NOW - 179_999})
    assert transfers.shed(uneven, settings, cooling).notes == ("Skip:CoolDown",)


def test_concepts_avg_shedder_moves_a_quarter_of_a_thousand_only_where_told_to() -> None:
    """The page has both brokers end with 750 msg/s. In fact nothing is large enough by default; half of the outer
    pair's 500 msg/s moves once minUnloadMessage is below 250. The inner pair is 39.999998 apart in 32 bits."""
    rates = (500.0, 600.0, 700.0, 800.0, 1000.0)
    five = cluster(*(bundles(n, *[rate / 10] * 10) for n, rate in enumerate(rates)), cpu=(20.0, 30.0, 52.0, 70.0, 80.0))
    first = avg(five, {})
    assert first.state["high_hits"] == {"b1:1": 1.0, "b5:1": 1.0}
    assert first.state["low_hits"] == dict.fromkeys(("b1:1", "b2:1", "b4:1", "b5:1"), 1.0)
    assert said_of(first, "b3:1") == "b3:1 at 52.0 % is in the middle and has no partner."
    assert (
        said_of(first, "b5:1") == "b5:1 at 80.0 % is 60 points over its partner b1:1, for 1 round so far; it takes 2."
    )
    assert taken(avg(five, first.state)) == []
    assert taken(avg(five, first.state, maxUnloadPercentage=0.5, minUnloadMessage=250)) == []
    moved = avg(five, first.state, maxUnloadPercentage=0.5, minUnloadMessage=249)
    assert taken(moved) == ["n4-0", "n4-1"]
    assert said_of(moved, "b5:1") == (
        "b5:1 at 80.0 % is 60 points over its partner b1:1, and the limit of 40 has been reached for long enough: "
        "2 bundles to go there, for 250 msg/s to move."
    )
    assert said_of(moved, "t/n4-1/0x00000000_0xffffffff") == (
        "t/n4-1/0x00000000_0xffffffff (100 msg/s) leaves b5:1 for b1:1: it fits into the 150 msg/s left to move."
    )
