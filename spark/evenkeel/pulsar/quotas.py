"""Resource quotas of bundles: requests for them, and rows of `resource_quotas`.

An operator may store a quota for a bundle (`pulsar-admin resource-quotas set`). The modular load manager assumes that
load for a bundle without a history (ModularLoadManagerImpl.getBundleDataOrDefault). It looks only for the bundle's own
quota, while the admin API answers with the default quota if a bundle has none (BundlesQuotas.getResourceQuota). So the
default is requested as well, and an answer equal to it counts as no quota. A bundle whose own quota equals the default
in every member cannot be told apart from a bundle without one.

The default is requested first: a token that may not read it may read no other. Then quotas are requested by name, up to
`quotas` of the limits, for bundles that are both:

* named by a broker in its load report. A bundle that was never owned is not placed. One that lost its owner was
  requested while it had one, and the lake keeps that.
* not `known`. A run of the DAG reads from the lake what was measured. `evenkeel collect` has no lake: it requests all
  of them in a full snapshot, which lends its answers to the next ones, and new ones in those.

The brokers' own namespaces (heartbeats) are left out: their bundles are placed by name.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

from evenkeel.pulsar.admin import Hop, admin_path
from evenkeel.pulsar.admin.answer_text import LargeText
from evenkeel.pulsar.answers import Answer, Answers, Kind, Reading, Rejection, excerpt, place_of
from evenkeel.pulsar.snapshot import Row, SnapshotView

if TYPE_CHECKING:
    from collections.abc import Callable

    from evenkeel.pulsar.limits import Limits


QUOTAS = "resource_quotas"
UNREADABLE_QUOTA = "unreadable_quota"
UNKNOWN_QUOTAS = "unknown_quotas"
MOST = 1e12
"""Highest rate (msg/s) and throughput (byte/s) that is accepted, as in the suites of other tables."""

_FIGURES = {
    "msg_rate_in": "msgRateIn",
    "msg_rate_out": "msgRateOut",
    "msg_throughput_in": "bandwidthIn",
    "msg_throughput_out": "bandwidthOut",
}
# A namespace or bundle that was deleted after it was listed: Pulsar answers 404, or 412 for a range without such
# bounds.
_GONE = (404, 412)


@dataclass(frozen=True, slots=True)
class Quota:
    """One resource quota (Pulsar: ResourceQuota): msg/s, byte/s, and members that no decision reads."""

    msg_rate_in: float
    msg_rate_out: float
    msg_throughput_in: float
    msg_throughput_out: float
    memory: float | None
    is_dynamic: bool | None


class _Unreadable(ValueError):
    """Fault of a quota, in words."""


def quotas_of(view: SnapshotView) -> list[Row]:
    """Return one row per bundle whose answer differs from the default's, by bundle.

    The snapshot's own answers win over those of the snapshot that lends its configuration. A quota that cannot be read
    is rejected. If quotas were requested but may not be read, or the broker does not know the request, one record says
    so and there are no rows.
    """
    rows: dict[str, Row] = {}
    for answers, age in ((view.lent, view.lent_age_seconds), (view.own, 0.0)):
        for bundle, quota in _known_quotas(view, answers, is_own=answers is view.own).items():
            rows.pop(bundle, None)
            if quota is not None:
                rows[bundle] = {
                    "bundle": bundle,
                    "namespace": bundle.rpartition("/")[0],
                    **{name: getattr(quota, name) for name in _FIGURES},
                    "memory": quota.memory,
                    "is_dynamic": quota.is_dynamic,
                    "age_seconds": age,
                }
    return [rows[bundle] for bundle in sorted(rows)]


def _known_quotas(view: SnapshotView, answers: Answers, *, is_own: bool) -> dict[str, Quota | None]:
    """Return each bundle's quota, None if it has no quota of its own; bundles without an answer are left out."""
    quota_answers = {bundle: answer for bundle, answer in answers.each(Kind.QUOTA) if bundle}
    default_answer = answers.about(Kind.QUOTA)
    if default_answer is None and not quota_answers:
        return {}
    default = _default(view, default_answer, is_own=is_own)
    if default is None:
        return {}
    quotas: dict[str, Quota | None] = {}
    silent: list[str] = []
    for bundle, answer in quota_answers.items():
        reading = view.json(answer, dict, QUOTAS, nothing_at=_GONE)
        quota = _read(view, reading, answer)
        if quota is not None:
            quotas[bundle] = None if quota == default else quota
        elif reading.outcome == "no_answer" and reading.rule is None:
            silent.append(f"{bundle}: {reading.reason}")
    if silent and is_own:
        view.rejections.append(_unknown(f"those of {len(silent)} bundles, the first {silent[0]}"))
    return quotas


