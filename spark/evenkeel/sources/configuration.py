"""Which clusters there are, where their snapshots come from, and the operator's settings for each.

A configuration file is TOML. `settings.operation` has the entries on how Evenkeel is run, this module the clusters:

    lake = "s3a://bucket/prefix"                # root of the tables
    [lakes.north]                               # or several lakes (`settings.lakes`)
    path = "s3a://bucket/north"
    clusters = ["eu-*"]
    [airflow]                                   # when the DAGs run, and what they may send
    mode = "approve"
    [log]                                       # the transparency log
    witnesses = ["/mnt/elsewhere/checkpoints.jsonl"]

    [settings]                                  # for all clusters, under Pulsar's own keys
    loadBalancerBrokerThresholdShedderPercentage = 10

    [clusters.east]
    recording = "recordings/east"               # a folder of snapshots; relative to this file
    [clusters.east.settings]                    # for this cluster; win over the ones above
    loadBalancerNamespaceBundleMaxTopics = 500

    [clusters.west]                             # a running cluster, in place of `recording`
    admin = ["https://b1.west:8443"]            # web addresses of brokers, tried in order
    connection = "pulsar_west"                  # brings the token: EVENKEEL_TOKEN_PULSAR_WEST, or Airflow's connection
    ca_file = "west-ca.pem"                     # certificates to trust in place of the system's; relative to this file
    check_hostname = true
    broker_url = "https://{host}:8443"          # where a broker known as host:port is asked; default: at its id
    landing = "landing/west"                    # its snapshots land here; relative to this file (this is the default)
    landing_days = 35                           # and are kept for so long
    full_every = 1                              # topic lists come along in every so manyth of them
    silent_seconds = 80                         # without any answer for so long, it is left out of the cycle

    [limits]                                    # how much is read of a cluster at most (`pulsar.limits`); for all,
    answer_mib = 64
    [clusters.west.limits]                      # and for this one; win over the ones above
    answer_mib = 128

    [clusters.far]                              # a cluster that cannot be reached from here
    s3 = "s3://bucket/prefix"                   # where `evenkeel collect` beside it puts its snapshots
    s3_connection = "aws_far"                   # Airflow's connection; default: what boto3 finds (AWS_…, profile, role)
    landing = "landing/far"                     # what is needed of them comes here; kept for `landing_days`
    queue = "https://sqs.…/far.fifo"            # commands for `evenkeel agent` beside it, in place of `admin`
    reports = "https://sqs.…/far-reports.fifo"  # and what it reports
    queue_keys = "queue_far"                    # the keys that sign both (this is the default): EVENKEEL_KEYS_QUEUE_FAR
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from evenkeel.errors import BadInput, SettingsError
from evenkeel.pulsar.limits import DEFAULT, Limits, limits_of
from evenkeel.secret import variable_name
from evenkeel.settings import resolve, toml_in
from evenkeel.settings.lakes import lakes_in
from evenkeel.settings.operation import ENTRIES, TABLES, operation_in
from evenkeel.sources.configuration_entries import (
    DAYS_KEPT,
    LEAST_SILENT_SECONDS,
    MOST_DAYS,
    MOST_SILENT_SECONDS,
    SILENT_SECONDS,
    names_of,
)

RECORDING_SCHEME = "recording:"
_LIVE, _ZONE, _QUEUES = names_of("live"), names_of("zone"), names_of("queues")


@dataclass(frozen=True, slots=True)
class LiveSource:
    """A running cluster: how it is reached (the token itself stands nowhere in a configuration), and how its snapshots
    are kept. Without addresses in `admin` the connection brings them. A cluster that gives no answer for
    `silent_seconds` is left out of the cycle."""

    admin: tuple[str, ...] = ()
    connection: str | None = None
    ca_file: str | None = None
    check_hostname: bool = True
    broker_url: str | None = None
    landing_days: float = DAYS_KEPT
    full_every: int = 1
    silent_seconds: float = SILENT_SECONDS


@dataclass(frozen=True, slots=True)
class ZoneSource:
    """A landing zone in S3 that has a cluster's snapshots; without a `connection` boto3 finds credentials itself."""

    url: str
    connection: str | None = None
    landing_days: float = DAYS_KEPT


