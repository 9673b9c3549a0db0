"""Dependencies point downwards only, in the order of `devtools.rooms.LAYERS`, and what decides is pure.

Read from the source text, so that imports inside functions and type-checking blocks count too.
"""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

from devtools.rooms import (
    CHECKOUT,
    LAYERS,
    PACKAGE,
    PAGE,
    PURE,
    imported,
    is_pure,
    modules,
    page_with_table,
    room_of,
    rooms_in,
)

DECIDING_ROOMS = {"settings", "errors", *(name.partition("/")[0] for name in PURE)}
PLAIN_PYTHON = {
    "abc",
    "__future__",
    "bisect",
    "collections",
    "copy",
    "dataclasses",
    "datetime",
    "decimal",
    "functools",
    "heapq",
    "itertools",
    "math",
    "operator",
    "re",
    "struct",
    "typing",
    "zlib",
}
_OF_HEAT = ("blocks", "columns", "key_ranges", "rows_shown", "scale")
_OF_PLACEMENTS = ("figures", "placement_search", "relief", "target_placement")
ARITHMETIC = {
    "model/exact_sums.py": {"numpy", "pyarrow"},
    **{f"planner/{name}.py": {"numpy"} for name in _OF_PLACEMENTS},
    **{f"heat/{name}.py": {"numpy"} for name in _OF_HEAT},
}
"""Beside plain Python, by module: libraries that add up many figures at once."""
LAYER_OF = {name: number for number, layer in enumerate(LAYERS) for name in layer}
CLOCK = {"now", "utcnow", "today"}
HEAVY_IN_DAGS = {"pyspark", "great_expectations", "deltalake", "delta", "pandas", "altair"}
DAGS_MAY_IMPORT_OURS = {"pipeline", "airflow", "replay", "heat", "lake", "maintenance", "settings"}


def wrong_imports(package: str, names: set[str]) -> list[str]:
    """Packages among `names` that are not below `package`."""
    own = LAYER_OF[package]
    return sorted(name for name in names - {package} if LAYER_OF.get(name, len(LAYERS)) >= own)


def offenders(paths: list[Path], faults_of: Callable[[Path], Iterator[str]]) -> list[str]:
    """What is wrong, one line per fault, with the file that it is in."""
    return [f"{path.relative_to(CHECKOUT)}: {fault}" for path in paths for fault in faults_of(path)]


def test_modules_import_only_from_layers_below() -> None:
    known = {room_of(path) for path in modules()}
    assert known == set(LAYER_OF), f"a package stands in no layer, or a layer's package is gone: {Path(__file__).name}"
    assert offenders(modules(), faults_of_layers) == []


def faults_of_layers(path: Path) -> Iterator[str]:
    """Packages that the module imports and that are not below its own."""
    for name in wrong_imports(room_of(path), rooms_in(path.read_text(encoding="utf-8"))):
        yield f"imports {name}, which is not below {room_of(path)}"


def test_what_decides_knows_nothing_but_settings_and_plain_python() -> None:
    deciding = [path for path in modules() if is_pure(path)]
    named = {name for name in PURE if any(path.relative_to(PACKAGE).as_posix().startswith(name) for path in deciding)}
    assert named == set(PURE)
    assert offenders(deciding, faults_of_decisions) == []


def faults_of_decisions(path: Path) -> Iterator[str]:
    """Imports that a decision may not have, and readings of the clock."""
    source = path.read_text(encoding="utf-8")
    foreign = {name.split(".")[0] for name in imported(source)} - {"evenkeel"}
    allowed = PLAIN_PYTHON | ARITHMETIC.get(path.relative_to(PACKAGE).as_posix(), set())
    for name in sorted((rooms_in(source) - DECIDING_ROOMS) | (foreign - allowed)):
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
    for name in sorted((rooms_in(source) - DAGS_MAY_IMPORT_OURS) | heavy):
        yield f"imports {name}"


def clock_readings(source: str) -> Iterator[str]:
    """Calls that read the clock: `datetime.now()` and the like."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in CLOCK:
            yield ast.unparse(node)


def test_the_page_shows_the_rooms_as_they_are() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page_with_table(page) == page, "the table of rooms is out of date: make docs"


def test_the_law_notices_what_it_forbids() -> None:
    assert wrong_imports("model", rooms_in("from evenkeel.lake import schema")) == ["lake"]
    assert wrong_imports("settings", rooms_in("def f():\n    import evenkeel.model.bundles")) == ["model"]
    assert wrong_imports("shed", rooms_in("from evenkeel import cli, settings")) == ["cli"]
    assert wrong_imports("place", rooms_in("from evenkeel.shed.round import decide")) == ["shed"]
    assert wrong_imports("shed", rooms_in("from evenkeel.unheard_of import x")) == ["unheard_of"]
    assert wrong_imports("shed", rooms_in("from evenkeel.shed.round import decide")) == []
    assert list(clock_readings("from datetime import datetime\nx = datetime.now()")) == ["datetime.now"]


def test_no_test_file_imports_another() -> None:
    files = sorted((CHECKOUT / "tests").rglob("test_*.py"))
    assert files
    assert offenders(files, faults_of_tests) == []


def faults_of_tests(path: Path) -> Iterator[str]:
    """Test files that the module imports from: what tests share stands in a file that is not named `test_*`."""
    for name in sorted(imported(path.read_text(encoding="utf-8"))):
        parts = name.split(".")
        if parts[0] == "tests" and any(part.startswith("test_") for part in parts[:-1]):
            yield f"imports {name}"


def test_a_class_name_stands_once() -> None:
    places: dict[str, list[str]] = {}
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(path.relative_to(PACKAGE).as_posix())
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
