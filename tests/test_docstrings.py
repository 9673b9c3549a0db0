"""Every module and every public class, function and method of the package has a docstring that can be read alone."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import evenkeel

PACKAGE = Path(evenkeel.__file__).parent
LEANS_ON_OTHERS = re.compile(r"(The same|As|Those|What came of|Nobody)\b|…|\.\.\.")
"""Beginnings of a docstring that say what another one would have to say: name what comes back, or what is done."""
Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def public_definitions(tree: ast.Module) -> Iterator[tuple[str, Definition]]:
    """(qualified name, node) of the module, its public classes and functions, and the public members of these classes.

    Left out are private names (also what stands inside them), dunder methods and functions inside functions. The module
    itself has the name "".
    """
    yield "", tree
    yield from _members(tree, "")


def _members(parent: ast.Module | ast.ClassDef, prefix: str) -> Iterator[tuple[str, Definition]]:
    for node in parent.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            yield f"{prefix}{node.name}", node
            if isinstance(node, ast.ClassDef):
                yield from _members(node, f"{prefix}{node.name}.")


def test_every_public_definition_has_a_docstring() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert files
    missing = []
    for file in files:
        tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
        for name, node in public_definitions(tree):
            if not ast.get_docstring(node, clean=False):
                where = f"{file.relative_to(PACKAGE.parent)}:{getattr(node, 'lineno', 1)}"
                missing.append(f"{where} {name or 'the module'}")
    assert missing == []


def test_a_docstring_can_be_read_alone() -> None:
    leaning = []
    for file in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"), str(file))
        for name, node in public_definitions(tree):
            if LEANS_ON_OTHERS.match(ast.get_docstring(node) or ""):
                leaning.append(f"{file.relative_to(PACKAGE.parent)}:{getattr(node, 'lineno', 1)} {name}")
    assert leaning == []


def test_what_counts_as_public() -> None:
    tree = ast.parse(
        "class A:\n"
        "    def seen(self):\n"
        "        def inner(): ...\n"
        "    def _hidden(self): ...\n"
        "    def __len__(self): ...\n"
        "class _B:\n"
        "    def inside(self): ...\n"
        "async def also(): ...\n"
    )
    assert [name for name, _ in public_definitions(tree)] == ["", "A", "A.seen", "also"]
