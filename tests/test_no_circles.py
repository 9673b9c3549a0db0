"""No module of the package imports, by whatever way round, a module that imports it.

Read from the source text. An import inside a function counts as much as one at the top. Imports under `TYPE_CHECKING`
are never executed: circles that exist only with them are reported apart.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent / "spark" / "evenkeel"
Graph = dict[str, set[str]]


def sources_below(package: Path) -> dict[str, str]:
    """Module name -> source text, of all modules of a package."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = (package.name, *path.relative_to(package).with_suffix("").parts)
        found[".".join(parts).removesuffix(".__init__")] = path.read_text(encoding="utf-8")
    return found


@cache
def tree_of(source: str) -> ast.Module:
    return ast.parse(source)


def imported(node: ast.AST, *, with_types: bool) -> Iterator[str]:
    """Full names of what is imported below a node; `with_types`: also under `if TYPE_CHECKING`."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        assert node.level == 0, "relative imports hide where a name comes from"
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    children = ast.iter_child_nodes(node)
    if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
        children = iter([*(node.body if with_types else ()), *node.orelse])
    for child in children:
        if isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):  # nothing else can hold a statement
            yield from imported(child, with_types=with_types)


def graph_of(sources: Mapping[str, str], *, with_types: bool = False) -> Graph:
    """Module -> the modules that it names in its imports; `from package import name` means the module, if it is one.

    That a module's parent packages are imported with it is left out: a package's `__init__` may gather its modules.
    """
    graph: Graph = {}
    for module, source in sources.items():
        names = imported(tree_of(source), with_types=with_types)
        modules = {name if name in sources else name.rpartition(".")[0] for name in names}
        graph[module] = (modules & sources.keys()) - {module}
    return graph


def circles(graph: Graph) -> list[list[str]]:
    """Circles of modules, each from a module back to itself; a module stands in one of them at most."""
    left, found = {module: set(names) for module, names in graph.items()}, []
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            circle = list(reversed(error.args[1]))
            found.append(circle)
            left = {module: names - set(circle) for module, names in left.items() if module not in circle}
        else:
            return found


def in_words(found: list[list[str]]) -> str:
    return "\n".join(" -> ".join(circle) for circle in found)


def test_no_module_imports_itself_through_others() -> None:
    sources = sources_below(PACKAGE)
    assert len(sources) > 100
    at_run_time = circles(graph_of(sources))
    assert not at_run_time, f"circles of imports:\n{in_words(at_run_time)}"
    with_types = circles(graph_of(sources, with_types=True))
    assert not with_types, f"circles through imports under TYPE_CHECKING (none at run time):\n{in_words(with_types)}"


def test_circles_are_found_wherever_their_imports_stand() -> None:
    three = {
        "p.a": "from p import b",
        "p.b": "def f():\n    import p.sub.c",
        "p.sub.c": "try:\n    from p.a import name\nexcept ImportError:\n    pass",
        "p.d": "import p.a",
    }
    (circle,) = circles(graph_of(three))
    assert circle[0] == circle[-1]
    assert set(circle) == {"p.a", "p.b", "p.sub.c"}
    assert set(pairwise(circle)) == {("p.a", "p.b"), ("p.b", "p.sub.c"), ("p.sub.c", "p.a")}


def test_circles_that_share_no_module_are_all_found() -> None:
    two = {"p.a": "import p.b", "p.b": "import p.a", "p.c": "import p.d, p.a", "p.d": "from p.c import x"}
    assert sorted(map(set, circles(graph_of(two))), key=min) == [{"p.a", "p.b"}, {"p.c", "p.d"}]


def test_imports_for_type_checkers_make_no_circle_at_run_time() -> None:
    typed = {"p.a": "import p.b", "p.b": "if TYPE_CHECKING:\n    from p.a import A\nelse:\n    A = object"}
    assert circles(graph_of(typed)) == []
    assert len(circles(graph_of(typed, with_types=True))) == 1
    real = {"p.a": "import p.b", "p.b": "if TYPE_CHECKING:\n    A = object\nelse:\n    from p.a import A"}
    assert len(circles(graph_of(real))) == 1
