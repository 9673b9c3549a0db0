"""Tables and types of the configuration file, and its entries on how Evenkeel is run: lakes, schedules, commands.

A message never repeats a typed text: it may be a secret in the wrong entry.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic import WithJsonSchema as JsonSchema
from pydantic_core import PydanticCustomError

from evenkeel.errors import SettingsError
from evenkeel.settings.names import MAIN, NAME_PATTERN, address_beside, claims_of, comparable, is_pattern
from evenkeel.settings.resolving import FaultPath

NEVER: Final = "none"
"""Schedule of a DAG that only people start."""
_LONGEST_WORD = 8
_NO_ADDRESS, _NAME = r"^(?!.*://).*\S", r"^[^\s/+=:@]{1,60}$"


class Entries(BaseModel):
    """A table of the configuration file. The docstring of a field is its description."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, hide_input_in_errors=True, use_attribute_docstrings=True
    )

    def given(self) -> dict[str, Any]:
        """Return the entries that the file sets."""
        return self.model_dump(exclude_unset=True)


@dataclass(frozen=True, slots=True)
class FileContext:
    """The file that is validated, for checks over several entries. `body`: its TOML as Python has it."""

    file: Path
    body: Mapping[str, Any]

    def table(self, name: str) -> Mapping[str, Any]:
        """Return a table of the file; empty if the entry is missing or is not a table."""
        table = self.body.get(name)
        return table if isinstance(table, Mapping) else {}


def context_of(info: ValidationInfo) -> FileContext:
    """Return the file that is validated."""
    assert isinstance(info.context, FileContext)
    return info.context


def fault(text: str) -> PydanticCustomError:
    """Return the error of a validator."""
    return PydanticCustomError("entry", "{text}", {"text": text})


def raise_faults(faults: Iterable[tuple[FaultPath, str]]) -> None:
    """Raise all faults at once, each with its path below the validated value; do nothing without faults."""
    errors: list[Any] = [{"type": fault(text), "loc": path, "input": None} for path, text in faults]
    if errors:
        raise ValidationError.from_exception_data("configuration", errors)


def without(message: str, typed: Iterable[str]) -> str:
    """Return a message without the texts that an operator typed."""
    for text in sorted(filter(None, typed), key=len, reverse=True):
        message = message.replace(repr(text), "…")
        message = message.replace(text, "…") if len(text) > _LONGEST_WORD else message
    return message


def did_you_mean(text: object, known: Iterable[str]) -> str:
    """Return a hint at the known name that looks most like the text, or nothing."""
    near = get_close_matches(text, known, n=1) if isinstance(text, str) else []
    return f"; did you mean {near[0]}?" if near else ""


def one_of(*choices: str) -> BeforeValidator:
    """Return the check of a value against texts, with a hint at the nearest."""

    def check(value: Any) -> Any:
        if value not in choices:
            raise fault(f"Input should be one of {', '.join(choices)}{did_you_mean(value, choices)}")
        return value

    return BeforeValidator(check)


def _like(pattern: str, text: str) -> AfterValidator:
    """Return the check of a text against a pattern; `text` is the fault."""

    def check(value: str) -> str:
        if not re.search(pattern, value):
            raise fault(text)
        return value

    return AfterValidator(check)


def _text(value: str) -> str:
    if not value.strip() or "\0" in value:
        raise fault("Input should be a text that is not empty, without NUL")
    return value


def _cron(value: str, info: ValidationInfo) -> str:
    from croniter import CroniterBadDateError, CroniterError, croniter

    if value == NEVER:
        if info.field_name == "history_schedule":
            raise fault("The DAG needs intervals: leave the entry out, or give a cron expression")
        return value
    try:
        croniter(value, datetime.now(UTC)).get_next()
    except CroniterBadDateError:
        raise fault("The moment never comes: give a date that exists, as in 17 3 * * *") from None
    except (CroniterError, ValueError):
        raise fault("Input should be a cron expression, as in 17 3 * * *") from None
    return value


