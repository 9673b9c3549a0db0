"""The three clusters of the week, and its moments: six days by the hour, and a Tuesday in cycles of five minutes.

`shop` thrashes on that Tuesday afternoon: someone made its shedder quick to move, just when one bundle of
`shop/checkout` grows too hot for any broker. `iot` loses a broker twice. `billing` splits its busiest bundle on the
first day, and again when invoices are due.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from devtools.week.course import GeneratedCluster, Surge

FIRST = datetime(2026, 11, 11, tzinfo=UTC)
TUESDAY = datetime(2026, 11, 17, tzinfo=UTC)
HOURLY, FIVE_MINUTES = timedelta(hours=1), timedelta(minutes=5)
_TUESDAY_AT = (TUESDAY - FIRST) / HOURLY


def moments(*, days: int = 6, last: int = 288) -> list[datetime]:
    """Return the week's moments; with fewer `days` before that Tuesday, and only the `last` of its own, for a smaller
    week."""
    hours = [TUESDAY - n * HOURLY for n in range(24 * days, 0, -1)]
    return hours + [TUESDAY + n * FIVE_MINUTES for n in range(last)]


HOT = "shop/checkout/0x40000000_0x50000000"
STEADY = {"loadBalancerBrokerThresholdShedderPercentage": 25, "loadBalancerSheddingIntervalMinutes": 5}
QUICK = {
    "loadBalancerBrokerThresholdShedderPercentage": 8,
    "loadBalancerHistoryResourcePercentage": 0.0,
    "loadBalancerSheddingGracePeriodMinutes": 0,
    "loadBalancerSheddingIntervalMinutes": 5,
}


def brokers(count: int, cluster: str) -> tuple[str, ...]:
    """The ids of a cluster's brokers."""
    return tuple(f"broker-{n}.{cluster}.example:8080" for n in range(1, count + 1))


SHOP = GeneratedCluster(
    name="shop",
    brokers=brokers(4, "shop"),
    namespaces={
        "shop/catalog": (16, 45e6),
        "shop/checkout": (16, 60e6),
        "shop/search": (8, 30e6),
        "shop/tracking": (16, 45e6),
    },
    overrides=((0.0, STEADY), (_TUESDAY_AT + 12.5, QUICK), (_TUESDAY_AT + 16.0, STEADY)),
    surges=(Surge(HOT, _TUESDAY_AT + 12.0, _TUESDAY_AT + 16.5, 9.0),),
    seed=17,
)
IOT = GeneratedCluster(
    name="iot",
    brokers=brokers(5, "iot"),
    namespaces={"iot/devices": (32, 120e6), "iot/firmware": (8, 10e6), "iot/telemetry": (32, 110e6)},
    overrides=((0.0, STEADY),),
    surges=(Surge("iot/firmware/0x20000000_0x40000000", 80.0, 92.0, 14.0),),
    down=(
        ("broker-3.iot.example:8080", 51.0, 53.0),
        ("broker-2.iot.example:8080", _TUESDAY_AT + 2.0, _TUESDAY_AT + 2.7),
    ),
    seed=23,
)
BILLING = GeneratedCluster(
    name="billing",
    brokers=brokers(3, "billing"),
    namespaces={"billing/invoices": (8, 40e6), "billing/ledger": (8, 35e6), "audit/trail": (4, 10e6)},
    overrides=((0.0, {**STEADY, "loadBalancerNamespaceBundleMaxMsgRate": 14_000}),),
    surges=(Surge("billing/invoices/0x60000000_0x80000000", 100.0, 140.0, 9.0),),
    seed=31,
)
CLUSTERS = (BILLING, IOT, SHOP)
