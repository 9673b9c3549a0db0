"""What may stand in `[clusters.NAME]` of a configuration file: each entry with type, range, default and meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

Source = Literal["recording", "live", "zone", "queues"]
"""What an entry is about: a folder of snapshots, a running cluster, a landing zone in S3, the queues of an agent."""

DAYS_KEPT: Final = 35.0
"""A month that is over can still be decided again."""
MOST_DAYS: Final = 36_500
SILENT_SECONDS: Final = 80.0
"""A broker's topic figures may take 60 s; a quarter of the time is left for others to answer (`sources.asking`)."""
LEAST_SILENT_SECONDS: Final = 1.0
MOST_SILENT_SECONDS: Final = 240.0


@dataclass(frozen=True, slots=True)
class ClusterEntry:
    """One entry. `of`: for which sources it is; `schema`: its JSON schema; `default`: what holds without it, in words;
    `needs`: the entries that have to stand beside it."""

    name: str
    of: tuple[Source, ...]
    schema: dict[str, Any]
    default: str
    unit: str
    meaning: str
    needs: tuple[str, ...] = ()


_TEXT: Final = {"type": "string", "minLength": 1}

CLUSTER_ENTRIES: Final = (
    ClusterEntry("recording", ("recording",), _TEXT, "none", "",
        "Folder of the cluster's snapshots, relative to this file; in place of all that is about a running cluster."),
    ClusterEntry("admin", ("live",),
        {"type": ["string", "array"], "items": {"type": "string"}, "minItems": 1, "minLength": 1},
        "those of `connection`", "URL", "Web addresses of brokers, tried in this order."),
    ClusterEntry("connection", ("live",), _TEXT, "none: no token", "",
        "Name of what brings the token: `EVENKEEL_TOKEN_<NAME>`, the file of `EVENKEEL_TOKEN_<NAME>_FILE`, or a "
        "connection of Airflow's."),
    ClusterEntry("ca_file", ("live",), _TEXT, "the system's", "",
        "File of PEM certificates to trust, relative to this file."),
    ClusterEntry("check_hostname", ("live",), {"type": "boolean"}, "true", "",
        "Whether a broker's certificate has to name its host."),
    ClusterEntry("broker_url", ("live",), _TEXT, "at its id", "URL",
        "Where a broker known as host:port is asked, as in `https://{host}:8443`."),
    ClusterEntry("landing", ("live", "zone"), _TEXT, "`landing/<NAME>`", "",
        "Folder that the cluster's snapshots land in, relative to this file."),
    ClusterEntry("landing_days", ("live", "zone"),
        {"type": "number", "exclusiveMinimum": 0, "maximum": MOST_DAYS}, f"{DAYS_KEPT:g}", "days",
        "For how long landed snapshots are kept."),
    ClusterEntry("full_every", ("live",), {"type": "integer", "minimum": 1}, "1", "snapshots",
        "Topic lists come along in every so manyth snapshot."),
    ClusterEntry("silent_seconds", ("live",),
        {"type": "number", "minimum": LEAST_SILENT_SECONDS, "maximum": MOST_SILENT_SECONDS}, f"{SILENT_SECONDS:g}", "s",
        "A cluster that gives no answer for so long is left out of the cycle."),
    ClusterEntry("s3", ("zone",), _TEXT, "none", "",
        "Where `evenkeel collect` beside the cluster puts its snapshots: `s3://bucket/prefix`."),
    ClusterEntry("s3_connection", ("zone",), _TEXT, "what boto3 finds", "",
        "Airflow's connection of the AWS kind with the keys of `s3`.", ("s3",)),
    ClusterEntry("queue", ("queues",), _TEXT, "none", "URL",
        "FIFO queue of SQS for the commands to the agent beside the cluster.", ("reports",)),
    ClusterEntry("reports", ("queues",), _TEXT, "none", "URL", "FIFO queue of what that agent reports.", ("queue",)),
    ClusterEntry("queue_keys", ("queues",), _TEXT, "`queue_<NAME>`", "",
        "Name of the keys that sign both queues' messages: `EVENKEEL_KEYS_<NAME>`, its `_FILE`, or a connection.",
        ("queue", "reports")),
)  # fmt: skip
"""Every entry, in the order of the reference page."""


def names_of(source: Source) -> frozenset[str]:
    """The names of the entries that are about this source."""
    return frozenset(entry.name for entry in CLUSTER_ENTRIES if source in entry.of)
