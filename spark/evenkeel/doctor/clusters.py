"""Checks of each running cluster through its brokers' admin API: reached, allowed, versions, hung, switches, clocks."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import wraps

from evenkeel.doctor.checks import CheckFinding, Site, clusters_with, fail, ok, skipped, some, warn
from evenkeel.errors import Unreachable
from evenkeel.model.amounts import plural
from evenkeel.pulsar.admin import AdminClient, admin_path, trouble
from evenkeel.pulsar.admin.http_exchange import names_in
from evenkeel.pulsar.generations import generation_of
from evenkeel.settings import registry
from evenkeel.settings.compatibility import lacks_avg_shedder, older_rules
from evenkeel.sources.collecting import connection_of
from evenkeel.steering.broker_switches import configurations, objections_in
from evenkeel.steering.premise import OwnershipReader

SECONDS = 60.0
WITHOUT = "no cluster with `admin` is configured"
WARN_SECONDS = 5.0
"""A Date header is whole seconds; beyond this two clocks differ by more than reading them explains."""
_REQUEST_SECONDS = 10.0
_SUPER_USERS = (admin_path("brokers", "configuration", "values"), admin_path("brokers", "configuration", "runtime"))
_VERSION = re.compile(r'"?(\d+)\.[\w.+-]*"?')
_SUPPORTED = (4, 5)
_AT_ONCE = 8


live_clusters = clusters_with("live")
"""The clusters whose brokers are queried from this machine."""


@dataclass(slots=True)
class HeardClocks:
    """Clocks of servers, from their answers: server -> how far it is ahead of this machine, in seconds."""

    ahead: dict[str, float] = field(default_factory=dict)

    def hear(self, server: str, moment: datetime, seconds: float) -> None:
        """Take the time in an answer, which is cut to the second, and how long the answer took."""
        local = datetime.now(UTC).timestamp() - seconds / 2
        self.ahead[server] = moment.timestamp() + 0.5 - local


def _client(site: Site, cluster: str, clocks: HeardClocks | None = None) -> AdminClient:
    live = site.source(cluster).live
    assert live is not None
    heard = None if clocks is None else clocks.hear
    return AdminClient(connection_of(live, site.resolve), heard=heard)


def _brokers(client: AdminClient) -> list[str]:
    """Return the brokers that the cluster lists; raise Unreachable, with the action to take, if no broker answers."""
    until = time.monotonic() + 2 * _REQUEST_SECONDS
    hops = client.ask(admin_path("brokers"), timeout_s=_REQUEST_SECONDS, until=until)
    names = names_in(hops[-1].json)
    if not names:
        faults = {hop.broker: fault for hop in hops if (fault := trouble(hop)) is not None}
        raise Unreachable("; ".join(faults.values()) or f"{hops[-1].broker} gives no list of brokers: is it Pulsar's?")
    return names


def check_admin(site: Site, cluster: str) -> CheckFinding:
    """The admin API: reached with the credentials, which are a super user's."""
    with _client(site, cluster) as client:
        names = _brokers(client)
        for path in _SUPER_USERS:
            fault = trouble(client.ask(path, timeout_s=_REQUEST_SECONDS)[-1])
            if fault is not None:
                return fail(f"{len(names)} brokers are listed, but more is refused: {fault}", "")
    live = site.source(cluster).live
    is_open = live is None or live.connection is live.auth_plugin is None
    by = "without authentication" if is_open else "with the rights of a super user"
    return ok(f"{len(names)} brokers, asked {by}")


def where_reached(check: Callable[[Site, str], CheckFinding]) -> Callable[[Site, str], CheckFinding]:
    """Return the check, which reports an unreachable cluster only as such: `check_admin` reports the reason."""

    @wraps(check)
    def looked(site: Site, cluster: str) -> CheckFinding:
        try:
            return check(site, cluster)
        except Unreachable:
            return fail("the brokers cannot be reached", "see the check `admin`")

    return looked


