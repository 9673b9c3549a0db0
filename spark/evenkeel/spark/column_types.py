"""Types of the columns of rules, read from the SQL types that tables declare; Spark is not needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from evenkeel.errors import EngineError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

Columns = Mapping[str, "ColumnType"]
"""Columns by name, in the table's order."""

INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
NESTED = frozenset({"array", "map", "struct"})
_PLAIN = frozenset({*INTEGER_BITS, "double", "boolean", "string", "timestamp", "date"})


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of a column: `name` is an SQL type, or `array`, `map` or `struct` with the types of its `parts`.

    The part of an array is its `element`, that of a map its `value` (keys are texts), those of a struct its fields by
    name.
    """

    name: str
    parts: tuple[tuple[str, ColumnType], ...] = ()

    @property
    def sql(self) -> str:
        """The SQL type, which `type_of` reads."""
        match self.name:
            case "array":
                return f"array<{self.parts[0][1].sql}>"
            case "map":
                return f"map<string,{self.parts[0][1].sql}>"
            case "struct":
                return f"struct<{','.join(f'{name}:{part.sql}' for name, part in self.parts)}>"
        return self.name


@cache
def type_of(text: str) -> ColumnType:
    """Return the column type of an SQL type such as `map<string,double>`; raises EngineError for a type no rule
    takes."""
    outer, _, inside = text.partition("<")
    inside = inside.removesuffix(">")
    if outer == "array":
        return ColumnType(outer, (("element", type_of(inside)),))
    if outer == "map" and inside.startswith("string,"):
        return ColumnType(outer, (("value", type_of(inside.partition(",")[2])),))
    if outer == "struct":
        fields = (field.partition(":") for field in _split(inside))
        return ColumnType(outer, tuple((name, type_of(type_)) for name, _, type_ in fields))
    if text not in _PLAIN:
        raise EngineError(
            f"{text} is not a type that rules take: use string, boolean, an integer type, double, timestamp, date, or "
            "arrays, structs and string maps of them."
        )
    return ColumnType(text)


def columns_of(schema: StructType, what: str) -> dict[str, ColumnType]:
    """Return the columns of a Spark schema.

    Raises EngineError, which names `what` and the column, for a type that no rule takes.
    """
    columns = {}
    for field in schema.fields:
        try:
            columns[field.name] = type_of(field.dataType.simpleString())
        except EngineError as error:
            raise EngineError(f"The column {field.name} of {what}: {error}") from None
    return columns


@cache
def schema_of(text: str) -> StructType:
    """Return the Spark schema of a list of columns in SQL, such as `cluster string, hashes array<bigint>`.

    pyspark's own `fromDDL` asks the server, once for each text in each process.
    """
    from pyspark.sql.types import StructField, StructType

    columns = (column.strip().partition(" ") for column in _split(text))
    return StructType([StructField(name, spark_type(type_of(type_.strip())), True) for name, _, type_ in columns])


def spark_type(kind: ColumnType) -> DataType:
    """Return the type as pyspark has it; nested values may be NULL."""
    from pyspark.sql import types as T

    inner = [(name, spark_type(part)) for name, part in kind.parts]
    match kind.name:
        case "array":
            return T.ArrayType(inner[0][1], True)
        case "map":
            return T.MapType(T.StringType(), inner[0][1], True)
        case "struct":
            return T.StructType([T.StructField(name, part, True) for name, part in inner])
    plain: dict[str, type[DataType]] = {
        "tinyint": T.ByteType,
        "smallint": T.ShortType,
        "int": T.IntegerType,
        "bigint": T.LongType,
    }
    plain |= {"double": T.DoubleType, "boolean": T.BooleanType, "string": T.StringType}
    plain |= {"timestamp": T.TimestampType, "date": T.DateType}
    return plain[kind.name]()


def _split(fields: str) -> list[str]:
    """Return the parts between the commas that are outside of brackets."""
    parts, depth = [""], 0
    for sign in fields:
        depth += (sign == "<") - (sign == ">")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return parts


def has_map(type_: ColumnType) -> bool:
    """Return True if a map occurs anywhere in the type: equal maps may come with their keys in another order."""
    return type_.name == "map" or (type_.parts != () and any(has_map(part) for _, part in type_.parts))
