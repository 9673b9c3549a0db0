"""Rows of tables in the plain form of rules, and their conversion from and to Arrow without losing a bit.

A row is a dict with every column in the table's order. None stays None; an integer is an int of any size; a double is
the same double, infinities, -0.0 and denormals included, and every NaN is the one NaN; a timestamp is ISO-8601 text in
UTC with microseconds and offset (`2026-11-21T09:15:00.000000+00:00`); a date is `2026-11-21`; arrays are lists, structs
are dicts with every field, maps are dicts in the order of their keys. That is the *plain* form.

What a rule returns may leave out columns that are NULL, and hold whole numbers in double columns, tuples, aware
datetimes and dates as well; `plain_of` brings a value to the plain form, or refuses it. Decimals, binaries and 4-byte
floats have no plain form. Columns are declared by their SQL types, so that a table's declaration is all that it takes:
no Spark is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from functools import cache, lru_cache, partial
from itertools import accumulate, chain, pairwise
from operator import itemgetter, ne
from typing import TYPE_CHECKING, Any

from evenkeel.errors import EngineError
from evenkeel.spark.column_types import INTEGER_BITS, Columns, ColumnType
from evenkeel.times import utc_text

if TYPE_CHECKING:
    import pyarrow as pa


Row = dict[str, Any]
Values = list[Any]
Plain = Callable[[Any], Any]

TIMESTAMP_FORMAT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSSxxx"
"""Spark's format of a timestamp in plain form, if the session is in UTC."""
_NAN = float("nan")
_TEXT = {str}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TICK = timedelta(microseconds=1)
_TICKS_A_DAY = 86_400_000_000
_DAYS_OF_400_YEARS = 146_097


# From Arrow to plain values, column by column: value by value takes ten times as long.


def rows_of(table: pa.Table, columns: Columns, given: Mapping[str, Any] | None = None) -> list[Row]:
    """Return the rows of an Arrow table.

    A column that the table lacks has its value in `given`, else None, in every row.
    """
    return rows_from(tuple(columns), values_of(table, columns, given or {}))


def values_of(table: pa.Table, columns: Columns, given: Mapping[str, Any]) -> list[Values]:
    """Return the columns of an Arrow table, as `rows_of` returns its rows."""
    present = {*table.column_names} - given.keys()
    return [
        read_column(table.column(name), kind) if name in present else [given.get(name)] * table.num_rows
        for name, kind in columns.items()
    ]


def rows_from(names: Sequence[str], values: Iterable[Sequence[Any]]) -> list[Row]:
    """Return rows made of plain columns."""
    return [dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)]


def read_column(column: pa.ChunkedArray | pa.Array, kind: ColumnType) -> Values:
    """Return a column's values in plain form."""
    import pyarrow as pa

    if not isinstance(column, pa.ChunkedArray):
        return _read(column, kind)
    if column.num_chunks == 1:
        return _read(column.chunk(0), kind)
    return [value for chunk in column.chunks for value in _read(chunk, kind)]


def _read(array: pa.Array, kind: ColumnType) -> Values:
    values: Values
    if array.null_count == len(array):
        return [None] * len(array)
    match kind.name:
        case "string":
            return _texts(array)
        case "double":
            return doubles(array)
        case "timestamp":
            return each_once(ticks(array), moment_text)
        case "date":
            return each_once(array.cast("date32").cast("int32").to_pylist(), day_text)
        case "array":
            return _lists(array, kind)
        case "map":
            return _maps(array, kind)
        case "struct":
            return _structs(array, kind)
    values = array.to_pylist()
    return values


def each_once(values: Values, make: Callable[[Any], Any]) -> Values:
    """Return a column made of another one; each distinct value is made once, since most columns hold few."""
    known = {value: None if value is None else make(value) for value in {*values}}
    return [known[value] for value in values]


def _texts(array: pa.Array) -> Values:
    """Return texts; bytes that are not UTF-8, which Spark lets pass, become what Java makes of them."""
    import pyarrow as pa

    values: Values
    if pa.types.is_dictionary(array.type):
        if len(array.dictionary) > len(array):  # includes codes of other cycles' texts
            return _texts(array.dictionary_decode())
        known = [*_texts(array.dictionary), None]
        codes = array.indices.fill_null(len(known) - 1) if array.indices.null_count else array.indices
        return [known[code] for code in codes.to_pylist()]
    try:
        values = array.to_pylist()
    except UnicodeDecodeError:
        values = [None if b is None else b.decode(errors="replace") for b in array.cast("binary").to_pylist()]
    return values


