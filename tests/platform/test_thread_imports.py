"""Python's import is left as it is, and no thread of ours imports a package first.

Two threads that import one package at the same time may each find the half that the other has got to.
"""

import ast
from collections.abc import Mapping
from pathlib import Path

import pytest

from devtools.rooms import CHECKOUT
from tests.platform.thread_calls import Sources, body_of

FOLDERS = {
    CHECKOUT / "spark" / "evenkeel": CHECKOUT / "spark",
    CHECKOUT / "plugins": CHECKOUT / "plugins",
    **{CHECKOUT / name: CHECKOUT for name in ("dags", "devtools", "tools")},
}
HOOKS = {"meta_path", "path_hooks", "__import__", "LazyLoader"}
WITH_A_SESSION = {"pyspark", "pandas", "pyarrow", "numpy", "grpc"}
"""Whoever is given a session of Spark or a frame has these."""
OF_THE_HOST = {"airflow", "sqlalchemy"}
"""Airflow's processes load these before any code of ours."""


def faults(folders: Mapping[Path, Path]) -> list[str]:
    """Every start of a thread that may import a package which the function that starts it has not: file, line, package
    and the function with the import."""
    sources, found = Sources(folders), []
    for call, function, run in sources.starts():
        earlier = [node for node in body_of(function.node) if getattr(node, "lineno", call.lineno) < call.lineno]
        before = {one for each in sources.reached(sources.called(earlier, function)) for one in each.imports}
        known = sources.packages(before.union(*(around.imports for around in function.within()))) | OF_THE_HOST
        given = [
            ast.unparse(one.annotation)
            for one in ast.walk(function.node)
            if isinstance(one, ast.arg) and one.annotation
        ]
        if any("SparkSession" in text or "DataFrame" in text for text in given):
            known |= WITH_A_SESSION
        found += [
            f"{function.module.name}:{call.lineno}: {package}, in {one.module.name}.{one.name}"
            for one in sources.reached(run)
            for package in sources.packages(one.imports) - known
        ]
    return sorted(found)


def test_no_thread_imports_a_package_that_was_not_imported_before_it_started() -> None:
    assert faults(FOLDERS) == []


STARTS = """
from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import helper

class Watch:
    def start(self):
        {before}
        Thread(target=self._run).start()

    def _run(self):
        helper.work()

def many(names):
    {before}
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda name: helper.work(), names))
"""


@pytest.mark.parametrize(
    ("before", "packages"),
    [("pass", ["later", "later"]), ("import later", []), ("helper.load()", []), ("import other", ["later", "later"])],
)
def test_an_import_that_a_thread_comes_to_is_found(tmp_path: Path, before: str, packages: list[str]) -> None:
    (tmp_path / "helper.py").write_text("def work():\n    import later.part\n\ndef load():\n    import later\n")
    (tmp_path / "starts.py").write_text(STARTS.format(before=before))
    assert [fault.split()[1].strip(",") for fault in faults({tmp_path: tmp_path})] == packages


def test_nothing_of_ours_changes_how_python_imports() -> None:
    hooks = [
        f"{path.relative_to(CHECKOUT)}:{node.lineno}"
        for folder in FOLDERS
        for path in folder.rglob("*.py")
        for text in [path.read_text(encoding="utf-8")]
        for node in (ast.walk(ast.parse(text)) if any(hook in text for hook in HOOKS) else ())
        if (isinstance(node, ast.Attribute) and node.attr in HOOKS)
        or (isinstance(node, ast.Name) and node.id in HOOKS)
        or (isinstance(node, ast.ImportFrom) and {alias.name for alias in node.names} & HOOKS)
    ]
    assert hooks == []
