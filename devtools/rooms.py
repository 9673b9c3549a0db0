"""The rooms of the package, their order from the lowest to the highest, and the table of them in the docs.

`python -m devtools.rooms` writes the table into `docs/explanation/architecture.md`. `tests/test_import_law.py` checks
that the package obeys this order and this purity, and that the page matches the package.
"""

from __future__ import annotations

import ast
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGE = CHECKOUT / "spark" / "evenkeel"
PAGE = CHECKOUT / "docs" / "explanation" / "architecture.md"
BEGIN, END = "<!-- rooms: written by `make docs` -->", "<!-- end of rooms -->"

LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "ending", "locks", "retrying", "aws_errors"),
    ("json_text", "secret", "times", "folders"),
    ("object_store",),
    ("handover", "spark", "pulsar"),
    ("settings",),
    ("model", "sources"),
    ("lake",),
    ("cycle", "steering", "transparency"),
    ("manual_requests", "maintenance", "validate"),
    ("planner", "ingest"),
    ("plan_splits", "place", "publish"),
    ("aggregate", "shed"),
    ("pipeline", "repetition"),
    ("verify",),
    ("explain",),
    ("status", "report"),
    ("metrics", "replay", "heat"),
    ("airflow",),
    ("doctor",),
    ("cli",),
)
"""Layers of rooms. A room imports from rooms of lower layers and from itself.

Two tasks are below the previous task of the pipeline, which uses their rule in a window: aggregate uses the split rule,
and shed the placement.
"""

PURE = (
    "model",
    "manual_requests/request.py",
    "manual_requests/split.py",
    "manual_requests/unload.py",
    "aggregate/broker_load.py",
    "aggregate/bundle_load.py",
    "planner/target_placement.py",
    "planner/figures.py",
    "planner/findings.py",
    "planner/target.py",
    "planner/reconciler.py",
    "planner/relief.py",
    "planner/memory.py",
    "planner/placement_search.py",
    "planner/plan.py",
    "planner/usage_model.py",
    "planner/verdicts.py",
    "planner/view.py",
    "planner/wanted_splits.py",
    "plan_splits/rules",
    "shed/bundle_selection.py",
    "shed/schedule.py",
    "shed/shedder.py",
    "shed/strategies",
    "place/strategy.py",
    "place/extensible_placement.py",
    "place/modular_placement.py",
    "place/strategies",
    "publish/guards",
    "heat/blocks.py",
    "heat/columns.py",
    "heat/key_ranges.py",
    "heat/scale.py",
    "heat/rows_shown.py",
)
"""Modules that decide: plain values in, plain values out; no Spark, Delta, Airflow or HTTP, no clock and no
randomness."""


def modules() -> list[Path]:
    """All modules of the package but its own `__init__`, by path."""
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def room_of(path: Path) -> str:
    """Return the room of a module: the first part of its path, e.g. `shed`."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def is_pure(path: Path) -> bool:
    """Return True if `PURE` names the module or a folder above it."""
    place = path.relative_to(PACKAGE).as_posix()
    return any(place == name or place.startswith(f"{name}/") for name in PURE)


def imported(source: str) -> set[str]:
    """Full names of everything that the source imports, inside functions and type-checking blocks too."""
    imports: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where a name comes from"
            imports |= {f"{node.module}.{alias.name}" for alias in node.names}
    return imports


def rooms_in(source: str) -> set[str]:
    """The rooms of the package that the source imports from."""
    names = {name.split(".")[1] for name in imported(source) if name.startswith("evenkeel.")}
    return names - {"__version__"}


def head_of(room: str) -> str:
    """Return the first line of the room's docstring: its content."""
    file = PACKAGE / f"{room}.py"
    text = (file if file.exists() else PACKAGE / room / "__init__.py").read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(text)) or ""
    return " ".join(docstring.partition("\n\n")[0].split())


def table() -> str:
    """Return the rooms as a table in Markdown, the highest first, with their content."""
    lines = ["|room|what it holds|", "|---|---|"]
    for layer in reversed(LAYERS):
        for room in layer:
            place = f"{room}.py" if (PACKAGE / f"{room}.py").exists() else f"{room}/"
            link = f"[`{place}`](../../spark/evenkeel/{place})"
            lines.append(f"|{link}|{head_of(room)}|")
    return "\n".join(lines)


def page_with_table(page: str) -> str:
    """The page with the table between its two marks written again."""
    before, _, remainder = page.partition(BEGIN)
    _, _, after = remainder.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page_with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