def doubles(array: pa.Array) -> Values:
    """Return doubles with one NaN: processors and JSON readers leave several, which differ only in their bits."""
    values: Values = array.to_pylist()
    return [_NAN if value != value else value for value in values] if any(map(ne, values, values)) else values


def one_nan(array: pa.Array) -> pa.Array:
    """Return the doubles with every NaN replaced by the one that Python and Java write."""
    import pyarrow.compute as pc

    is_nan = pc.is_nan(array)
    return pc.if_else(is_nan, _NAN, array) if pc.any(is_nan).as_py() else array


def ticks(array: pa.Array) -> Values:
    """Return timestamps as microseconds since 1970; some writers leave out that a timestamp is in UTC."""
    import pyarrow as pa

    in_ticks = array if pa.types.is_timestamp(array.type) and array.type.unit == "us" else None
    if in_ticks is None:
        in_ticks = array.cast(arrow_type(ColumnType("timestamp")))
    values: Values = in_ticks.view("int64").to_pylist()
    return values


def moment_text(tick: int) -> str:
    """Return the plain form of a timestamp in microseconds since 1970; like Spark's beyond the years of Python."""
    try:
        return (_EPOCH + tick * _TICK).isoformat(timespec="microseconds")
    except OverflowError:
        day, ticks = divmod(tick, _TICKS_A_DAY)
        return day_text(day) + (_EPOCH + ticks * _TICK).isoformat(timespec="microseconds")[10:]


def day_text(day: int) -> str:
    """Return the plain form of a date in days since 1970; years of five digits have a sign, as Spark writes them."""
    spans, day = divmod(day, _DAYS_OF_400_YEARS)
    day_date = _EPOCH.date() + timedelta(days=day)
    year = day_date.year + 400 * spans
    sign = "+" if year > 9_999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04}{day_date.isoformat()[4:]}"


def _lists(array: pa.Array, kind: ColumnType) -> Values:
    lengths = array.value_lengths().to_pylist()
    return _cut(_read(array.flatten(), kind.parts[0][1]), lengths)


def _maps(array: pa.Array, kind: ColumnType) -> Values:
    import pyarrow as pa

    pairs = array.cast(pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])))
    keys, items = pairs.flatten().flatten()
    lengths = pairs.value_lengths().to_pylist()
    names, values = _cut(_texts(keys), lengths), _cut(_read(items, kind.parts[0][1]), lengths)
    maps: Values = []
    in_order: Values = []  # most rows of a table name the same figures
    for names_of_map, figures in zip(names, values, strict=True):
        if names_of_map is None:
            maps.append(None)
            continue
        mapping = dict(zip(names_of_map, figures, strict=True))
        if names_of_map != in_order:
            in_order = sorted(mapping)
        maps.append(mapping if names_of_map == in_order else {name: mapping[name] for name in in_order})
    return maps


def _cut(values: Values, lengths: Sequence[int | None]) -> Values:
    """Return stretches of these lengths, None for a length that is None."""
    ends = accumulate((length or 0 for length in lengths), initial=0)
    places = zip(lengths, pairwise(ends), strict=True)
    return [None if length is None else values[begin:end] for length, (begin, end) in places]


def _structs(array: pa.Array, kind: ColumnType) -> Values:
    fields = {array.type.field(n).name: child for n, child in enumerate(array.flatten())}
    values = [_read(fields[n], part) if n in fields else [None] * len(array) for n, part in kind.parts]
    structs: Values = [*rows_from([name for name, _ in kind.parts], values)]
    if array.null_count:
        structs = [
            struct if is_valid else None for struct, is_valid in zip(structs, array.is_valid().to_pylist(), strict=True)
        ]
    return structs