@dataclass(frozen=True, slots=True)
class QueueSource:
    """The FIFO queues of a cluster that an agent beside it serves: commands one way, reports the other.

    `keys`: the name of the keys that sign the messages of both, as `steering.queue.signing` finds them.
    """

    commands: str
    reports: str
    keys: str


@dataclass(frozen=True, slots=True)
class ClusterSource:
    """One cluster: its name (None: as its snapshots say), the folder of its snapshots, and the operator's settings.

    The folder is a recording, or where the snapshots of a running cluster (`live`) or from a landing zone (`zone`)
    land. With both the snapshots come from the zone: how the cluster is reached is for those beside it. With `queues`
    commands go to the agent. `limits`: how much is read of the cluster at most.
    """

    cluster: str | None
    recording: Path
    overrides: dict[str, Any] = field(default_factory=dict)
    live: LiveSource | None = None
    zone: ZoneSource | None = None
    queues: QueueSource | None = None
    limits: Limits = DEFAULT


def read_configuration(path: str | Path) -> tuple[ClusterSource, ...]:
    """The clusters of a configuration file, by name. `SettingsError` names the file and the entry that is wrong."""
    file = Path(path)
    body = toml_in(file, "configuration")[0]
    _only_known(body, {"lake", "lakes", *TABLES, "settings", "limits", "clusters"}, f"configuration {file}")
    _check_operation(file, body)
    clusters = body.get("clusters")
    if not isinstance(clusters, dict) or not clusters:
        raise SettingsError(f"configuration {file} names no cluster: add a table [clusters.NAME] with `recording`")
    common = _table(body, "settings", f"configuration {file}")
    limits = _table(body, "limits", f"configuration {file}")
    limits_of(limits, place=f"configuration {file}, [limits]")
    sources = tuple(_cluster(file, name, clusters[name], common, limits) for name in sorted(clusters))
    _landed_apart(file, sources)
    _queues_apart(file, sources)
    _named_apart(file, "connection", ((one, one.live.connection) for one in sources if one.live is not None))
    _named_apart(file, "queue_keys", ((one, one.queues.keys) for one in sources if one.queues is not None))
    return sources


def _check_operation(file: Path, body: Mapping[str, Any]) -> None:
    """`SettingsError` for an entry on how Evenkeel is run that is unknown or has a value that it cannot have."""
    operation_in(file, body)
    lakes_in(file, body)
    for table in TABLES:
        known = {entry.name for entry in ENTRIES if entry.table == table}
        _only_known(body.get(table, {}), known, f"configuration {file}, [{table}]")


def faults_of_clusters(path: str | Path) -> dict[str, str]:
    """Cluster -> what is wrong with its table by itself, of a configuration file in which each is to be read alone."""
    file = Path(path)
    body = toml_in(file, "configuration")[0]
    found: dict[str, str] = {}
    for name, table in body["clusters"].items():
        try:
            _cluster(file, name, table, body.get("settings", {}), body.get("limits", {}))
        except SettingsError as error:
            found[name] = str(error)
    return found


