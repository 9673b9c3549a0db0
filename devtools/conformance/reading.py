"""From the JSON of a case to the values that decisions take."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evenkeel.errors import SettingsError
from evenkeel.model.load import (
    LONG_TERM_SAMPLES,
    SHORT_TERM_SAMPLES,
    BrokerAverages,
    BrokerReport,
    BundleHistory,
    BundleStats,
    IsolationPolicy,
    LoadData,
    MessageAverages,
    Policies,
    ResourceUsage,
)
from evenkeel.pulsar.generations import generation_of
from evenkeel.settings import Settings, resolve, simple_class_name
from evenkeel.settings.parsing import coerce, known_key
from evenkeel.settings.resolving import SWITCHES

Json = Mapping[str, Any]


def settings_of(*layers: Json | None) -> Settings:
    """Pulsar's defaults under the case's configuration, and a round's over that; unknown keys raise.

    `pulsar` in a configuration is the brokers' version, 4.2.4 without it.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        merged.update(layer or {})
    generation = generation_of([merged.pop("pulsar", None)])
    for name, value in merged.items():
        if name.startswith("evenkeel"):
            raise SettingsError(f"unknown setting {name!r}: cases know Pulsar's own keys only")
        coerce(known_key(name), value)
    observed = {name: _text(value) for name, value in merged.items()}
    return following_switches(resolve(observed=observed, overrides=None, generation=generation).settings, observed)


def following_switches(settings: Settings, observed: Mapping[str, str]) -> Settings:
    """Return the settings with Evenkeel switched as the brokers are: Pulsar's own rounds heed their switches.

    Shedding also needs loadBalancerEnabled, with either manager. Splitting needs it with the extensible manager only
    (Pulsar: SplitScheduler); the modular manager's split check (ModularLoadManagerImpl.checkNamespaceBundleSplit) does
    not read it.
    """
    on = {name: observed.get(name, "true") == "true" for name in (*SWITCHES, "loadBalancerEnabled")}
    has_balancer = {"evenkeelSheddingEnabled": on["loadBalancerEnabled"]}
    has_balancer["evenkeelSplitEnabled"] = on["loadBalancerEnabled"] or settings.manager == "modular"
    own = {ours: on[theirs] and has_balancer[ours] for theirs, ours in SWITCHES.items()}
    return settings.with_values({**{name: on[name] for name in SWITCHES}, **own})


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, list) else str(value)


def rounds_of(rounds: list[Json], *carried: str) -> Iterator[Json]:
    """Every single round: `repeat` unrolled, and members a round leaves out carried over from the round before."""
    held: dict[str, Any] = {}
    for given in rounds:
        held.update({name: given[name] for name in carried if name in given})
        for _ in range(given.get("repeat", 1)):
            yield {**given, **held}


def stats_of(body: Json | None) -> BundleStats:
    """Bundle stats; missing numbers are 0."""
    body = body or {}
    return BundleStats(
        topics=int(body.get("topics", 0)),
        consumers=int(body.get("consumerCount", 0)),
        producers=int(body.get("producerCount", 0)),
        msg_rate_in=double(body, "msgRateIn"),
        msg_rate_out=double(body, "msgRateOut"),
        msg_throughput_in=double(body, "msgThroughputIn"),
        msg_throughput_out=double(body, "msgThroughputOut"),
        cache_size_bytes=int(body.get("cacheSize", 0)),
    )


def history_of(body: Json) -> BundleHistory:
    """A bundle's history; averages without `numSamples` count as full."""
    return BundleHistory(
        _averages(body.get("shortTermData"), SHORT_TERM_SAMPLES),
        _averages(body.get("longTermData"), LONG_TERM_SAMPLES),
        int(body.get("topics", 0)),
    )


def report_of(name: str, body: Json) -> BrokerReport:
    """A broker's report with the totals it gives itself."""
    return BrokerReport(
        broker=name,
        cpu=_usage(body, "cpu"),
        memory=_usage(body, "memory"),
        direct_memory=_usage(body, "directMemory"),
        bandwidth_in=_usage(body, "bandwidthIn"),
        bandwidth_out=_usage(body, "bandwidthOut"),
        msg_rate_in=double(body, "msgRateIn"),
        msg_rate_out=double(body, "msgRateOut"),
        msg_throughput_in=double(body, "msgThroughputIn"),
        msg_throughput_out=double(body, "msgThroughputOut"),
        topics=int(body.get("numTopics", 0)),
        bundles=frozenset(body.get("bundles") or ()),
        stats={bundle: stats_of(stats) for bundle, stats in (body.get("lastStats") or {}).items()},
        version=body.get("brokerVersionString", "4.2.4"),
        load_manager=simple_class_name(body.get("loadManagerClassName", "ModularLoadManagerImpl")),
        persistent_topics=body.get("persistentTopicsEnabled", True),
        non_persistent_topics=body.get("nonPersistentTopicsEnabled", True),
    )


def load_of(brokers: Json | None, bundles: Json | None, recently_unloaded: list[str] | None = None) -> LoadData:
    """Everything the leader knows."""
    brokers = brokers or {}
    return LoadData(
        brokers={name: report_of(name, body) for name, body in brokers.items()},
        histories={name: history_of(body) for name, body in (bundles or {}).items()},
        recently_unloaded=dict.fromkeys(recently_unloaded or [], 0),
        preallocated={
            name: {bundle: history_of(history) for bundle, history in (body.get("preallocated") or {}).items()}
            for name, body in brokers.items()
        },
        averages={
            name: BrokerAverages(
                long_term_rate_in=double(body, "longTermMsgRateIn"),
                long_term_rate_out=double(body, "longTermMsgRateOut"),
            )
            for name, body in brokers.items()
        },
    )


def policies_of(body: Json) -> Policies:
    """Anti-affinity groups, failure domains and isolation policies of a case."""
    return Policies(
        groups=dict(body.get("groups") or {}),
        domains={name: tuple(brokers) for name, brokers in (body.get("domains") or {}).items()},
        isolation={name: _isolation(policy) for name, policy in (body.get("isolation") or {}).items()},
    )


def _isolation(body: Json) -> IsolationPolicy:
    parameters = (body.get("auto_failover_policy") or {}).get("parameters") or {}
    return IsolationPolicy(
        namespaces=tuple(body.get("namespaces") or ()),
        primary=tuple(body.get("primary") or ()),
        secondary=tuple(body.get("secondary") or ()),
        min_available=int(parameters.get("min_limit", 0)),
    )


def _usage(body: Json, name: str) -> ResourceUsage:
    usage, limit = body.get(name) or (0.0, 0.0)
    return ResourceUsage(float(usage), float(limit))


def _averages(body: Json | None, samples: int) -> MessageAverages:
    body = body or {}
    most = int(body.get("maxSamples", samples))
    return MessageAverages(
        max_samples=most,
        samples=int(body.get("numSamples", most)),
        msg_throughput_in=double(body, "msgThroughputIn"),
        msg_throughput_out=double(body, "msgThroughputOut"),
        msg_rate_in=double(body, "msgRateIn"),
        msg_rate_out=double(body, "msgRateOut"),
    )


def double(body: Json, name: str) -> float:
    """A number of a case; missing ones are 0."""
    value = body.get(name)
    return 0.0 if value is None else float(value)
