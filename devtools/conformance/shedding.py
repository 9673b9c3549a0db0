"""Operations about shedding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from devtools.conformance.reading import load_of, rounds_of, settings_of
from evenkeel.model.load import LoadData
from evenkeel.settings import Settings
from evenkeel.shed.shedder import Shed, ShedderState, without_gone
from evenkeel.shed.strategies import avg_shedder, shedder_named
from evenkeel.shed.strategies.threshold_shedder import USAGE_AVERAGE


def _operation(
    name: str, answer: Callable[[Shed, LoadData, Settings], dict[str, Any]]
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def run(case: dict[str, Any]) -> dict[str, Any]:
        shedder = shedder_named(name)
        state: ShedderState = {}
        rounds = []
        for given in rounds_of(case["rounds"], "brokers", "bundles"):
            settings = settings_of(case.get("config"), given.get("config"))
            load = load_of(given.get("brokers"), given.get("bundles"), given.get("recentlyUnloaded"))
            if "activeBrokers" in given and shedder.forgets_gone_brokers:
                state = without_gone(state, frozenset(given["activeBrokers"]))
            shed = shedder.shed(load, state, settings)
            state = shed.state
            rounds.append(answer(shed, load, settings))
        return {"rounds": rounds}

    return run


def _unloads(shed: Shed, load: LoadData, settings: Settings) -> dict[str, Any]:
    unload: dict[str, list[str]] = {}
    for bundle, broker in shed.unloads:
        unload.setdefault(broker, []).append(bundle)
    return {"unload": {broker: sorted(bundles) for broker, bundles in sorted(unload.items())}}


def _unloads_and_usage(shed: Shed, load: LoadData, settings: Settings) -> dict[str, Any]:
    return {**_unloads(shed, load, settings), "state": {"usage": dict(shed.state[USAGE_AVERAGE])}}


def _unloads_and_pairs(shed: Shed, load: LoadData, settings: Settings) -> dict[str, Any]:
    return {
        **_unloads(shed, load, settings),
        "destination": dict(shed.destinations),
        "state": {
            "score": avg_shedder.scores(load, settings),
            "high": dict(shed.state[avg_shedder.HIGH_HITS]),
            "low": dict(shed.state[avg_shedder.LOW_HITS]),
        },
    }


OPERATIONS = {
    "shed_overload": _operation("OverloadShedder", _unloads),
    "shed_threshold": _operation("ThresholdShedder", _unloads_and_usage),
    "shed_uniform": _operation("UniformLoadShedder", _unloads),
    "shed_avg": _operation("AvgShedder", _unloads_and_pairs),
}
