"""Runs a suite with Great Expectations: over pandas where the rows are few, over Spark where they are many.

Over a few hundred rows its pandas engine takes a tenth of the time that its Spark engine does. Importing the library
takes seconds, so it happens only here, when a suite is run.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.util import LazyLoader, find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from evenkeel.validate.suites import Rule, Suite, SuiteError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame


# For its charts and its tests of distributions: a third of the time of importing it, and neither is used here.
# (Its SQL engine would be as much again, but sqlalchemy breaks when a part of it is imported before the whole.)
_UNUSED = ("altair", "scipy.stats")

# The second sets a level of its own, and notes a temporary folder for every context.
_TALKATIVE = ("great_expectations", "great_expectations.data_context.types.base")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What Great Expectations found for one rule."""

    rule: Rule
    passed: bool
    checked: int
    failed: int
    offenders: tuple[str, ...]


def run_suite(suite: Suite, rows: pa.Table | DataFrame) -> tuple[Verdict, ...]:
    """The verdict on each rule of the suite, in its order.

    `rows` are an Arrow table (checked by the pandas engine) or a Spark frame (checked by the Spark engine).
    """
    result = run_expectations(suite, rows)
    found = {each.expectation_config.meta["rule"]: each for each in result.results}
    return tuple(_verdict(rule, found[rule.name]) for rule in suite.rules)


def load_great_expectations() -> Any:
    """The package, imported when it is first needed (seconds), with its telemetry off."""
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    with put_off(*_UNUSED):
        import great_expectations

    return great_expectations


def run_expectations(suite: Suite, rows: pa.Table | DataFrame) -> Any:
    """The suite's result as Great Expectations gives it, in the form SUMMARY."""
    gx = load_great_expectations()
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.WARNING)
    # A context of its own for each run: a shared one gets slower with every suite that was added to it.
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    expectations = context.suites.add(gx.ExpectationSuite(name=suite.table, expectations=expectations_of(suite)))
    is_arrow = hasattr(rows, "to_pandas") and hasattr(rows, "column_names")
    source = context.data_sources.add_pandas("rows") if is_arrow else context.data_sources.add_spark("rows")
    batch = source.add_dataframe_asset(suite.table).add_batch_definition_whole_dataframe("all")
    definition = gx.ValidationDefinition(name=suite.table, data=batch, suite=expectations)
    frame = _to_pandas(rows) if is_arrow else rows
    return definition.run(batch_parameters={"dataframe": frame}, result_format="SUMMARY")


def expectations_of(suite: Suite) -> list[dict[str, Any]]:
    """The suite in Great Expectations' own form."""
    return [
        {
            "type": rule.definition["type"],
            "kwargs": dict(rule.definition["kwargs"]),
            "meta": {"rule": rule.name, "severity": rule.severity, "advice": rule.advice},
        }
        for rule in suite.rules
    ]


def _to_pandas(rows: pa.Table) -> Any:
    """As a pandas frame in which NULL stays apart from NaN: pandas has one sign for both, so NaN becomes infinite.

    Both break the same rules, since every rule on a figure has an upper bound.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    for n, column in enumerate(rows.schema):
        if pa.types.is_floating(column.type):
            marked = pc.if_else(pc.is_nan(rows[column.name]), float("inf"), rows[column.name])
            rows = rows.set_column(n, column.name, marked)
    return rows.to_pandas()


def _verdict(rule: Rule, each: Any) -> Verdict:
    raised = [info for info in _exceptions(each.exception_info) if info.get("raised_exception")]
    if raised:
        why = raised[0].get("exception_message") or "no message"
        raise SuiteError(
            f"rule {rule.name} on {rule.table} could not be checked: {why}; look at expectations/{rule.table}.json"
        )
    result: Mapping[str, Any] = each.result
    offenders = tuple(_text(value) for value in result.get("partial_unexpected_list", ()))
    return Verdict(
        rule, bool(each.success), int(result["element_count"]), int(result.get("unexpected_count", 0)), offenders
    )


def _exceptions(info: Any) -> list[Mapping[str, Any]]:
    if not info:
        return []
    return [info] if "raised_exception" in info else list(info.values())


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={each}" for name, each in sorted(value.items()))
    return str(value)


# Puts the import of a library off until something of it is used, for libraries that others import and never use.


class _Finder:
    """Finds the named modules as Python would, and gives them a loader that waits for the first use."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = set(names)

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in self._names:
            return None
        self._names.discard(name)  # asked below for the same name, the others must answer
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


@contextmanager
def put_off(*names: str) -> Iterator[None]:
    """While the block runs, importing one of these modules for the first time only notes where it is."""
    finder = _Finder([name for name in names if name not in sys.modules])
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
