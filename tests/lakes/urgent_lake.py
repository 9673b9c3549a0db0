"""A lake in which each cluster needs something else, up to a moment that is given; written without a JVM."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from evenkeel.planner.findings import BROKEN_PROMISE
from tests.lakes.plausible import broker_load, decision
from tests.lakes.small_lake import Row, SmallLake

EVERY = timedelta(minutes=5)
HOT = "acme/payments/0x40000000_0x50000000"
B1, B2, B3 = (f"pulsar-{n}.prod:8080" for n in (1, 2, 3))
XSS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)//",
    "{{ 7 * 7 }}{% raw %}",
    "' OR 1=1; DROP TABLE cycles; --",
    "\u202eevil\u2066 cluster",
)
"""Names that a page must show as text."""
LIVE = "admin"


def brokers(*usages: float | None, **more: Any) -> list[Row]:
    names = (B1, B2, B3)
    figures = {"bundles": 12, "msg_rate_in": 900.0, "msg_rate_out": 1_800.0, **more}
    return [broker_load(name, usage, **figures) for name, usage in zip(names, usages, strict=False)]


class HeldLake(SmallLake):
    """Writes each table once, at the end: a commit for every write would take most of the time."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._rows: dict[str, list[Row]] = {}

    def append(self, name: str, rows: Iterable[Row]) -> None:
        self._rows.setdefault(name, []).extend(rows)

    def write(self) -> None:
        held, self._rows = self._rows, {}
        for name, rows in held.items():
            super().append(name, rows)


class UrgentLake:
    """Clusters of three brokers, seven cycles each, the last one at `now` unless it is said otherwise."""

    def __init__(self, root: Path, now: datetime) -> None:
        self.root, self.now, self.lake = root, now, HeldLake(root)

    def course(self, cluster: str, *, until: datetime | None = None, **last: Any) -> datetime:
        """Six calm cycles and a last one, of which `last` are the manifest and `tables` the rows."""
        end = until or self.now
        tables = last.pop("tables", {"broker_load": brokers(0.71, 0.52, 0.44)})
        calm = {"source": LIVE, "mode": last.get("mode", "auto"), "splits": 0, "unloads": 0, "held": 0}
        for number in range(6, 0, -1):
            figures = {"before_max_over_mean": 1.1 + 0.07 * ((number * 3) % 5), "plan_id": f"{cluster}-{number}"}
            self.lake.add(cluster, end - number * EVERY, {"broker_load": brokers(0.6, 0.5, 0.4)}, **{**calm, **figures})
        newest = {**calm, "before_max_over_mean": 1.28, "plan_id": f"{cluster}-plan", **last}
        self.lake.add(cluster, end, tables, **newest)
        return end

    def unload(self, cluster: str, number: int, at: datetime, start: str, goal: str, outcome: str = "done") -> None:
        """A command that went out, and what was seen of it."""
        stamp = {"cluster": cluster, "cycle_at": at, "cycle_date": at.date(), "write_id": f"{cluster}{number}"}
        command_id = f"{cluster}-command-{number}"
        command = {
            "command_id": command_id, "plan_id": "p", "step": number, "kind": "unload", "bundle": HOT,
            "from_broker": start, "destination": goal, "mode": "auto", "request": "PUT", "expires_at": at,
        }  # fmt: skip
        seen = {"command_id": command_id, "outcome": outcome, "seen_at": at + timedelta(seconds=40), "detail": "moved"}
        self.lake.append("commands", [{**stamp, **command}])
        self.lake.append("outcomes", [{**stamp, **seen}])

    def harm(self, cluster: str, number: int, at: datetime) -> None:
        """What a later cycle saw of a command."""
        stamp = {"cluster": cluster, "cycle_at": at, "cycle_date": at.date(), "write_id": f"{cluster}{number}h"}
        seen = {
            "command_id": f"{cluster}-command-{number}", "outcome": "harmed", "seen_at": at + EVERY,
            "detail": "it had 41 consumers, and 6 ten minutes later; its backlog grew from 0 to 1,204,331 messages",
        }  # fmt: skip
        self.lake.append("outcomes", [{**stamp, **seen}])

    def said(self, cluster: str, kind: str, at: datetime, reason: str | None = None) -> None:
        """What an operator said of a cluster, or a step of its lease."""
        row = {"cluster": cluster, "kind": kind, "at": at, "by": "ada", "reason": reason, "token": 0}
        self.lake.append("controls", [row])


def act(cluster: str, number: int, outcome: str, at: datetime) -> Row:
    """A command of the day before, as a manifest lists it."""
    return {"command_id": f"{cluster}-command-{number}", "outcome": outcome, "seen_at": at.isoformat()}


