"""Rows as JSON text, and back, without losing a bit.

What a decide function sees: None stays None; an integer is an int of any size; a double is the same double, NaN,
infinities, -0.0 and denormals included; a timestamp is ISO-8601 text in UTC with microseconds and offset
(`2026-11-21T09:15:00.000000+00:00`); a date is `2026-11-21`; arrays are lists, maps and structs are dicts.
What it returns may be the same, and aware datetimes and dates too. Decimals, binaries and 4-byte floats have no exact
form in JSON and are refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import date, datetime
from functools import partial
from typing import Any

from pyspark.sql import types as T

from evenkeel.errors import EngineError
from evenkeel.times import utc_text

TIMESTAMP_FORMAT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSxxx"
TO_JSON_OPTIONS = {"ignoreNullFields": "false", "timestampFormat": TIMESTAMP_FORMAT, "timeZone": "UTC"}
FROM_JSON_OPTIONS = {"mode": "FAILFAST", "timestampFormat": TIMESTAMP_FORMAT, "timeZone": "UTC"}

INTEGER_BITS: dict[type[T.DataType], int] = {T.ByteType: 8, T.ShortType: 16, T.IntegerType: 32, T.LongType: 64}
PLAIN_TYPES = (*INTEGER_BITS, T.StringType, T.BooleanType, T.DoubleType, T.TimestampType, T.DateType)
DOUBLE_WORDS = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}

Decode = Callable[[Any], Any]
Encode = Callable[[Any], Any]


def refuse_inexact(schema: T.StructType, what: str) -> None:
    """Raises EngineError for a column whose type cannot pass through JSON unchanged."""
    for field in schema.fields:
        _refuse_inexact(field.dataType, f"column {field.name} of {what}")


def _refuse_inexact(kind: T.DataType, where: str) -> None:
    if isinstance(kind, T.StructType):
        for field in kind.fields:
            _refuse_inexact(field.dataType, f"{where}, field {field.name}")
    elif isinstance(kind, T.ArrayType):
        _refuse_inexact(kind.elementType, where)
    elif isinstance(kind, T.MapType) and isinstance(kind.keyType, T.StringType):
        _refuse_inexact(kind.valueType, where)
    elif not isinstance(kind, PLAIN_TYPES):
        raise EngineError(
            f"The {where} is a {kind.simpleString()}, which does not survive JSON exactly. Use string, boolean, an "
            "integer type, double, timestamp, date, or arrays, structs and string maps of them."
        )


def has_map(kind: T.DataType) -> bool:
    """Whether a map occurs anywhere in the type: equal maps may come as different text."""
    if isinstance(kind, T.StructType):
        return any(has_map(field.dataType) for field in kind.fields)
    return has_map(kind.elementType) if isinstance(kind, T.ArrayType) else isinstance(kind, T.MapType)


def decoder(schema: T.StructType) -> Callable[[str], dict[str, Any]]:
    """Reads a body that Spark's to_json wrote for this schema."""
    decode = _decode(schema)

    def read(body: str) -> dict[str, Any]:
        row: dict[str, Any] = decode(json.loads(body))
        return row

    return read


def _decode(kind: T.DataType) -> Decode:
    """Only doubles need a hand: Spark writes NaN and infinities as words in quotes."""
    if isinstance(kind, T.DoubleType):
        return _read_double
    if isinstance(kind, T.ArrayType):
        element = _decode(kind.elementType)
        return lambda found: None if found is None else [element(each) for each in found]
    if isinstance(kind, T.MapType):
        value = _decode(kind.valueType)
        return lambda found: None if found is None else {key: value(found[key]) for key in sorted(found)}
    if isinstance(kind, T.StructType):
        fields = {field.name: _decode(field.dataType) for field in kind.fields}
        return lambda found: (
            None if found is None else {name: decode(found.get(name)) for name, decode in fields.items()}
        )
    return lambda found: found


def _read_double(found: Any) -> float | None:
    if found is None:
        return None
    return DOUBLE_WORDS[found] if isinstance(found, str) else float(found)


