"""A recorded cluster as a model: the fit finds the brokers' true lines again, however far apart the cycles are."""

from datetime import UTC, datetime, timedelta

import pytest

from evenkeel.replay.modelled_cluster import Cluster, Topic, UsageFit
from evenkeel.replay.recorded_traffic import SeenCycle, fits_of
from evenkeel.settings import Settings

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)
LAG = timedelta(minutes=2)
FITS = {"b1:8080": UsageFit(0.05, 4e-9), "b2:8080": UsageFit(0.10, 2e-9)}
LIGHT, HEAVY = "shop/ns/0x00000000_0x80000000", "shop/ns/0x80000000_0xffffffff"
FLOWS = {LIGHT: 20e6, HEAVY: 60e6}


def thrashing(every: timedelta) -> list[SeenCycle]:
    """Twelve cycles, and after each third one the heavy bundle goes to the other broker."""
    topics = [Topic("shop/ns", 1), Topic("shop/ns", 0x80000001)]
    owners: dict[str, str | None] = {LIGHT: "b1:8080", HEAVY: "b1:8080"}
    cluster = Cluster("model", FITS, topics, {"shop/ns": (0, 0x80000000, 0xFFFFFFFF)}, owners)
    seen = []
    for number in range(12):
        at = AT + number * every
        level = 1.0 + 0.1 * (number % 3)
        cluster.observe(at, [level * flow for flow in FLOWS.values()], (), Settings())
        flow = {bundle: level * each for bundle, each in FLOWS.items()}
        seen.append(SeenCycle(at, flow, flow, dict(cluster.owner), cluster.usage(lag=LAG)))
        if number % 3 == 2:
            goal = next(broker for broker in FITS if broker != cluster.owner[HEAVY])
            cluster._give(HEAVY, goal, at + timedelta(seconds=1))
    return seen


@pytest.mark.parametrize("seconds", [30, 60, 90, 120, 600])
def test_the_brokers_lines_are_found_again(seconds: int) -> None:
    seen = thrashing(timedelta(seconds=seconds))
    found = fits_of(seen, FITS, range(len(seen)), LAG)
    for broker, line in FITS.items():
        assert found[broker].base == pytest.approx(line.base)
        assert found[broker].per_byte == pytest.approx(line.per_byte)
