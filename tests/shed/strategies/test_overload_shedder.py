"""OverloadShedder: its limit, how much goes, and the resources that count."""

import pytest

from evenkeel.model.load import ResourceUsage
from evenkeel.settings import Settings
from evenkeel.shed.strategies import overload_shedder
from evenkeel.shed.try_shedder import try_shedder
from tests.shed.clusters import MIB, broker, cluster, taken

IDLE = broker("b2:8080", 20.0, mib=[5.0] * 2)


@pytest.mark.parametrize(
    ("cpu", "gone"),
    [
        pytest.param(84.9, [], id="a broker under the limit of 85 % keeps its bundles"),
        pytest.param(85.0, ["b1-0"], id="a broker that has reached the limit sheds 5 % of its traffic"),
        pytest.param(90.1, ["b1-0", "b1-1"], id="a broker over the limit sheds the points above it as well"),
    ],
)
def test_a_broker_sheds_from_its_limit_on(cpu: float, gone: list[str]) -> None:
    assert taken(try_shedder("OverloadShedder", [broker("b1:8080", cpu, mib=[10.0] * 10), IDLE])) == gone


def test_administration_overload_shedder_at_95_percent() -> None:
    """(95 % - 85 %) + 5 % = 15 % of the broker's traffic, and the last bundle overshoots.

    The page also says that exactly one bundle goes, by message rate: it is as many as it takes, by throughput.
    """
    load = cluster(broker("b1:8080", 95.0, mib=[10.0] * 10), IDLE)
    shed = overload_shedder.shed(load, {}, Settings())
    assert [from_ for _, from_ in shed.unloads] == ["b1:8080", "b1:8080"]
    (row,) = (row for row in shed.considered if row.subject == "b1:8080")
    assert abs(row.numbers["to_offload"] - 15 * MIB) < 1.0


def test_administration_overload_shedder_acts_at_the_threshold_already() -> None:
    """The concepts page says "reaches", the administration page "exceeds"; reaching it is enough."""
    load = cluster(broker("b1:8080", 85.0, mib=[10.0] * 10), IDLE)
    assert len(overload_shedder.shed(load, {}, Settings()).unloads) == 1


def test_administration_heap_memory_never_makes_a_broker_overloaded() -> None:
    """The pages name memory among the resources; heap never counts, and direct memory has weight 0 by default."""
    full = ResourceUsage(100.0, 100.0)
    load = cluster(broker("b1:8080", 10.0, mib=[25.0] * 4, memory=full, direct_memory=full), IDLE)
    assert overload_shedder.shed(load, {}, Settings()).unloads == ()
    heavy = Settings().with_values({"loadBalancerDirectMemoryResourceWeight": 1.0})
    assert overload_shedder.shed(load, {}, heavy).unloads != ()