def _admin_address(value: str) -> str:
    from evenkeel.pulsar.admin.connection import address_in

    try:
        address_in(value)
    except SettingsError as error:
        raise fault(f"{without(str(error), [value])}; write http://broker-1:8080") from None
    return value


Text = Annotated[str, AfterValidator(_text), Field(json_schema_extra={"pattern": r"\S"})]
Place = Annotated[
    Text,
    _like(_NO_ADDRESS, "Input should be a folder or file of this machine, and no address"),
    Field(json_schema_extra={"pattern": _NO_ADDRESS}),
]
ConnectionName = Annotated[
    Text,
    _like(
        _NAME,
        "Input should be a name, of 60 characters at most, without blanks and / + = : @. The secret itself belongs "
        "into the variable, or the connection of Airflow's, of that name",
    ),
    Field(json_schema_extra={"pattern": _NAME}),
]
LakeAddress = Annotated[
    Text,
    _like(
        r"^(?!.*://)|^file://|^s3[an]?://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](/|$)",
        "Input should be a folder or s3a://BUCKET/PREFIX, without credentials: give those by AWS_ACCESS_KEY_ID and "
        "AWS_SECRET_ACCESS_KEY, by a profile, or by EVENKEEL_LAKE_CONNECTION",
    ),
]
Schedule = Annotated[Text, AfterValidator(_cron)]
S3Address = Annotated[
    Text,
    _like("^s3://[^/]", "Input should be an S3 address: write s3://BUCKET/PREFIX"),
    _like(
        "^s3://[^/@:]+(/|$)",
        "An S3 address holds neither credentials nor a host and port: write s3://BUCKET/PREFIX, and give those by "
        "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_ENDPOINT_URL_S3 or by a profile",
    ),
    Field(json_schema_extra={"pattern": "^s3://"}),
]
AdminAddress = Annotated[str, AfterValidator(_admin_address)]
AdminAddresses = Annotated[
    list[AdminAddress],
    Field(min_length=1),
    BeforeValidator(
        lambda value: [value] if isinstance(value, str) else value,
        json_schema_input_type=AdminAddress | Annotated[list[AdminAddress], Field(min_length=1)],
    ),
]
LakeName = Annotated[
    str,
    _like(rf"^(?!{MAIN}$)", f"The lake {MAIN} is the one at `lake`: give this one another name, or write `lake`"),
    _like(NAME_PATTERN, "The name of a lake has letters, digits, `_` and `-`, 60 at most: give it such a name"),
    JsonSchema({"type": "string", "pattern": NAME_PATTERN, "not": {"const": MAIN}}),
]


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
        Place | None, Variable("EVENKEEL_HANDOVER_KEY_FILE", "path", ("EVENKEEL_HANDOVER_KEY",))
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
        Place | None, Variable("EVENKEEL_LOG_KEY_FILE", "path", ("EVENKEEL_LOG_KEY", "EVENKEEL_LOG_CONNECTION"))
    ] = None
    """File with the private key of the transparency log, relative to this file; only its owner may read it. Without it
    the lake is not signed."""
    witnesses: Annotated[list[Text] | None, Variable("EVENKEEL_WITNESSES", "lines")] = None
    """The witnesses of the log, a line each: `<verifier key> <URL>`, a file's path, `s3://bucket/prefix`, or
    `rfc3161 <URL> ca_file=PATH`."""


class LakeEntries(Entries):
    """A further lake: its address, and its clusters."""

    path: LakeAddress
    """Root of the lake's tables: a folder, relative to this file, or `s3a://bucket/prefix`."""
    clusters: list[Text]
    """Clusters that belong to the lake: names, and patterns with `*`, `?` and `[…]`. Empty: nothing is written to it
    any more."""


class Operation(Entries):
    """Operation of Evenkeel: its lakes, its DAGs and its transparency log."""

    lake: Annotated[LakeAddress | None, Variable("EVENKEEL_LAKE", "address")] = None
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
