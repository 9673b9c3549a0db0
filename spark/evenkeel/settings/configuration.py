"""The configuration file as one model: reader, check, JSON schema and reference page are made from it. An example:

lake = "s3a://bucket/prefix"                # root of the tables
[lakes.north]                               # or several lakes
path = "s3a://bucket/north"
clusters = ["eu-*"]
[airflow]
mode = "approve"
[log]
witnesses = ["/mnt/elsewhere/checkpoints.jsonl"]
[settings]                                  # for all clusters, under Pulsar's own keys
loadBalancerBrokerThresholdShedderPercentage = 10
[limits]
answer_mib = 64

[clusters.lab]
recording = "recordings/lab"                # a folder of snapshots
[clusters.west]                             # a running cluster
admin = ["https://b1.west:8443"]
connection = "pulsar_west"
[clusters.west.settings]                    # win over those for all clusters
loadBalancerNamespaceBundleMaxTopics = 500
[clusters.far]                              # a cluster that cannot be reached from here
s3 = "s3://bucket/prefix"
queue = "https://sqs.…/far.fifo"
reports = "https://sqs.…/far-reports.fifo"
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationInfo, field_validator
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import CoreSchema

from evenkeel.secret import variable_name
from evenkeel.settings.cluster_entries import ClusterEntries, LimitEntries, SettingEntries
from evenkeel.settings.entries import Entries, FaultPath, context_of, raise_faults
from evenkeel.settings.names import default_keys, default_landing
from evenkeel.settings.operation_entries import AirflowEntries, LakeEntries, LogEntries, Operation


class Configuration(Operation):
    """The whole file."""

    model_config = ConfigDict(title="Configuration of Evenkeel")

    settings: SettingEntries = SettingEntries()
    """Settings for all clusters, under Pulsar's own keys."""
    limits: LimitEntries = LimitEntries()
    """Limits on what is read of a cluster, for all clusters."""
    clusters: Annotated[dict[str, ClusterEntries], Field(min_length=1)]
    """A table for each cluster, under its name."""

    @field_validator("clusters", mode="after")
    @classmethod
    def _clusters_apart(cls, clusters: dict[str, ClusterEntries], info: ValidationInfo) -> dict[str, ClusterEntries]:
        raise_faults(_cluster_faults(clusters, context_of(info).file))
        return clusters


def _cluster_faults(clusters: Mapping[str, ClusterEntries], file: Path) -> Iterator[tuple[FaultPath, str]]:
    """Yield folders, queues and secrets that two clusters share.

    Two clusters in one folder would be mixed up. An agent rejects the commands of another cluster than its own.
    Different names that share a variable would give one cluster's token or keys to another.
    """
    folders: dict[Path, str] = {}
    queues: dict[str, str] = {}
    variables: dict[tuple[str, str], tuple[str, str]] = {}
    for name, cluster in sorted(clusters.items()):
        if cluster.recording is None:
            other = folders.setdefault((file.parent / (cluster.landing or default_landing(name))).resolve(), name)
            if other != name:
                yield (name, "landing"), f"{other} and {name} land in the same folder: give each its own `landing`"
        for entry, url in (("queue", cluster.queue), ("reports", cluster.reports)):
            if url is not None and (other := queues.setdefault(url, name)) != name:
                yield (name, entry), f"{other} and {name} share the queue: give each its own"
        keys = None if cluster.queue is None else cluster.queue_keys or default_keys(name)
        for entry, secret in (("connection", cluster.connection), ("queue_keys", keys)):
            if secret is None:
                continue
            first, other = variables.setdefault((entry, variable_name("", secret)), (secret, name))
            if first != secret:
                yield (
                    (name, entry),
                    f"{other} and {name} differ in `{entry}`, and one environment variable would stand for both: give "
                    f"one of them another `{entry}`",
                )


class _SchemaOfToml(GenerateJsonSchema):
    """JSON schema of values as TOML has them: without null."""

    def nullable_schema(self, schema: Any) -> dict[str, Any]:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: Any) -> dict[str, Any]:
        has_value = schema["default"] is not None and not isinstance(schema["default"], Entries)
        return super().default_schema(schema) if has_value else self.generate_inner(schema["schema"])

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def generate(self, schema: CoreSchema, mode: Any = "validation") -> dict[str, Any]:
        return {"$schema": self.schema_dialect, **super().generate(schema, mode)}


def configuration_schema() -> dict[str, Any]:
    """Return the JSON schema of the file, for editors.

    All valid files fit it. It cannot express faults between tables, such as two clusters in one folder.
    """
    return Configuration.model_json_schema(schema_generator=_SchemaOfToml)


def entries_at(path: FaultPath) -> type[Entries]:
    """Return the model of the table at a path of the file."""
    match path:
        case ("airflow",):
            return AirflowEntries
        case ("log",):
            return LogEntries
        case ("lakes", _):
            return LakeEntries
        case ("clusters", _):
            return ClusterEntries
        case (*_, "limits"):
            return LimitEntries
        case (*_, "settings"):
            return SettingEntries
    return Configuration