@where_reached
def check_versions(site: Site, cluster: str) -> CheckFinding:
    """The versions of the brokers, Pulsar 4 or 5, and the strategies that differ in them from those of 4.2.4."""
    with _client(site, cluster) as client:
        version_of = _told(client, _brokers(client))
    silent = sorted(broker for broker, version in version_of.items() if version is None)
    versions = sorted({version for version in version_of.values() if version is not None})
    words = f"Pulsar {', '.join(versions) or 'of a version that no broker reports'}"
    without = [version for version in versions if lacks_avg_shedder(version)]
    words += "".join(f"; {version} has no AvgShedder" for version in without)
    words += "".join(f"; its {name}: {rule}" for name, rule in older_rules(generation_of(versions)).items())
    if silent:
        return warn(f"{words}; {some(silent)} did not tell", "look at these brokers")
    odd = [version for version in versions if int(version.partition(".")[0]) not in _SUPPORTED]
    if odd:
        return warn(words, f"{', '.join(odd)}: versions 4 and 5 are known; try `dry_run` and `evenkeel verify` first")
    return ok(words if len(versions) < 2 else f"{words}: an upgrade under way, the oldest counts")


def _told(client: AdminClient, brokers: Sequence[str]) -> dict[str, str | None]:
    def version(broker: str) -> str | None:
        hop = client.ask(admin_path("brokers", "version"), broker=broker, timeout_s=_REQUEST_SECONDS)[-1]
        match = _VERSION.fullmatch(hop.body.strip()) if hop.is_good else None
        return None if match is None else match[0].strip('"')

    with ThreadPoolExecutor(min(_AT_ONCE, len(brokers))) as pool:
        return dict(zip(brokers, pool.map(version, brokers), strict=True))


@where_reached
def check_hung(site: Site, cluster: str) -> CheckFinding:
    """Check that no broker hangs: each one answers a read of its metadata store."""
    with _client(site, cluster) as client:
        brokers = _brokers(client)
        with ThreadPoolExecutor(min(_AT_ONCE, len(brokers))) as pool:
            silent = list(pool.map(OwnershipReader(client).is_silent, brokers))
    hung = [broker for broker, is_silent in zip(brokers, silent, strict=True) if is_silent]
    if not hung:
        return ok(f"{len(brokers)} brokers answer reads of their metadata store")
    return fail(f"{some(hung)} did not answer", "if it gives its version it hangs: SIGKILL, see EvenkeelBrokerHung")


@where_reached
def check_switches(site: Site, cluster: str) -> CheckFinding:
    """Check the brokers' own steering (off if Evenkeel may send) and their load manager (on: it reports load)."""
    with _client(site, cluster) as client:
        answers = configurations(client)
    idle = sorted(b for b, answer in answers.items() if answer and str(answer.get("loadBalancerEnabled")) == "false")
    if idle:
        return fail(
            f"loadBalancerEnabled is off on {some(idle)}: they report no load", "set it to true and restart them"
        )
    objections = objections_in(answers)
    if not objections:
        return ok(f"{len(answers)} brokers leave shedding and splitting to Evenkeel")
    mode = site.environment.get("EVENKEEL_MODE") or "dry_run"
    if mode == "dry_run":
        return ok(f"the brokers may steer themselves, as nothing is sent (mode dry_run): {objections[0]}")
    return fail("; ".join(objections), "")


@where_reached
def check_clocks(site: Site, cluster: str) -> CheckFinding:
    """Compare the brokers' clocks with this machine's, by the Date header of their answers."""
    clocks = HeardClocks()
    with _client(site, cluster, clocks) as client:
        _told(client, _brokers(client))
    return judged_clocks(clocks, "broker")


def judged_clocks(clocks: HeardClocks, servers: str) -> CheckFinding:
    """Return the finding on these clocks: validate rejects a time stamp too far ahead."""
    if not clocks.ahead:
        return skipped(f"no answer of a {servers} bears a Date header")
    server, ahead = max(clocks.ahead.items(), key=lambda clock: abs(clock[1]))
    least = max(abs(ahead) - 1.0, 0.0)
    words = f"{server} is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} this machine"
    advice = "set both clocks by NTP"
    if least > float(registry()["evenkeelFutureToleranceSeconds"].default):  # type: ignore[arg-type]
        return fail(words, f"{advice}: what bears such a time is rejected, and signatures and leases go by clocks")
    if least > WARN_SECONDS:
        return warn(words, advice)
    return ok(f"the clocks of {plural(len(clocks.ahead), servers)} are within {WARN_SECONDS:.0f} s of this machine's")
