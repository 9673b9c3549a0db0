"""A replay as an operator asks for it, from a shell or from Airflow."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from evenkeel.errors import BadInput
from evenkeel.replay.comparison import Comparison
from evenkeel.replay.history import read_history
from evenkeel.replay.open_loop import OpenLoop, Progress, replay
from evenkeel.replay.variants import variants_of
from evenkeel.times import FROM_TO

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)


def asked(
    lake: str,
    *,
    cluster: str | None,
    since: str | None,
    until: str | None,
    strategies: Sequence[str] = (),
    settings: Sequence[str] = (),
    variants: Sequence[str] = (),
    limit_percent: float | None = None,
    times: tuple[str, str] = FROM_TO,
) -> OpenLoop:
    """What is asked for, checked: whatever is wrong is told before Spark has anything to do."""
    if limit_percent is not None and not 0 < limit_percent <= 1_000:
        raise BadInput(f"--limit {limit_percent} is no usage in percent: give one above 0, such as 85")
    chosen = variants_of(strategies, settings, variants)
    history = read_history(lake, cluster, since, until, options=times)
    found = OpenLoop(history, chosen, None if limit_percent is None else limit_percent / 100.0)
    found.chosen()
    return found


def replay_params(spark: SparkSession, lake: str, params: Mapping[str, Any]) -> str:
    """The replay that a DAG run's params ask for; the comparison goes into the task's log, and comes back as JSON."""
    wanted = asked(
        lake,
        cluster=params.get("cluster") or None,
        since=params.get("since") or None,
        until=params.get("until") or None,
        strategies=list(params.get("strategies") or ()),
        settings=[f"{key}={_text(value)}" for key, value in (params.get("settings") or {}).items()],
        variants=[f"{name}:{_pairs(own)}" for name, own in (params.get("variants") or {}).items()],
        times=("the param `since`", "the param `until`"),
    )
    comparison = replay(spark, wanted, _logged())
    log.info("%s", told(comparison))
    return json.dumps({"replay_id": comparison.replay_id, "variants": comparison.rows()})


def told(comparison: Comparison) -> str:
    """The comparison as text."""
    return "\n".join((comparison.table(), "", *comparison.notes()))


def _logged() -> Progress:
    return lambda done, total: log.info("%d of %d cycles replayed", done, total)


def _pairs(settings: Mapping[str, Any]) -> str:
    return ",".join(f"{key}={_text(value)}" for key, value in settings.items())


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
