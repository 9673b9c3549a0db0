"""What workers are not given of large tables, no round looks at."""

from evenkeel.cycle.loads import FORGOTTEN_THOUGH_REFUSED, forgets_history, looked_at
from evenkeel.cycle.reading import BUNDLE_COLUMNS
from evenkeel.lake.schemas import TABLES
from evenkeel.model.consideration import Rule
from evenkeel.plan_splits.rules import apply_splits, default_namespace_bundle_split_strategy
from tests.cycle.rows import bundle

RULES = {
    rule.name: rule
    for module in (apply_splits, default_namespace_bundle_split_strategy)
    for found in vars(module).values()
    for rule in (found.values() if isinstance(found, dict) else (found,))
    if isinstance(rule, Rule)
}


def test_whatever_forgets_a_history_is_looked_at() -> None:
    assert RULES.keys() >= FORGOTTEN_THOUGH_REFUSED
    for rule in RULES.values():
        row = {"outcome": rule.outcome, "rule": rule.name, "strategy": "BundleSplitterTask"}
        assert looked_at(row) or not forgets_history(row)
        assert looked_at(row) == (rule.outcome in ("split", "refused"))


def test_rounds_are_tested_on_bundles_of_these_columns_alone() -> None:
    assert bundle(0, "b1:8080").keys() <= {*BUNDLE_COLUMNS} <= {*TABLES["bundle_load"].column_names()}
