"""Bundles whose resource quotas a snapshot requests.

A quota counts only for a bundle that has no history, and only under the modular load manager. So the default is
requested first: a token that may not read it may read no other, and without it no answer can be judged. Then quotas are
requested by name, up to `quotas` of the limits, for bundles that are both:

* named by a broker in its load report. A bundle that was never owned is not placed. One that lost its owner was
  requested while it had one, and the lake keeps that.
* not `known`. A run of the DAG reads from the lake what was measured. `evenkeel collect` has no lake: it requests all
  of them in a full snapshot, which lends its answers to the next ones, and new ones in those.

The brokers' own namespaces (heartbeats) are left out: their bundles are placed by name.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from evenkeel.pulsar.admin import Hop, admin_path
from evenkeel.pulsar.admin.answer_text import LargeText

if TYPE_CHECKING:
    from collections.abc import Callable

    from evenkeel.pulsar.limits import Limits

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
