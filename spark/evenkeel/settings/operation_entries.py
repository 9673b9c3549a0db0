"""Entries on how Evenkeel is run: the lakes, the schedules of the DAGs, and the commands that may be sent."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import Field, ValidationInfo, field_validator, model_validator

from evenkeel.settings.entries import (
    Entries,
    FaultPath,
    FileContext,
    LakeName,
    Schedule,
    Text,
    context_of,
    did_you_mean,
    one_of,
    raise_faults,
)
from evenkeel.settings.names import address_beside, claims_of, comparable, is_pattern

Mode = Literal["dry_run", "approve", "auto"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
FROM_ROOT: Final = "/"
"""First part of the path of a lakes' fault whose entry is elsewhere in the file; no lake has this name."""


@dataclass(frozen=True, slots=True)
class Variable:
    """The environment variable of an entry, which wins over it. `unless`: variables that replace it if set.

    `kind` is the form of the value in the variable: a path or the address of a lake is relative to the configuration
    file; names are separated by commas, lines by line feeds.
    """

    name: str
    kind: Literal["text", "path", "address", "names", "lines"] = "text"
    unless: tuple[str, ...] = ()

    def text_of(self, value: Any, file: Path) -> str:
        """Return the text that the variable would have instead of the entry."""
        if isinstance(value, list):
            return ("," if self.kind == "names" else "\n").join(value)
        if isinstance(value, bool):
            return str(value).lower()
        if self.kind == "address":
            return address_beside(file, value)
        return str(file.absolute().parent / value) if self.kind == "path" else str(value)


def variables_of(model: type[Entries]) -> dict[str, Variable]:
    """Return the variable of each entry of a table that has one."""
    return {
        name: part
        for name, field in model.model_fields.items()
        for part in field.metadata
        if isinstance(part, Variable)
    }


class AirflowEntries(Entries):
    """Schedules of the DAGs, and the commands that they may send."""

    schedule: Annotated[Schedule, Variable("EVENKEEL_SCHEDULE")] = "*/5 * * * *"
    """Schedule of `rebalance`: a cron expression in UTC, or `none` for manual runs only."""
    history_schedule: Annotated[Schedule, Variable("EVENKEEL_HISTORY_SCHEDULE")] = "0 0 * * *"
    """The intervals of `rebalance_history`: a cron expression in UTC."""
    heat_schedule: Annotated[Schedule, Variable("EVENKEEL_HEAT_SCHEDULE")] = "*/10 * * * *"
    """Schedule of `heat`, which updates the tables of the heat map: a cron expression in UTC, or `none`."""
    upkeep_schedule: Annotated[Schedule, Variable("EVENKEEL_UPKEEP_SCHEDULE")] = "17 3 * * *"
    """Schedule of `upkeep`, or `none`."""
    mode: Annotated[Mode, one_of(*MODES), Variable("EVENKEEL_MODE")] = "dry_run"
    """Mode of scheduled runs: `dry_run` sends nothing, `approve` asks a person, `auto` sends."""
    mode_limit: Annotated[Mode | None, one_of(*MODES), Variable("EVENKEEL_MODE_LIMIT")] = None
    """Highest mode with which a run may be triggered. Default: as `mode`."""
    approvers: Annotated[list[Text] | None, Variable("EVENKEEL_APPROVERS", "names")] = None
    """Logins that may answer an approval. Default: all users who may in Airflow."""
    four_eyes: Annotated[bool, Variable("EVENKEEL_FOUR_EYES")] = False
    """Users who triggered a run, or made a request that it takes up, cannot approve its plan."""
    upkeep_shorten: Annotated[bool, Variable("EVENKEEL_UPKEEP_SHORTEN")] = False
    """Users who may trigger `upkeep` may shorten the promised time for which the record is kept."""
    handover_key_file: Annotated[
        Text | None, Variable("EVENKEEL_HANDOVER_KEY_FILE", "path", ("EVENKEEL_HANDOVER_KEY",))
    ] = None
    """File with the key that seals hand-overs between tasks, relative to this file. Default: a key of this machine."""

    @model_validator(mode="after")
    def _mode_within_limit(self) -> Self:
        if self.mode_limit is not None and MODES.index(self.mode) > MODES.index(self.mode_limit):
            raise_faults([(("mode_limit",), f"{self.mode_limit} allows no `mode` = {self.mode}: change one of them")])
        return self