def _cluster(
    file: Path, name: str, body: Any, common: Mapping[str, Any], common_limits: Mapping[str, Any]
) -> ClusterSource:
    place = f"configuration {file}, [clusters.{name}]"
    if not isinstance(body, dict):
        raise SettingsError(f"{place}: is not a table")
    _only_known(body, {"recording", "settings", "limits", *_LIVE, *_ZONE, *_QUEUES}, place)
    recording = body.get("recording")
    live = zone = queues = None
    if recording is None and not body.keys().isdisjoint(("admin", "connection", "s3")):
        live = _live(file, body, place) if not body.keys().isdisjoint(_LIVE - _ZONE) else None
        zone, queues = _zone(body, place), _queues(name, body, place)
        recording = _typed(body, "landing", str, place, f"landing/{name}")
    elif not isinstance(recording, str):
        raise SettingsError(
            f"{place}: `recording` is missing: the folder that holds the cluster's snapshots; or `admin`: the web "
            "addresses of its brokers; or `s3`: where its snapshots are uploaded to"
        )
    elif odd := sorted((_LIVE | _ZONE | _QUEUES) & body.keys()):
        raise SettingsError(f"{place}: `{odd[0]}` is for a running cluster, and `recording` is a folder: take one")
    _typed(body, "recording", str, place, None)
    overrides = {**common, **_table(body, "settings", place)}
    try:
        resolve(observed=None, overrides=overrides)
    except SettingsError as error:
        raise SettingsError(f"{place}: {error}") from None
    limits = limits_of(
        common_limits, _table(body, "limits", place), place=f"configuration {file}, [clusters.{name}.limits]"
    )
    return ClusterSource(name, file.parent / recording, overrides, live, zone, queues, limits)


def _table(body: Mapping[str, Any], name: str, place: str) -> Mapping[str, Any]:
    table = body.get(name, {})
    if not isinstance(table, dict):
        raise SettingsError(f"{place}: `{name}` is not a table")
    return table


def _live(file: Path, body: Mapping[str, Any], place: str) -> LiveSource:
    from evenkeel.pulsar.admin import AdminConnection

    addresses = body.get("admin", [])
    if isinstance(addresses, str):
        addresses = [addresses]
    if not isinstance(addresses, list) or not all(isinstance(address, str) for address in addresses):
        raise SettingsError(f'{place}: `admin` is not a list of addresses: write ["http://broker-1:8080"]')
    ca_file = _typed(body, "ca_file", str, place, None)
    live = LiveSource(
        admin=tuple(addresses),
        connection=_typed(body, "connection", str, place, None),
        ca_file=None if ca_file is None else str(file.parent / ca_file),
        check_hostname=_typed(body, "check_hostname", bool, place, True),
        broker_url=_typed(body, "broker_url", str, place, None),
        landing_days=_days(body, place),
        full_every=_typed(body, "full_every", int, place, 1),
        silent_seconds=_silent_seconds(body, place),
    )
    if live.landing_days <= 0 or live.full_every < 1:
        raise SettingsError(f"{place}: `landing_days` and `full_every` are more than 0")
    if live.admin or not live.connection:
        try:
            AdminConnection(live.admin, broker_url=live.broker_url)
        except SettingsError as error:
            raise SettingsError(f"{place}: {error}") from None
    return live


def default_keys(cluster: str) -> str:
    """The name of the keys that sign a cluster's queues, where its configuration gives none."""
    return f"queue_{cluster}"


def _queues(cluster: str, body: Mapping[str, Any], place: str) -> QueueSource | None:
    commands, reports, keys = (_typed(body, name, str, place, None) for name in ("queue", "reports", "queue_keys"))
    if commands is None and reports is None:
        if keys is not None:
            raise SettingsError(f"{place}: `queue_keys` goes with `queue` and `reports`, which are missing")
        return None
    if commands is None or reports is None:
        raise SettingsError(f"{place}: `queue` and `reports` go together: URLs of the queues that the agent serves")
    return QueueSource(commands, reports, keys or default_keys(cluster))


def _zone(body: Mapping[str, Any], place: str) -> ZoneSource | None:
    from evenkeel.sources.landing_zone.layout import place_of

    url = _typed(body, "s3", str, place, None)
    connection = _typed(body, "s3_connection", str, place, None)
    if url is None:
        if connection is not None:
            raise SettingsError(f"{place}: `s3_connection` goes with `s3`, which is missing")
        return None
    try:
        place_of(url)
    except BadInput as error:
        raise SettingsError(f"{place}: `s3`: {error}") from None
    return ZoneSource(url, connection, _days(body, place))


