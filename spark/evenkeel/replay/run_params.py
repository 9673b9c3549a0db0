"""Params of a run of the DAG `replay`, which are also the fields of the desk's form."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from evenkeel.errors import BadInput
from evenkeel.replay.closed_loop import CLUSTER
from evenkeel.replay.comparison import VariantComparison
from evenkeel.replay.history import Played, read_span
from evenkeel.replay.open_loop import asked, replay
from evenkeel.replay.simulation import (
    GENERATED_MANAGER,
    SimulationRequest,
    asked_simulation,
    default_settings,
    keep,
    play,
    simulated_variants,
)
from evenkeel.replay.variants import Variant, check_limit, settings_of, value_text, variants_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REPLAY, SIMULATE = "replay", "simulate"
KINDS = (REPLAY, SIMULATE)
NUMBERS = {"seed": 1, "cycles": 240, "every": 60.0, "brokers": 3, "bundles": 96}
"""Params of generated traffic, with their defaults."""
USUAL_LIMIT = 85.0

log = logging.getLogger(__name__)


def _called(name: str) -> str:
    return f"the param `{name}`"


def run_params(spark: SparkSession, lake: str, params: Mapping[str, Any]) -> str:
    """Replay or simulate by a DAG run's params, log the comparison, and return JSON with its `replay_id`."""
    comparison = _simulated(spark, lake, params) if _kind(params) == SIMULATE else _replayed(spark, lake, params)
    log.info("%s", comparison.text())
    return json.dumps({"replay_id": comparison.replay_id, "variants": comparison.rows()})


def _kind(params: Mapping[str, Any]) -> str:
    kind = params.get("kind") or REPLAY
    if kind not in KINDS:
        raise BadInput(f"{_called('kind')} is {str(kind)[:60]!r}: it is {' or '.join(KINDS)}")
    return str(kind)


def _replayed(spark: SparkSession, lake: str, params: Mapping[str, Any]) -> VariantComparison:
    wanted = asked(
        lake,
        cluster=params.get("cluster") or None,
        since=params.get("since") or None,
        until=params.get("until") or None,
        **_variant_words(params),
        limit_percent=params.get("limit"),
        times=(_called("since"), _called("until")),
        called=_called("limit"),
    )
    return replay(spark, wanted, lambda done, total: log.info("%d of %d cycles replayed", done, total))


def _simulated(spark: SparkSession, lake: str, params: Mapping[str, Any]) -> VariantComparison:
    wanted = asked_simulation(simulation_request(lake, params))
    log.info("%s", wanted.stage.note)
    played = Played(uuid.uuid4().hex)
    comparison = play(wanted, played, lambda done, total: log.info("%d of %d variants simulated", done, total))
    keep(spark, lake, played, comparison, wanted)
    return comparison


def simulation_request(lake: str, params: Mapping[str, Any]) -> SimulationRequest:
    """The simulation that params ask for; without a scenario, of recorded traffic."""
    numbers: dict[str, Any] = {
        name: usual if params.get(name) is None else params[name] for name, usual in NUMBERS.items()
    }
    numbers["every_s"] = numbers.pop("every")
    return SimulationRequest(
        lake=lake,
        scenario=params.get("scenario") or None,
        cluster=params.get("cluster") or None,
        since=params.get("since") or None,
        until=params.get("until") or None,
        **numbers,
        **_variant_words(params),
        limit_percent=USUAL_LIMIT if params.get("limit") is None else params["limit"],
        called=_called,
    )


def _variant_words(params: Mapping[str, Any]) -> dict[str, Any]:
    """Strategies, settings and variants as a command line has them."""

    def pairs(settings: Mapping[str, Any] | None) -> list[str]:
        return [f"{key}={value_text(value)}" for key, value in (settings or {}).items()]

    variants = params.get("variants") or {}
    return {
        "strategies": list(params.get("strategies") or ()),
        "settings": pairs(params.get("settings")),
        "variants": [f"{name}:{','.join(pairs(settings))}" for name, settings in variants.items()],
    }


@dataclass(frozen=True, slots=True)
class CheckedParams:
    """Checked params. `cycles`: recorded cycles that are decided again or lend their traffic, 0 for generated traffic;
    `first` and `last`: of them."""

    cluster: str
    cycles: int
    first: datetime | None
    last: datetime | None
    variants: tuple[Variant, ...]


def check_params(lake: str, params: Mapping[str, Any]) -> CheckedParams:
    """Return the checked params, as far as they can be checked without deciding.

    Names, keys, values, the range, and if the settings of the range's last decided cycle go with each variant. Raises
    BadInput, SettingsError and NoSuchCycle with the messages that the run would end with.
    """
    request = simulation_request(lake, params) if _kind(params) == SIMULATE else None
    if request is not None:
        request.check()
        if not request.is_recorded:
            simulated = simulated_variants(request, GENERATED_MANAGER)
            for variant in simulated:
                settings_of(variant, default_settings(), GENERATED_MANAGER, CLUSTER)
            return CheckedParams(CLUSTER, 0, None, None, simulated)
    check_limit(params.get("limit"), _called("limit"))
    words = _variant_words(params)
    given = variants_of(words["strategies"], words["settings"], words["variants"])
    span = read_span(
        lake,
        params.get("cluster") or None,
        params.get("since") or None,
        params.get("until") or None,
        options=(_called("since"), _called("until")),
    )
    variants = given if request is None else simulated_variants(request, span.manager)
    for variant in variants:
        settings_of(variant, span.settings, span.manager, span.cluster)
    return CheckedParams(span.cluster, span.cycles, span.first, span.last, variants)
