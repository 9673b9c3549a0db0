"""Dependencies point downwards only: dags → tasks → (sources, sinks, lake, decisions) → settings.

Read from the source text, so that imports inside functions and type-checking blocks count too. A package may import
from packages in layers below its own, and from itself.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGE = CHECKOUT / "spark" / "evenkeel"

LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"aws_errors", "errors", "locks", "retrying"}),
    frozenset({"settings", "engine", "pulsar", "handover", "times_given"}),
    frozenset({"decisions", "lake", "aggregation"}),
    frozenset({"sources", "sinks", "rounds", "checks"}),
    frozenset({"tasks", "agent", "keeping"}),
    frozenset({"audit", "on_airflow"}),
    frozenset({"replay"}),
    frozenset({"commands", "conformance", "demo", "reference"}),
    frozenset({"cli"}),
)
LAYER_OF = {name: number for number, layer in enumerate(LAYERS) for name in layer}

DECISIONS_MAY_IMPORT_OURS = {"settings", "errors", "decisions"}
DECISIONS_MAY_IMPORT = {
    "__future__",
    "bisect",
    "collections",
    "dataclasses",
    "datetime",
    "functools",
    "itertools",
    "math",
    "re",
    "struct",
    "typing",
    "zlib",
}
CLOCK = {"now", "utcnow", "today"}
HEAVY_IN_DAGS = {"pyspark", "great_expectations", "deltalake", "delta", "pandas", "altair"}
DAGS_MAY_IMPORT_OURS = {"tasks", "replay", "on_airflow", "lake", "keeping", "settings", "handover", "errors"}


def imported(source: str) -> set[str]:
    """Full names of everything the source imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where a name comes from"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def ours(source: str) -> set[str]:
    """First parts below `evenkeel` of what the source imports."""
    names = {name.split(".")[1] for name in imported(source) if name.startswith("evenkeel.")}
    return names - {"__version__"}


def package_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def wrong_imports(package: str, names: set[str]) -> list[str]:
    """Packages among `names` that are not below `package`."""
    own = LAYER_OF[package]
    return sorted(name for name in names - {package} if LAYER_OF.get(name, len(LAYERS)) >= own)


def offenders(paths: list[Path], faults_of: Callable[[Path], Iterator[str]]) -> list[str]:
    """What is wrong, one line per fault, with the file that it is in."""
    return [f"{path.relative_to(CHECKOUT)}: {fault}" for path in paths for fault in faults_of(path)]


def test_modules_import_only_from_layers_below() -> None:
    known = {package_of(path) for path in modules()}
    assert known == set(LAYER_OF), f"a package stands in no layer, or a layer's package is gone: {Path(__file__).name}"
    assert offenders(modules(), faults_of_layers) == []


def faults_of_layers(path: Path) -> Iterator[str]:
    """Packages that the module imports and that are not below its own."""
    for name in wrong_imports(package_of(path), ours(path.read_text(encoding="utf-8"))):
        yield f"imports {name}, which is not below {package_of(path)}"


def test_decisions_know_nothing_but_settings_and_plain_python() -> None:
    deciding = [path for path in modules() if package_of(path) == "decisions"]
    assert deciding
    assert offenders(deciding, faults_of_decisions) == []


def faults_of_decisions(path: Path) -> Iterator[str]:
    """Imports that a decision may not have, and readings of the clock."""
    source = path.read_text(encoding="utf-8")
    foreign = {name.split(".")[0] for name in imported(source)} - {"evenkeel"}
    for name in sorted((ours(source) - DECISIONS_MAY_IMPORT_OURS) | (foreign - DECISIONS_MAY_IMPORT)):
        yield f"imports {name}"
    for reading in clock_readings(source):
        yield f"reads the clock: {reading}"


def test_dag_files_are_wiring_only() -> None:
    files = sorted((CHECKOUT / "dags").glob("**/*.py"))
    assert files
    assert offenders(files, faults_of_dags) == []


def faults_of_dags(path: Path) -> Iterator[str]:
    """Packages of ours that a DAG file may not import, and heavy ones that it imports at module level."""
    source = path.read_text(encoding="utf-8")
    top = "\n".join(ast.unparse(n) for n in ast.parse(source).body if isinstance(n, ast.Import | ast.ImportFrom))
    heavy = {name.split(".")[0] for name in imported(top)} & HEAVY_IN_DAGS
    for name in sorted((ours(source) - DAGS_MAY_IMPORT_OURS) | heavy):
        yield f"imports {name}"


def clock_readings(source: str) -> Iterator[str]:
    """Calls that read the clock: `datetime.now()` and the like."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in CLOCK:
            yield ast.unparse(node)


def test_the_law_notices_what_it_forbids() -> None:
    assert wrong_imports("decisions", ours("from evenkeel.lake import schema")) == ["lake"]
    assert wrong_imports("settings", ours("def f():\n    import evenkeel.model.bundles")) == ["decisions"]
    assert wrong_imports("tasks", ours("from evenkeel import cli, settings")) == ["cli"]
    assert wrong_imports("tasks", ours("from evenkeel.unheard_of import x")) == ["unheard_of"]
    assert wrong_imports("tasks", ours("from evenkeel.ingest.task import run")) == []
    assert list(clock_readings("from datetime import datetime\nx = datetime.now()")) == ["datetime.now"]