def urgent_lake(root: Path, now: datetime) -> Path:
    """Clusters by the kind that they need, `calm` ones, and one for each odd name."""
    lake = UrgentLake(root, now)
    harmed = lake.course("harm", unloads=2, acts=[act("harm", 1, "done", now), act("harm", 1, "harmed", now)])
    lake.unload("harm", 1, harmed - 2 * EVERY, B1, B2)
    lake.harm("harm", 1, harmed - 2 * EVERY)
    lake.course("failed", status="failed", reason="place raised: the server went away", plan_id=None)
    lake.course("stale", until=now - timedelta(hours=3, minutes=7))
    lake.course("approval", mode="approve", status="planned", unloads=4, splits=1, held=1, tables=_held())
    bounced = lake.course("bounces", unloads=1, acts=[act("bounces", n, "done", now) for n in (1, 2)])
    lake.unload("bounces", 1, bounced - 6 * EVERY, B1, B2)
    lake.unload("bounces", 2, bounced - EVERY, B2, B1)
    lake.course(
        "quarantined", status="skipped", plan_id=None, before_max_over_mean=None,
        reason="acme/ns1 has a hole from 0x40000000 to 0x60000000: no broker serves what hashes there",
        tables={"validation_results": [_hole()]},
    )  # fmt: skip
    lake.course("hung_broker", tables={"broker_load": brokers(0.5, 0.4), "broker_reports": [_hung()]})
    lake.course("withheld", status="withheld", unloads=3, reason="the brokers' own shedding is on")
    sole = f"{B1} at 91.0 % is over its limit of 66.2 %; it has only one bundle, and moving it would move the overload."
    lake.course("too_hot", tables={"broker_load": brokers(0.91, 0.4, 0.4), "unload_decisions": [
        decision(B1, "broker", "refused", "sole_bundle", sole, broker=B1),
        decision(HOT, "bundle", "kept", "within_limits", "It stays.", broker=B1),
    ]})  # fmt: skip
    lake.course("idle_broker", tables={"broker_load": [
        *brokers(0.7, 0.6), broker_load(B3, 0.02, bundles=0, msg_rate_in=0.0, msg_rate_out=0.0)]})  # fmt: skip
    lake.course("planner_set_aside", tables={"planner_findings": [_broken_promise(), _too_small()]})
    lake.course("held", unloads=5, held=3, tables=_held())
    lake.course("misconfigured", tables={"validation_results": [_idle_policy()]})
    lake.course("paused")
    lake.said("paused", "lease", now - 3 * EVERY)
    lake.said("paused", "resume", now - 2 * EVERY)
    lake.said("paused", "pause", now - EVERY, "broker upgrade")
    left = f"{B2} is being emptied: 12 bundles are still there, and 4 of them leave as far as the budgets allow."
    lake.course("draining", unloads=4, tables={
        "broker_load": [*brokers(0.7), broker_load(B2, 0.02, bundles=0), *brokers(0.4)],
        "unload_decisions": [decision(B2, "broker", "unload", "emptying", left, broker=B2) | {"strategy": "draining"}],
    })  # fmt: skip
    lake.course("calm-a", unloads=2)
    lake.course("calm-b", mode="dry_run")
    for name in XSS:
        lake.course(name, status="withheld", reason=f"{name} was refused")
    lake.lake.write()
    return root


def _held() -> dict[str, list[Row]]:
    said = f"The unload of {HOT} from {B1} is held back: 2 unloads per cycle are allowed, and this would be the third."
    guard = {
        "subject": HOT, "subject_kind": "bundle", "position": 3, "kind": "unload", "outcome": "held",
        "rule": "unloads_per_cycle", "sentence": said,
    }  # fmt: skip
    return {"broker_load": brokers(0.71, 0.52, 0.44), "guard_decisions": [guard]}


def _broken_promise() -> Row:
    said = BROKEN_PROMISE.about_cluster(measured=3, threshold=3, unit="count", numbers={"misses": 3.0, "hours": 24.0})
    return decision("cluster", "cluster", said.outcome, said.rule, said.sentence()) | {"strategy": "Planner"}


def _too_small() -> Row:
    """A finding that the status leaves to the cycle's page."""
    return decision("cluster", "cluster", "kept", "cluster_too_small", "4 would do.") | {"strategy": "Planner"}


def _idle_policy() -> Row:
    told = "1 of 2 isolation policies match no broker at all: port."
    return _hole() | {"rule": "policies_name_brokers", "severity": "warn", "detail": told}


def _hung() -> Row:
    reason = "it is hung: SIGKILL ends it"
    return {"broker": B3, "state": "hung", "state_reason": reason, "is_listed": True, "has_topic_figures": False}


def _hole() -> Row:
    return {
        "checked_table": "namespace_bundles", "rule": "ranges_are_whole", "kind": "cross_table",
        "severity": "quarantine", "passed": False, "checked_rows": 4, "failed_rows": 1, "detail": "a hole",
    }  # fmt: skip