def encoder(schema: T.StructType, what: str) -> Callable[[Mapping[str, Any]], str]:
    """Writes a row for Spark's from_json with this schema; raises EngineError where a value does not fit its column."""
    encode = _encode_struct(schema, what)

    def write(row: Mapping[str, Any]) -> str:
        return json.dumps(encode(row), ensure_ascii=False, separators=(",", ":"))

    return write


def _encode_struct(schema: T.StructType, where: str) -> Encode:
    fields = {field.name: _encode(field.dataType, f"{where}.{field.name}") for field in schema.fields}

    def encode(row: Any) -> Any:
        if not isinstance(row, Mapping):
            raise _misfit(row, "a mapping", where)
        unknown = sorted(set(row) - set(fields))
        if unknown:
            raise EngineError(f"{where} has no column {', '.join(unknown)}; its columns are {', '.join(fields)}.")
        return {name: write(row.get(name)) for name, write in fields.items()}

    return encode


def _encode(kind: T.DataType, where: str) -> Encode:
    write: Encode
    if isinstance(kind, T.StructType):
        write = _encode_struct(kind, where)
    elif isinstance(kind, T.ArrayType):
        write = partial(_write_array, _encode(kind.elementType, where), where)
    elif isinstance(kind, T.MapType):
        write = partial(_write_map, _encode(kind.valueType, where), where)
    elif isinstance(kind, tuple(INTEGER_BITS)):
        write = partial(_write_integer, INTEGER_BITS[type(kind)], where)
    else:
        write = partial(WRITERS[type(kind)], where)
    return lambda found: None if found is None else write(found)


def _write_array(element: Encode, where: str, found: Any) -> list[Any]:
    if not isinstance(found, (list, tuple)):
        raise _misfit(found, "a list", where)
    return [element(each) for each in found]


def _write_map(value: Encode, where: str, found: Any) -> dict[str, Any]:
    if not isinstance(found, Mapping) or not all(isinstance(key, str) for key in found):
        raise _misfit(found, "a mapping with text keys", where)
    return {key: value(found[key]) for key in sorted(found)}


def _write_integer(bits: int, where: str, found: Any) -> int:
    if isinstance(found, bool) or not isinstance(found, int) or not -(1 << bits - 1) <= found < 1 << bits - 1:
        raise _misfit(found, f"an integer of {bits} bits", where)
    return found


def _write_double(where: str, found: Any) -> float:
    if isinstance(found, bool) or not isinstance(found, (int, float)) or float(found) != found == found:
        raise _misfit(found, "a double", where)
    return float(found)


def _write_boolean(where: str, found: Any) -> bool:
    if not isinstance(found, bool):
        raise _misfit(found, "a boolean", where)
    return found


def _write_string(where: str, found: Any) -> str:
    if not isinstance(found, str):
        raise _misfit(found, "a text", where)
    return found


def _write_timestamp(where: str, found: Any) -> str:
    try:
        moment = found if isinstance(found, datetime) else datetime.fromisoformat(found)
    except (TypeError, ValueError):
        raise _misfit(found, "a timestamp", where) from None
    if moment.tzinfo is None:
        raise _misfit(found, "a timestamp with an offset", where)
    return utc_text(moment)


def _write_date(where: str, found: Any) -> str:
    try:
        day = found if isinstance(found, date) and not isinstance(found, datetime) else date.fromisoformat(found)
    except (TypeError, ValueError):
        raise _misfit(found, "a date", where) from None
    return day.isoformat()


WRITERS: dict[type[T.DataType], Callable[[str, Any], Any]] = {
    T.DoubleType: _write_double,
    T.BooleanType: _write_boolean,
    T.StringType: _write_string,
    T.TimestampType: _write_timestamp,
    T.DateType: _write_date,
}


def _misfit(found: Any, expected: str, where: str) -> EngineError:
    return EngineError(f"{where} wants {expected}, got {type(found).__name__} {str(found)[:60]!r}.")
