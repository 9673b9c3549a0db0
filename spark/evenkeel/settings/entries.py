"""Tables and types of the configuration file, from which its models are made.

A message never repeats a typed text: it may be a secret in the wrong entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo
from pydantic import WithJsonSchema as JsonSchema
from pydantic_core import PydanticCustomError

from evenkeel.errors import SettingsError
from evenkeel.settings.names import MAIN, NAME_PATTERN

NEVER: Final = "none"
"""Schedule of a DAG that only people start."""
_LONGEST_WORD = 8
FaultPath = tuple[str | int, ...]


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


def _lake_name(value: str) -> str:
    if value == MAIN:
        raise fault(f"The lake {MAIN} is the one at `lake`: give this one another name, or write `lake`")
    if not re.match(NAME_PATTERN, value):
        raise fault("The name of a lake has letters, digits, `_` and `-`, 60 at most: give it such a name")
    return value


def _admin_address(value: str) -> str:
    from evenkeel.pulsar.admin.connection import address_in

    try:
        address_in(value)
    except SettingsError as error:
        raise fault(f"{without(str(error), [value])}; write http://broker-1:8080") from None
    return value


def _s3_address(value: str) -> str:
    bucket = value.removeprefix("s3://").partition("/")[0]
    if not value.startswith("s3://") or not bucket:
        raise fault("Input should be an S3 address: write s3://BUCKET/PREFIX")
    if "@" in bucket or ":" in bucket:
        raise fault(
            "An S3 address holds neither credentials nor a host and port: write s3://BUCKET/PREFIX, and give those by "
            "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_ENDPOINT_URL_S3 or by a profile"
        )
    return value


Text = Annotated[str, AfterValidator(_text), Field(json_schema_extra={"pattern": r"\S"})]
Schedule = Annotated[Text, AfterValidator(_cron)]
S3Address = Annotated[Text, AfterValidator(_s3_address), Field(json_schema_extra={"pattern": "^s3://"})]
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
    AfterValidator(_lake_name),
    JsonSchema({"type": "string", "pattern": NAME_PATTERN, "not": {"const": MAIN}}),
]
