from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

import evenkeel
from evenkeel.cycle.reading import cycle_row
from evenkeel.settings import resolve
from evenkeel.spark import code
from evenkeel.spark.code import (
    DECIDING,
    ENGINE,
    IN_WORKERS,
    closure,
    code_digest,
    code_digest_of,
    code_version,
    definition_of,
    differing_parts,
    engine_digest,
    imports_of,
    minor_version,
    package_files,
    runtime_of,
    source_root,
    sources,
    suites_folder,
    workers_files,
)
from evenkeel.spark.session import package_zip
from tests.cycle.whole_cycles import EAGER, VARIANTS, cycles

pytestmark = pytest.mark.slow

ROUND = "evenkeel.shed.round"
DIGESTS = f"""
import json
from evenkeel.spark import code
print(json.dumps({{
    "code": code.code_digest(),
    "engine": code.engine_digest(),
    "workers": code.workers_digest(),
    "round": code.runtime_of({ROUND!r}).digest,
    "package": code.runtime_digest(code.package_files()),
}}))
"""
# What shows, sends, fetches or starts decides nothing.
OUTSIDE = (
    "evenkeel.report.charts",
    "evenkeel.explain.rendering",
    "evenkeel.verify.check",
    "evenkeel.cli.reports",
    "evenkeel.cli.verify",
    "evenkeel.spark.server",
    "evenkeel.airflow.steps",
    "evenkeel.pulsar.admin.client",
    "evenkeel.steering.command_executor",
    "evenkeel.sources.recordings",
)
DECIDES = (
    "evenkeel.aggregate.topic_sums",
    "evenkeel.validate.judging",
    "evenkeel.publish.guards.budgets",
    "evenkeel.model.filters.broker_filters",
    "evenkeel.shed.strategies.threshold_shedder",
    "evenkeel.plan_splits.rules.bundle_splitter_task",
    "evenkeel.publish.plan",
    "evenkeel.settings.keys.balancing",
)
WHOLE_CYCLES = """
import json, sys
from evenkeel import repetition
tables = {}
for rows, cycle in json.load(sys.stdin):
    made = repetition.decide(rows, cycle, [])
    for table, found in made.rows.items():
        tables[table] = tables.get(table, 0) + len(found)
    recorded = {repetition.recorded(table): made.rows[table] for table in repetition.OUTPUTS}
    remembered = {"cycle": [cycle], "state": [], "topic_hashes": []}
    repetition.decide_as_recorded({"cluster": "lab"}, {**rows, **remembered, **recorded})
print(json.dumps([tables, [name for name in sys.modules if name.split(".")[0] == "evenkeel"]]))
"""
STALE = f"""
import sys
from pathlib import Path
from evenkeel.spark import worker
from evenkeel.spark.code import runtime_of
from evenkeel.errors import StaleCode
runtime = runtime_of({ROUND!r})
for name in sys.argv[1:]:
    path = Path(name)
    path.write_text(path.read_text() + "\\n")
    try:
        worker.demand_code(runtime.digest, runtime.files)
        print("same")
    except StaleCode:
        print("stale")
"""