def _days(body: Mapping[str, Any], place: str) -> float:
    days = _typed(body, "landing_days", (int, float), place, DAYS_KEPT)
    if not 0 < days <= MOST_DAYS:
        raise SettingsError(f"{place}: `landing_days` is more than 0, and {MOST_DAYS:,} at most")
    return float(days)


def _silent_seconds(body: Mapping[str, Any], place: str) -> float:
    seconds = _typed(body, "silent_seconds", (int, float), place, SILENT_SECONDS)
    if not LEAST_SILENT_SECONDS <= seconds <= MOST_SILENT_SECONDS:
        raise SettingsError(
            f"{place}: `silent_seconds` = {seconds}: not in its range; give seconds from {LEAST_SILENT_SECONDS:.0f} to "
            f"{MOST_SILENT_SECONDS:.0f}"
        )
    return float(seconds)


def _typed(body: Mapping[str, Any], name: str, kind: type | tuple[type, ...], place: str, default: Any) -> Any:
    value = body.get(name, default)
    if value is default:
        return default
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool) or value == "":
        raise SettingsError(f"{place}: `{name}` cannot be {value!r}")
    if isinstance(value, str) and "\0" in value:
        raise SettingsError(f"{place}: `{name}` holds a NUL, which no name or path may")
    return value


def _landed_apart(file: Path, sources: Iterable[ClusterSource]) -> None:
    """Two clusters in one folder would be taken for one another."""
    seen: dict[Path, str] = {}
    for source in sources:
        if source.live is None and source.zone is None:
            continue
        folder = source.recording.resolve()
        if folder in seen:
            raise SettingsError(
                f"configuration {file}: {seen[folder]} and {source.cluster} land in the same folder "
                f"{source.recording}: give each its own `landing`"
            )
        seen[folder] = str(source.cluster)


def _queues_apart(file: Path, sources: Iterable[ClusterSource]) -> None:
    """An agent sets aside what is for another cluster than its own, so two on one queue would lose commands."""
    seen: dict[str, str] = {}
    for source in sources:
        for url in {source.queues.commands, source.queues.reports} if source.queues is not None else ():
            other = seen.setdefault(url, str(source.cluster))
            if other != source.cluster:
                raise SettingsError(f"configuration {file}: {other} and {source.cluster} share the queue {url}")


def _named_apart(file: Path, entry: str, named: Iterable[tuple[ClusterSource, str | None]]) -> None:
    """Names that differ and share a variable would give one cluster's token, or the key of its queues, to another."""
    seen: dict[str, tuple[str, str]] = {}
    for source, name in named:
        if name is None:
            continue
        before, cluster = seen.setdefault(variable_name("", name), (name, str(source.cluster)))
        if before != name:
            raise SettingsError(
                f"configuration {file}: {cluster} and {source.cluster} have {before!r} and {name!r} for `{entry}`, and "
                f"one environment variable would stand for both (…_{variable_name('', name)}): give one of them "
                f"another `{entry}`"
            )


def source_of(text: str) -> ClusterSource:
    """The source that `recording:FOLDER` names; its cluster is the one that its snapshots show."""
    if not text.startswith(RECORDING_SCHEME) or text == RECORDING_SCHEME:
        raise SettingsError(f"unknown source {text!r}: this version reads `recording:FOLDER`")
    return ClusterSource(None, Path(text.removeprefix(RECORDING_SCHEME)))


def choose(sources: Iterable[ClusterSource], wanted: Iterable[str]) -> tuple[ClusterSource, ...]:
    """The sources of the wanted clusters, all if none is named; an unknown name is an error that names the nearest."""
    known = {str(source.cluster): source for source in sources}
    names = sorted(set(wanted)) or sorted(known)
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise SettingsError(f"cluster {name!r} is not configured: known are {', '.join(known)}.{hint}")
    return tuple(known[name] for name in names)


def _only_known(body: Mapping[str, Any], known: set[str], place: str) -> None:
    for name in body:
        if name not in known:
            raise SettingsError(f"{place}: unknown entry {name!r}; known are {', '.join(sorted(known))}")
