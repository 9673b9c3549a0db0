"""What holds for every shedder of the modular load manager, whatever it does."""

from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from evenkeel.model.load import LoadData
from evenkeel.settings import Settings, registry
from evenkeel.shed.shedder import ModularShedder, Shed
from tests.cycle.clusters import NOW, Cluster, holds, shuffled

EAGER: dict[str, Any] = {
    "minUnloadMessage": 0,
    "minUnloadMessageThroughput": 0,
    "maxUnloadPercentage": 1.0,
    "loadBalancerAvgShedderHitCountHighThreshold": 1,
    "loadBalancerAvgShedderHitCountLowThreshold": 1,
    "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold": 1.5,
}
RATE_OFF = {"loadBalancerMsgRateDifferenceShedderThreshold": 0.0}
OFF: dict[str, Any] = {**RATE_OFF, "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold": 0.0}
TOLERANT: dict[str, Any] = {**RATE_OFF, "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold": 1e12}
KEYS = registry().keys()


class WatchedSettings(Settings):
    """Settings that note which keys are read."""

    def __getattribute__(self, name: str) -> Any:
        if name in KEYS:
            object.__getattribute__(self, "__dict__").setdefault("read", set()).add(name)
        return super().__getattribute__(name)


def watched(settings: Settings) -> WatchedSettings:
    found = WatchedSettings(**settings.values())  # type: ignore[arg-type]
    found.__dict__["read"] = set()
    return found


def rounds_of(shedder: ModularShedder, load: LoadData, settings: Settings) -> list[Shed]:
    """Three rounds in which nothing moves."""
    found: list[Shed] = []
    for _ in range(3):
        found.append(shedder.shed(load, found[-1].state if found else {}, settings))
    return found


def check(shedder: ModularShedder, cluster: Cluster, data: st.DataObject) -> tuple[set[str], set[str]]:
    """Every check on one cluster; the keys that were read, and the names of the rules that were seen."""
    read: set[str] = set()
    rules: set[str] = set()
    resting = replace(cluster.load, recently_unloaded=dict.fromkeys(cluster.load.histories, NOW))
    for load, values in ((resting, EAGER), *((cluster.load, values) for values in ({}, EAGER, OFF, TOLERANT))):
        settings = cluster.settings.with_values(values)
        seen = watched(settings)
        for made in rounds_of(shedder, load, seen):
            check_verdicts(shedder, load, made)
            rules |= {row.rule for row in made.considered if row.subject_kind != "bundle"}
            assert set(made.state) <= set(shedder.remembers)
        read |= seen.__dict__["read"]
    other = shuffled(data, cluster)
    for settings in (cluster.settings, cluster.settings.with_values(EAGER)):
        assert rounds_of(shedder, other.load, settings) == rounds_of(shedder, cluster.load, settings)
    assert read <= {*shedder.keys, *SPELLED_TWICE}, "a key is read that the shedder does not declare"
    return read, rules


SPELLED_TWICE = {"loadBalancerBandwithInResourceWeight", "loadBalancerBandwithOutResourceWeight"}
"""The older spelling of two keys; whoever reads the one reads the other."""


def check_verdicts(shedder: ModularShedder, load: LoadData, made: Shed) -> None:
    for row in made.considered:
        text = row.sentence()
        assert text.endswith(".")
        assert "None" not in text
        assert "unknown figure" not in text
        assert holds(row), row
        if row.subject_kind != "bundle":
            assert row.by in shedder.rules, row
    subjects = [(row.subject_kind, row.subject) for row in made.considered]
    assert len(subjects) == len(set(subjects)), "a subject has two verdicts"
    brokers = {subject for kind, subject in subjects if kind == "broker"}
    assert brokers == load.brokers.keys() or ("cluster", "cluster") in subjects, "a broker has no verdict"
    shed = [(r.subject, r.broker) for r in made.considered if r.subject_kind == "bundle" and r.outcome == "unload"]
    assert sorted(shed) == sorted(made.unloads), "the verdicts are not what was decided"
    for bundle, broker in made.unloads:
        assert bundle in load.brokers[broker].bundles
        assert bundle not in load.recently_unloaded
    wished = replace(load, wished=frozenset(bundle for bundle, _ in made.unloads))
    assert not {bundle for bundle, _ in shedder.shed(wished, {}, Settings()).unloads} & wished.wished
