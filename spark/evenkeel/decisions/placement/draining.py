"""Brokers that are being emptied: whatever asks who may have a bundle gets an answer without them.

Key: evenkeelDrainingBrokers, a list of broker ids; Pulsar has no such thing. A draining broker counts as not there:
it is no candidate, also where the filters are undone because they left nobody; it does not count towards the primary
brokers that an isolation policy asks for; and bundles may still leave it. `Isolation` asks here, and the extensible
manager's filters ask before all others, as they have no way back to brokers that anti-affinity took away. No load is
transferred to it either.
"""

from __future__ import annotations

from collections.abc import Iterable

from evenkeel.settings import Settings

RULE = "draining"


def draining(brokers: Iterable[str], settings: Settings) -> frozenset[str]:
    """Those of the brokers that are being emptied."""
    return settings.evenkeelDrainingBrokers.intersection(brokers)