def plain_of(kind: ColumnType, where: str = "value") -> Plain:
    """Return the function that brings a value to plain form; it raises EngineError, which names `where`, for a misfit.

    It takes values that are not None.
    """
    match kind.name:
        case "array":
            return partial(_plain_array, _nullable(plain_of(kind.parts[0][1], where)), where)
        case "map":
            return partial(_plain_map, _nullable(plain_of(kind.parts[0][1], where)), where)
        case "struct":
            return _plain_struct(kind.parts, where)
    return partial(_WRITERS[kind.name], where)


def _nullable(plain: Plain) -> Plain:
    return lambda value: None if value is None else plain(value)


def _plain_struct(parts: Iterable[tuple[str, ColumnType]], where: str) -> Plain:
    fields = {name: _nullable(plain_of(part, f"{where}.{name}")) for name, part in parts}

    def plain(row: Any) -> Any:
        if not isinstance(row, Mapping):
            raise misfit(row, "a mapping", where)
        refuse_unknown(row, fields, where)
        return {name: write(row.get(name)) for name, write in fields.items()}

    return plain


def refuse_unknown(row: Mapping[str, Any], known: Mapping[str, Any], where: str) -> None:
    """Raise EngineError if a row has a column that is not known."""
    if not row.keys() <= known.keys():
        unknown = ", ".join(sorted(row.keys() - known.keys()))
        raise EngineError(f"{where} has no column {unknown}; its columns are {', '.join(known)}.")


def _plain_array(element: Plain, where: str, value: Any) -> Values:
    if not isinstance(value, (list, tuple)):
        raise misfit(value, "a list", where)
    return [element(each) for each in value]


def _plain_map(value: Plain, where: str, mapping: Any) -> Row:
    if not isinstance(mapping, Mapping) or not (
        {*map(type, mapping)} <= _TEXT or all(isinstance(k, str) for k in mapping)
    ):
        raise misfit(mapping, "a mapping with text keys", where)
    return {key: value(mapping[key]) for key in sorted(mapping)}


def _plain_integer(bits: int, where: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise misfit(value, f"an integer of {bits} bits", where)
    return value


def _plain_double(where: str, value: Any) -> float:
    if type(value) is float:
        return value if value == value else _NAN
    if isinstance(value, bool) or not isinstance(value, (int, float)) or float(value) != value == value:
        raise misfit(value, "a double", where)
    return float(value) if value == value else _NAN


def _plain_as_it_is(type_: type, expected: str, where: str, value: Any) -> Any:
    if not isinstance(value, type_):
        raise misfit(value, expected, where)
    return value


def _plain_moment(where: str, value: Any) -> str:
    try:
        return _moment_in(value) if isinstance(value, str) else _moment_of(value)
    except (TypeError, ValueError):
        raise misfit(value, "a timestamp", where) from None
    except LookupError:
        raise misfit(value, "a timestamp with an offset", where) from None


# All rows of a cycle have its moment. Only texts are cached: equal datetimes may be different moments (see `fold`).
@lru_cache(maxsize=64)
def _moment_in(text: str) -> str:
    return _moment_of(datetime.fromisoformat(text))


def _moment_of(value: Any) -> str:
    if not isinstance(value, datetime):
        raise TypeError
    if value.tzinfo is None:
        raise LookupError
    return utc_text(value)


def _plain_day(where: str, value: Any) -> str:
    try:
        day = value if isinstance(value, date) and not isinstance(value, datetime) else date.fromisoformat(value)
    except (TypeError, ValueError):
        raise misfit(value, "a date", where) from None
    return day.isoformat()


_WRITERS: dict[str, Callable[[str, Any], Any]] = {
    **{name: partial(_plain_integer, bits) for name, bits in INTEGER_BITS.items()},
    "double": _plain_double,
    "boolean": partial(_plain_as_it_is, bool, "a boolean"),
    "string": partial(_plain_as_it_is, str, "a text"),
    "timestamp": _plain_moment,
    "date": _plain_day,
}


def misfit(value: Any, expected: str, where: str) -> EngineError:
    """Return the error for a value that does not fit its column."""
    return EngineError(f"{where} wants {expected}, got {type(value).__name__} {str(value)[:60]!r}.")


def cells(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], given: Mapping[str, Any] | None = None
) -> list[Values]:
    """Return the rows' values in these columns; `given` holds those of columns that a row leaves out."""
    if rows and len(names) > 1:
        with suppress(KeyError):
            # Row by row: a column of many rows is scattered over all of the memory.
            return [[*column] for column in zip(*map(itemgetter(*names), rows), strict=True)]
    given = given or {}
    return [[row.get(name, given.get(name)) for row in rows] for name in names]


