"""Choosing a broker as the extensible load manager does."""

from __future__ import annotations

from typing import Any

from devtools.conformance.reading import Json, double, rounds_of, settings_of
from evenkeel.errors import BadInput
from evenkeel.model.load import BrokerLoadData
from evenkeel.place.strategies import least_resource_usage_with_weight
from evenkeel.place.strategies import round_robin_broker_selector as round_robin

NOW = 1_000_000_000_000


def select(case: dict[str, Any]) -> dict[str, Any]:
    """`select` with the manager "extensible"."""
    turn = round_robin.FIRST_TURN
    answers: list[dict[str, Any]] = []
    for call in rounds_of(case["calls"], "brokers"):
        wanted = sorted(call.get("candidates") or ())
        if case["strategy"] == "LeastResourceUsageWithWeight":
            settings = settings_of(case.get("config"), call.get("config"))
            loads = loads_of(call.get("brokers") or {})
            best = list(least_resource_usage_with_weight.select_extensible(wanted, loads, settings).brokers)
        elif case["strategy"] == "RoundRobinBrokerSelector":
            taken, turn = round_robin.select(wanted, turn)
            best = [taken] if taken else []
        else:
            raise BadInput(f"unknown placement strategy {case['strategy']!r} of the extensible manager")
        answers.append({"best": best})
    return {"calls": answers}


def loads_of(brokers: Json) -> dict[str, BrokerLoadData]:
    """The load data of the brokers that have some."""
    return {name: _load_data(body) for name, body in brokers.items() if not body.get("noLoadData")}


def _load_data(body: Json) -> BrokerLoadData:
    return BrokerLoadData(
        weighted_max_ema=float(body.get("weightedMaxEMA", 1.0)),
        msg_throughput_ema=double(body, "msgThroughputEMA"),
        msg_throughput_in=double(body, "msgThroughputIn"),
        msg_throughput_out=double(body, "msgThroughputOut"),
        topics=int(body.get("topics", 0)),
        updated_at=NOW - int(body.get("ageMs", 0)),
    )