class Copy:
    """A copy of the checkout's package and suites, to be edited."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, file in sources():
            path = folder / "spark" / "evenkeel" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.read_bytes())
        (folder / "expectations").mkdir()
        for suite in suites_folder().glob("*.json"):
            (folder / "expectations" / suite.name).write_bytes(suite.read_bytes())

    def path(self, module: str) -> Path:
        return self.folder / "spark" / path_of(module, prefix="evenkeel/")

    def edit(self, module: str) -> None:
        path = self.path(module)
        path.write_text(path.read_text() + "\n")

    def digests(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(printed_in(self.folder / "spark", DIGESTS))
        return found


def path_of(module: str, prefix: str = "") -> str:
    return f"{prefix}{module.removeprefix('evenkeel.').replace('.', '/')}.py"


def printed_in(python_path: Path, script: str, *arguments: str, **environment: str) -> str:
    answer = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env={"PYTHONPATH": str(python_path), **environment}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return answer.stdout


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before if before[name] != after[name]}


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


def test_digests_are_those_of_the_files_wherever_they_lie(copy: Copy, tmp_path: Path) -> None:
    archive = package_zip(tmp_path)
    suites = {code.SUITES_VARIABLE: str(suites_folder())}
    from_zip = json.loads(printed_in(archive, DIGESTS, **suites))
    assert copy.digests() == from_zip
    assert from_zip["code"] == code_digest_of(package_files())
    assert from_zip["round"] == runtime_of(ROUND).digest


def test_what_shows_and_explains_changes_neither_the_code_digest_nor_the_engines(copy: Copy) -> None:
    before = copy.digests()
    copy.edit("evenkeel.report.charts")
    copy.edit("evenkeel.cli.reports")
    copy.path("evenkeel.report.legends").write_text("A = 1\n")
    assert changed(before, copy.digests()) == {"package"}


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("evenkeel.shed.strategies.threshold_shedder", {"code", "workers", "round", "package"}),
        ("evenkeel.aggregate.topic_sums", {"code", "workers", "package"}),
        ("evenkeel.replay.fold", {"workers", "package"}),
        ("evenkeel.spark.supervisor", {"engine", "package"}),
    ],
)
def test_a_change_counts_for_what_it_concerns(copy: Copy, module: str, names: set[str]) -> None:
    before = copy.digests()
    copy.edit(module)
    assert changed(before, copy.digests()) == names


def test_a_changed_suite_counts_as_changed_code(copy: Copy) -> None:
    before = copy.digests()
    suite = copy.folder / "expectations" / "topic_stats.json"
    suite.write_text(suite.read_text() + "\n")
    assert changed(before, copy.digests()) == {"code"}


def test_another_minor_version_of_python_or_pyspark_counts_as_changed_code(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = [code_digest_of(package_files())]
    for name, version, counts in (
        ("platform.python_version", lambda: "3.99.1", True),
        ("platform.python_version", lambda: f"{sys.version_info[0]}.{sys.version_info[1]}.99", False),
        ("pyspark.__version__", "5.1.3", True),
        ("pyspark.__version__", f"{minor_version(pyspark.__version__)}.99", False),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(name, version)
            engine, code = engine_digest.__wrapped__(), code_digest_of(package_files())
        assert (code != seen[0]) == counts
        assert engine != engine_digest.__wrapped__(), "a server goes on with the very jars that it started with only"
        seen.append(code)
    assert len({*seen}) == 3
    assert code_digest_of(package_files()) == seen[0]


def test_pyspark_has_the_same_version_before_and_after_it_is_imported() -> None:
    script = (
        "import sys\nfrom evenkeel.spark.code import versions\nbefore = versions()\n"
        "assert 'pyspark' not in sys.modules\nimport pyspark\nprint(versions() == before)\n"
    )
    assert printed_in(source_root(), script) == "True\n"


def test_what_python_leaves_behind_does_not_count(copy: Copy) -> None:
    before = copy.digests()
    package = copy.folder / "spark" / "evenkeel"
    (package / "__pycache__").mkdir(exist_ok=True)
    (package / "__pycache__" / "stray.py").write_text("")
    (package / "notes.txt").write_text("")
    assert copy.digests() == before


def test_the_digest_names_its_definition_and_stays_for_the_process() -> None:
    assert re.fullmatch(r"d3:\d\.\d+/\d\.\d+:[0-9a-f]{64}", code_digest())
    assert code_digest() is code_digest()
    assert definition_of(code_digest()) == "d3"
    assert definition_of("c0de" * 16) == definition_of(None) == ""


def test_what_differs_from_a_recorded_digest_is_named() -> None:
    _, versions, code = code_digest().split(":")
    python, pyspark = versions.split("/")
    assert differing_parts(code_digest()) == ""
    assert differing_parts(f"d3:3.99/{pyspark}:{code}") == f"Python 3.99 in place of {python}"
    assert differing_parts(f"d3:3.99/3.5:{'0' * 64}") == (
        f"Python 3.99 in place of {python}, pyspark 3.5 in place of {pyspark}, other deciding code"
    )
    assert {differing_parts(other) for other in ("d2:4f0c", "4f0c", "", None, "d3:3.11:4f0c")} == {
        "other definition of the code digest"
    }


def test_imports_are_those_that_the_whole_syntax_tree_shows() -> None:
    def imported(source: bytes) -> set[str]:
        found: set[str] = set()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
        return {name for name in found if name.split(".")[0] == "evenkeel"}

    assert {p: s for p, s in package_files().items() if imports_of(s) != imported(s)} == {}


def test_the_closure_holds_what_decides_and_nothing_that_shows_or_sends() -> None:
    files = package_files()
    found = closure(files, DECIDING)
    assert {path_of(name) for name in {*DECIDING, *IN_WORKERS, *ENGINE, *OUTSIDE}} <= files.keys()
    assert {path_of(name) for name in DECIDES} <= {*found}
    assert not {path_of(name) for name in OUTSIDE} & {*found}


def test_modules_inside_functions_and_for_types_belong_to_the_closure() -> None:
    files = {
        "__init__.py": b"",
        "a/__init__.py": b"",
        "a/top.py": b"if TYPE_CHECKING:\n    from evenkeel.b import (\n        typed,\n    )\n",
        "a/other.py": b"",
        "b/__init__.py": b"from evenkeel.c import one\n",
        "b/typed.py": b"def f():\n    import evenkeel.d\n",
        "c.py": b"",
        "d.py": b"",
    }
    assert closure(files, ["evenkeel.a.top"]) == sorted(files.keys() - {"a/other.py"})


def test_only_a_grouped_map_imports_by_a_string() -> None:
    files = package_files()
    by_string = {p for p in closure(files, IN_WORKERS) if re.search(rb"import_module\(|__import__\(", files[p])}
    assert by_string == {path_of("evenkeel.spark.worker")}


def test_deciding_whole_cycles_imports_nothing_outside_the_closure() -> None:
    """Every shedder, both managers: an import closure misses what is imported by a string."""
    given: list[Any] = []
    for shedder, overrides in VARIANTS.items():
        settings = resolve(observed=None, overrides={**EAGER, "loadBalancerLoadSheddingStrategy": shedder, **overrides})
        text, digest, manager = settings.to_json(), settings.digest, settings.settings.manager
        for at, rows in cycles(settings, 1):
            given.append([rows, cycle_row("lab", at, text, digest, manager=manager)])
    answer = subprocess.run(
        [sys.executable, "-c", WHOLE_CYCLES], input=json.dumps(given), capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(source_root())},
    )  # fmt: skip
    tables, modules = json.loads(answer.stdout)
    assert min(tables[name] for name in ("split_decisions", "unload_decisions", "placement_decisions", "commands")) > 0
    known = {*closure(package_files(), DECIDING)}
    assert {"evenkeel.shed.round", "evenkeel.repetition"} <= {*modules}
    modules.remove("evenkeel")
    assert [name for name in modules if not {path_of(name), path_of(f"{name}.__init__")} & known] == []


def test_a_worker_refuses_what_has_changed_on_disk_and_concerns_it(copy: Copy) -> None:
    names = ("evenkeel.report.charts", "evenkeel.aggregate.topic_sums", "evenkeel.cycle.reading")
    paths = [str(copy.path(name)) for name in names]
    assert printed_in(copy.folder / "spark", STALE, *paths).split() == ["same", "same", "stale"]


def test_equal_code_is_shipped_as_equal_bytes(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    assert package_zip(tmp_path / "one").read_bytes() == package_zip(tmp_path / "two").read_bytes()


def test_what_workers_are_sent_holds_all_that_they_are_asked_for_and_nothing_that_shows(tmp_path: Path) -> None:
    archive = package_zip(tmp_path, workers_files())
    script = f"from importlib import import_module\nfor name in {IN_WORKERS!r}: print(import_module(name).__file__)\n"
    assert printed_in(archive, script).split() == [f"{archive}/evenkeel/{path_of(name)}" for name in IN_WORKERS]
    assert not {path_of(name) for name in OUTSIDE} & {*workers_files()}
    assert archive.stat().st_size < package_zip(tmp_path).stat().st_size / 2


def test_the_version_starts_with_the_packages_own() -> None:
    assert code_version().startswith(evenkeel.__version__)
    assert json.dumps(code_version())
    assert (source_root() / "evenkeel" / "__init__.py").is_file()
