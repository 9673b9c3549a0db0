"""Our own filters for what an expectation calls unexpected, as Spark expressions.

Great Expectations says how many rows break a rule; these say which, so that they can be set aside. Both agree on the
counts. As there, NULL breaks no rule but `not_be_null`. NaN is above every number and so breaks every upper bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from evenkeel.lake.rejected_records import place, record_key
from evenkeel.lake.schemas import TABLES
from evenkeel.validate.suites import FILTERED, REJECT, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import Column, DataFrame


def is_broken(rule: Rule) -> Column:
    """Whether a row breaks the rule; never NULL. The rule's type must be one of `suites.FILTERED`."""
    kwargs: Mapping[str, Any] = rule.definition["kwargs"]
    column = F.col(kwargs["column"])
    if rule.definition["type"] == "expect_column_values_to_not_be_null":
        return column.isNull()
    if rule.definition["type"] == "expect_column_values_to_be_in_set":
        holds = column.isin(kwargs["value_set"])
    elif rule.definition["type"] == "expect_column_values_to_match_regex":
        holds = column.rlike(kwargs["regex"])
    else:
        holds = F.lit(True)
        if kwargs.get("min_value") is not None:
            holds = holds & (column >= F.lit(kwargs["min_value"]))
        if kwargs.get("max_value") is not None:
            holds = holds & (column <= F.lit(kwargs["max_value"]))
    return ~F.coalesce(holds, F.lit(True))


def filtered(rules: Iterable[Rule]) -> list[Rule]:
    """The rules whose offenders can be found row by row."""
    return [rule for rule in rules if rule.definition["type"] in FILTERED]


def broken_rules(rules: Iterable[Rule]) -> Column:
    """The names of the rules that a row breaks, as an array."""
    names = [F.when(is_broken(rule), F.lit(rule.name)) for rule in filtered(rules)]
    return F.array_compact(F.array(*names)) if names else F.array().cast("array<string>")


def rejected_rows(rows: DataFrame, table: str, broken: Column, reasons: Mapping[str, str], files: Column) -> DataFrame:
    """Rows of `rejected` for the records of which `broken` (an array of rule names) names a rule of `reasons`."""
    wanted = F.array_intersect(broken, F.array(*[F.lit(name) for name in reasons]))
    said = F.lit(None).cast("string")
    for name, reason in reasons.items():
        said = F.when(F.col("rule") == name, F.lit(reason)).otherwise(said)
    marked = rows.select(
        "cluster",
        "cycle_at",
        F.lit(table).alias("rejected_from"),
        files.alias("file"),
        place(TABLES[table]).alias("place"),
        F.to_json(F.struct(*[column.name for column in TABLES[table].body_columns()])).alias("record"),
        record_key(TABLES[table]).alias("record_key"),
        F.explode(wanted).alias("rule"),
    )
    return marked.withColumn("reason", F.concat(F.col("place"), F.lit(": "), said))


def rejecting(rules: Iterable[Rule]) -> list[Rule]:
    """The rules that set records aside."""
    return [rule for rule in rules if rule.severity == REJECT]