class LogEntries(Entries):
    """The transparency log."""

    key_file: Annotated[
        Text | None, Variable("EVENKEEL_LOG_KEY_FILE", "path", ("EVENKEEL_LOG_KEY", "EVENKEEL_LOG_CONNECTION"))
    ] = None
    """File with the private key of the transparency log, relative to this file; only its owner may read it. Without it
    the lake is not signed."""
    witnesses: Annotated[list[Text] | None, Variable("EVENKEEL_WITNESSES", "lines")] = None
    """The witnesses of the log, a line each: `<verifier key> <URL>`, a file's path, `s3://bucket/prefix`, or
    `rfc3161 <URL> ca_file=PATH`."""


class LakeEntries(Entries):
    """A further lake: its address, and its clusters."""

    path: Text
    """Root of the lake's tables: a folder, relative to this file, or `s3a://bucket/prefix`."""
    clusters: list[Text]
    """Clusters that belong to the lake: names, and patterns with `*`, `?` and `[…]`. Empty: nothing is written to it
    any more."""


class Operation(Entries):
    """Operation of Evenkeel: its lakes, its DAGs and its transparency log."""

    lake: Annotated[Text | None, Variable("EVENKEEL_LAKE", "address")] = None
    """Root of the tables: a folder, relative to this file, or `s3a://bucket/prefix`. Beside `[lakes]`: the lake of the
    clusters that no table names."""
    lakes: (
        Annotated[dict[LakeName, LakeEntries], Field(min_length=1, json_schema_extra={"additionalProperties": False})]
        | None
    ) = None
    """Further lakes, a table for each, under its name."""
    airflow: AirflowEntries = AirflowEntries()
    """Schedules of the DAGs, and the commands that they may send."""
    log: LogEntries = LogEntries()
    """The transparency log."""

    def by_variable(self) -> Iterator[tuple[Variable, Any]]:
        """Yield the variable and the value of each entry in the file that has one."""
        for table in (self, self.airflow, self.log):
            for name, variable in variables_of(type(table)).items():
                if name in table.model_fields_set:
                    yield variable, getattr(table, name)

    @field_validator("lakes", mode="after")
    @classmethod
    def _lakes_apart(cls, lakes: dict[str, LakeEntries] | None, info: ValidationInfo) -> dict[str, LakeEntries] | None:
        raise_faults(_lake_faults(lakes or {}, context_of(info)))
        return lakes


def _lake_faults(lakes: Mapping[str, LakeEntries], context: FileContext) -> Iterator[tuple[FaultPath, str]]:
    """Yield lakes in one place, clusters of two lakes or of none, and names that no cluster has."""
    main = context.body.get("lake")
    places = {comparable(address_beside(context.file, main)): "`lake`"} if isinstance(main, str) and main else {}
    clusters = sorted(context.table("clusters"))
    for name, lake in lakes.items():
        other = places.setdefault(comparable(address_beside(context.file, lake.path)), name)
        if other != name:
            yield (name, "path"), f"This is the place of {other}, too: each lake has its own"
        for index, wanted in enumerate(lake.clusters):
            if not is_pattern(wanted) and wanted not in clusters:
                yield (name, "clusters", index), f"This is not a configured cluster{did_you_mean(wanted, clusters)}"
    lists = [(name, lake.clusters) for name, lake in lakes.items()]
    for cluster in clusters if lakes else ():
        owners = claims_of(cluster, lists)
        if len(owners) > 1:
            fault_text = f"The cluster {cluster!r} belongs to {owners[0]}, too: name it in the list of one of them"
            yield (owners[1], "clusters"), fault_text
        elif not owners and not main and not os.environ.get("EVENKEEL_LAKE"):
            yield (FROM_ROOT, "clusters", cluster), "No lake has it: name it in a table of [lakes], or write `lake`"
