"""Operations about shedding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from evenkeel.conformance.reading import load_of, rounds_of, settings_of
from evenkeel.decisions.shedding import overload_shedder, threshold_shedder
from evenkeel.decisions.shedding.shed import Shed
from evenkeel.decisions.shedding.shedders import Shedder


def _operation(
    shedder: Shedder, answer: Callable[[Shed], dict[str, Any]]
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def run(case: dict[str, Any]) -> dict[str, Any]:
        state: dict[str, float] = {}
        rounds = []
        for given in rounds_of(case["rounds"], "brokers", "bundles"):
            settings = settings_of(case.get("config"), given.get("config"))
            load = load_of(given.get("brokers"), given.get("bundles"), given.get("recentlyUnloaded"))
            if "activeBrokers" in given:
                state = threshold_shedder.without_gone(state, frozenset(given["activeBrokers"]))
            shed = shedder(load, state, settings)
            state = dict(shed.state)
            rounds.append(answer(shed))
        return {"rounds": rounds}

    return run


def _unloads(shed: Shed) -> dict[str, Any]:
    unload: dict[str, list[str]] = {}
    for bundle, broker in shed.unloads:
        unload.setdefault(broker, []).append(bundle)
    return {"unload": {broker: sorted(bundles) for broker, bundles in sorted(unload.items())}}


def _unloads_and_usage(shed: Shed) -> dict[str, Any]:
    return {**_unloads(shed), "state": {"usage": dict(sorted(shed.state.items()))}}


OPERATIONS = {
    "shed_overload": _operation(overload_shedder.shed, _unloads),
    "shed_threshold": _operation(threshold_shedder.shed, _unloads_and_usage),
}
