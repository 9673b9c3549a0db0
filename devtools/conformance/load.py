"""Operations about measured load: usage and averages."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from devtools.conformance.reading import Json, history_of, report_of, settings_of, stats_of
from evenkeel.model.averages import broker_averages, default_history, updated
from evenkeel.model.load import (
    LONG_TERM_SAMPLES,
    SHORT_TERM_SAMPLES,
    BrokerReport,
    BundleHistory,
    BundleStats,
    MessageAverages,
)
from evenkeel.model.usage import ExtensibleAverages, float32, percent, weighted_maximum


def usage(case: dict[str, Any]) -> dict[str, Any]:
    """`usage`"""
    settings = settings_of(case.get("config"))
    extensible = ExtensibleAverages()
    samples = []
    for sample in case["samples"]:
        if sample.get("clear"):
            extensible = ExtensibleAverages()
        report = report_of("broker", sample)
        extensible = extensible.updated(report, settings)
        samples.append(
            {
                "percent": {
                    "cpu": percent(report.cpu),
                    "memory": percent(report.memory),
                    "directMemory": percent(report.direct_memory),
                    "bandwidthIn": percent(report.bandwidth_in),
                    "bandwidthOut": percent(report.bandwidth_out),
                },
                "modularMax": plain_maximum(report),
                "modularWeightedMax": weighted_maximum(report, settings),
                "extensibleMax": plain_maximum_extensible(report),
                "weightedMaxEMA": extensible.weighted_maximum,
                "msgThroughputEMA": extensible.msg_throughput,
            }
        )
    return {"samples": samples}


def plain_maximum(report: BrokerReport) -> float:
    """Return the highest usage as a fraction, unweighted and in 32 bits: `maxResourceUsage` of a modular report."""
    return float32(plain_maximum_extensible(report))


def plain_maximum_extensible(report: BrokerReport) -> float:
    """Return the highest usage as a fraction, unweighted: `maxResourceUsage` of extensible load data."""
    used = map(percent, (report.cpu, report.direct_memory, report.bandwidth_in, report.bandwidth_out))
    return max((usage for usage in used if not math.isnan(usage)), default=-math.inf) / 100


def long_short_term(case: dict[str, Any]) -> dict[str, Any]:
    """`long_short_term`"""
    given = case.get("defaultStats")
    assumed = BundleStats() if given is None else stats_of(given)
    histories: dict[str, BundleHistory] = {}
    answer: dict[str, Any] = {"bundles": {}}
    for name, body in case["bundles"].items():
        histories[name], after = _sampled(body, assumed)
        answer["bundles"][name] = [_shown(history) for history in after]
    if "brokerBundles" in case:
        sums = asdict(broker_averages(set(case["brokerBundles"]), histories, assumed))
        answer["broker"] = {_pulsar_name(name): value for name, value in sums.items()}
    return answer


def _sampled(body: Json, assumed: BundleStats) -> tuple[BundleHistory, list[BundleHistory]]:
    if "initial" in body:
        history = history_of(body["initial"])
    else:
        counts = body.get("shortSamples", SHORT_TERM_SAMPLES), body.get("longSamples", LONG_TERM_SAMPLES)
        history = default_history(assumed, *counts)
    after = []
    for sample in body["samples"]:
        for _ in range(sample.get("repeat", 1)):
            history = updated(history, stats_of(sample))
        after.append(history)
    return history, after or [history]


def _shown(history: BundleHistory) -> dict[str, Any]:
    return {
        "shortTermData": _shown_averages(history.short_term),
        "longTermData": _shown_averages(history.long_term),
        "topics": history.topics,
    }


def _shown_averages(averages: MessageAverages) -> dict[str, Any]:
    return {
        "maxSamples": averages.max_samples,
        "numSamples": averages.samples,
        "msgThroughputIn": averages.msg_throughput_in,
        "msgThroughputOut": averages.msg_throughput_out,
        "msgRateIn": averages.msg_rate_in,
        "msgRateOut": averages.msg_rate_out,
    }


def _pulsar_name(name: str) -> str:
    term, _, figure, direction = name.replace("_term_", "_term_msg_").rsplit("_", 3)
    return f"{term.replace('_term', '')}TermMsg{figure.title()}{direction.title()}"


OPERATIONS = {"usage": usage, "long_short_term": long_short_term}