def plain_column(values: Values, kind: ColumnType, where: str = "value") -> Values:
    """Return a column of rules in plain form; most often it is plain already."""
    types = {*map(type, values)} - {type(None)}
    if not types or _is_plain(values, types, kind.name):
        return values
    plain = plain_of(kind, where)
    if types == {str}:
        return each_once(values, plain)
    return [None if value is None else plain(value) for value in values]


def _is_plain(values: Values, types: set[type], kind: str) -> bool:
    if types == {float} and kind == "double":
        return not any(map(ne, values, values))  # none is a NaN, which would have to become the one NaN
    if types == {int} and kind in INTEGER_BITS:
        present, bound = [value for value in values if value is not None], 1 << INTEGER_BITS[kind] - 1
        return bool(-bound <= min(present) and max(present) < bound)
    return (types == {str} and kind == "string") or (types == {bool} and kind == "boolean")


@cache
def arrow_type(kind: ColumnType) -> pa.DataType:
    """Return the Arrow type of a column, as Spark has it."""
    import pyarrow as pa

    parts = [pa.field(name, arrow_type(part)) for name, part in kind.parts]
    match kind.name:
        case "array":
            return pa.list_(parts[0])
        case "map":
            return pa.map_(pa.field("key", pa.string(), nullable=False), parts[0])
        case "struct":
            return pa.struct(parts)
        case "timestamp":
            return pa.timestamp("us", tz="UTC")
    return pa.type_for_alias(_ALIASES[kind.name])


_ALIASES = {"tinyint": "int8", "smallint": "int16", "int": "int32", "bigint": "int64", "boolean": "bool"}
_ALIASES |= {"double": "float64", "string": "string", "date": "date32"}


def arrow_column(plain: Values, kind: ColumnType) -> pa.Array:
    """Return plain values as an Arrow array of `arrow_type`."""
    import pyarrow as pa

    type_ = arrow_type(kind)
    if kind.parts and plain.count(None) == len(plain):
        return pa.nulls(len(plain), type_)
    match kind.name:
        case "double":
            return one_nan(pa.array(plain, type_))
        case "timestamp":
            return pa.array(each_once(plain, tick_of), pa.int64()).cast(type_)
        case "date":
            return pa.array(each_once(plain, day_of), pa.int32()).cast(type_)
        case "array":
            inside = arrow_column(_within(plain), kind.parts[0][1])
            return pa.ListArray.from_arrays(_offsets(plain), inside, type=type_)
        case "map":
            keys = pa.array(_within(plain), pa.string())
            inside = arrow_column([v for mapping in plain if mapping for v in mapping.values()], kind.parts[0][1])
            return pa.MapArray.from_arrays(_offsets(plain), keys, inside, type=type_)
        case "struct":
            mask = pa.array([mapping is None for mapping in plain], pa.bool_())
            fields = [arrow_column([f and f[name] for f in plain], part) for name, part in kind.parts]
            return pa.StructArray.from_arrays(fields, fields=list(type_), mask=mask)
    return pa.array(plain, type_)


def _within(lists: Iterable[Iterable[Any] | None]) -> Values:
    return [*chain.from_iterable(values for values in lists if values)]


def _offsets(plain: Sequence[Any]) -> pa.Array:
    """Return the start of each list, None for a list that is None, and the end of the last one."""
    import pyarrow as pa

    ends = accumulate((len(values) if values else 0 for values in plain), initial=0)
    return pa.array([None if f is None else begin for f, begin in zip([*plain, ()], ends, strict=True)], pa.int32())


def tick_of(text: str) -> int:
    """Return the microseconds since 1970 of a timestamp in plain form."""
    return (datetime.fromisoformat(text) - _EPOCH) // _TICK


def day_of(text: str) -> int:
    """Return the days since 1970 of a date in plain form."""
    return (date.fromisoformat(text) - _EPOCH.date()).days
