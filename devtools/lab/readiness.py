"""Readiness of a broker: it answers, and its load manager does.

The extensible manager continues to start for seconds after the web port is open, at times after the health check has
passed (ExtensibleLoadManagerImpl). Until it is ready, the broker reports that it owns nothing, and an unload through it
fails. A ready broker owns at least the bundle of its heartbeat namespace.
"""

from __future__ import annotations

from devtools.lab.admin import Admin, segments
from devtools.lab.conf import CLUSTER

ASK_SECONDS = 8.0
WHOLE_RANGE = "0x00000000_0xffffffff"


def is_ready(admin: Admin, broker_id: str, manager: str) -> bool:
    """Return True if the broker itself reports to be ready; `broker_id` is host:port."""
    url = f"http://{broker_id}"
    health = admin.ask("GET", "/admin/v2/brokers/health", url=url, timeout_s=ASK_SECONDS)
    if not health.fine or health.text != "ok":
        return False
    if manager != "extensible":
        return True
    path = f"/admin/v2/brokers/{segments(CLUSTER, broker_id)}/ownedNamespaces"
    owned = admin.ask("GET", path, url=url, timeout_s=ASK_SECONDS)
    return owned.fine and WHOLE_RANGE in owned.text


def listed(admin: Admin, *, url: str | None = None) -> frozenset[str]:
    """The brokers that one broker (by default the first that answers) knows to be alive."""
    for asked in (url,) if url else admin.urls:
        answer = admin.ask("GET", "/admin/v2/brokers", url=asked, timeout_s=ASK_SECONDS)
        if answer.fine:
            return frozenset(answer.json())
    return frozenset()