def _default(view: SnapshotView, answer: Answer | None, *, is_own: bool) -> Quota | None:
    reading = view.json(answer, dict, QUOTAS, nothing_at=(404,))
    if answer is None or not reading.is_read:
        if is_own and reading.rule is None:
            reason = reading.reason or f"answered {answer.status if answer is not None else 'nothing'}"
            view.rejections.append(_unknown(f"the default, without which no answer can be judged: {reason}"))
        return None
    return _read(view, reading, answer)


def _read(view: SnapshotView, reading: Reading, answer: Answer) -> Quota | None:
    """Read the quota of an answer; return None if it has none, or if it is invalid and was rejected."""
    if not reading.is_read:
        return None
    try:
        return _quota(reading.value)
    except _Unreadable as fault:
        place = place_of(answer)
        reason = f"{place}: {fault}; the bundle counts as one without a quota in this cycle"
        view.rejections.append(Rejection(QUOTAS, place, UNREADABLE_QUOTA, reason, excerpt(answer.body)))
        return None


def _quota(body: dict[str, Any]) -> Quota:
    figures = {name: _figure(body, member) for name, member in _FIGURES.items()}
    memory, dynamic = body.get("memory"), body.get("dynamic")
    return Quota(
        **figures,
        memory=float(memory) if _is_figure(memory) else None,
        is_dynamic=dynamic if isinstance(dynamic, bool) else None,
    )


def _figure(body: dict[str, Any], member: str) -> float:
    if body.get(member) is None:
        raise _Unreadable(f"member {member} is missing")
    value = body[member]
    if not _is_figure(value):
        shown = json.dumps(value, ensure_ascii=False)[:60]
        raise _Unreadable(f"member {member} is {shown} where a number from 0 to {MOST:g} is due")
    return float(value)


def _is_figure(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= MOST


def _unknown(subject: str) -> Rejection:
    reason = (
        f"resource quotas are unknown: {subject}; bundles without a history start from Pulsar's defaults (only a "
        "superuser's token may read quotas)"
    )
    return Rejection(QUOTAS, "resource quotas", UNKNOWN_QUOTAS, reason, None)


log = logging.getLogger(__name__)

# Then no other bundle's quota can be read either. Pulsar's 404 and 412 concern only the one bundle.
_REFUSED = frozenset({0, 401, 403, 405, 501})


def named_in(report: Hop) -> frozenset[str]:
    """Return the bundles that a modular broker's load report names."""
    with LargeText.alone():
        body = report.json
        named = body.get("bundles") if isinstance(body, dict) else None
        return frozenset(name for name in named if isinstance(name, str)) if isinstance(named, list) else frozenset()


def bundles_to_ask(
    named: Iterable[str], namespaces: Collection[str], known: Collection[str], limits: Limits
) -> list[str]:
    """Return the bundles to ask about, by name; log a line if the limit leaves some out."""
    wanted = sorted({name for name in named if name.rpartition("/")[0] in namespaces and name not in known})
    if len(wanted) > limits.quotas:
        log.warning(
            "the resource quotas of %d bundles are wanted and %d are asked for (`quotas` of the limits): the others "
            "count as bundles without one",
            len(wanted),
            limits.quotas,
        )
    return wanted[: limits.quotas]


def ask_for_quotas(
    bundles: Iterable[str], ask: Callable[[str], Hop], ask_all: Callable[[Callable[[str], bool], list[str]], list[bool]]
) -> frozenset[str]:
    """Request the default, then the quota of each bundle; return the bundles with an answer.

    `ask` sends one request to a path, `ask_all` sends one request about many items, several at a time. If the default
    or the first bundle is refused, no other is requested.
    """
    wanted = list(bundles)
    if not wanted or ask(admin_path("resource-quotas")).status != 200:
        return frozenset()

    def of_bundle(bundle: str) -> int:
        namespace, _, bundle_range = bundle.rpartition("/")
        return ask(admin_path("resource-quotas", *namespace.split("/"), bundle_range)).status

    first, *others = wanted
    status = of_bundle(first)
    if status in _REFUSED:
        return frozenset()
    came = [status == 200, *ask_all(lambda bundle: of_bundle(bundle) == 200, others)]
    return frozenset(bundle for bundle, answered in zip(wanted, came, strict=True) if answered)
