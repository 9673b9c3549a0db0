"""Every module and every public class, function and method of the package has a docstring that can be read alone."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import evenkeel

PACKAGE = Path(evenkeel.__file__).parent
LEANS_ON_OTHERS = re.compile(r"(The same|As|Those|What came of|Nobody)\b|…|\.\.\.")
"""Beginnings of a docstring that lean on another one: name what comes back, or what is done."""
NOT_PLAIN = re.compile(r"(What|Whether|The same|Those|As|How|Who|Whose|Nobody|Whoever|While|When|Where|If)\b")
"""Beginnings of a first line that is neither an imperative verb nor a noun phrase."""
THIRD_PERSON = re.compile(
    r"(?!Has\b|Always\b|Less\b|Across\b|Axis\b)[A-Z][a-z]+s\b (?=(a|an|the|all|each|every|its|this|these|what|one)\b)"
)
"""Beginnings such as *Takes the lock*: a function's first line is an imperative."""
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


def definitions_with_docstrings() -> Iterator[tuple[str, Definition, str]]:
    """Yield place, node and docstring of every definition of the package, private ones too."""
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), str(file))):
            if isinstance(node, Definition) and (text := ast.get_docstring(node)):
                name = getattr(node, "name", "the module")
                yield f"{file.relative_to(PACKAGE.parent)}:{getattr(node, 'lineno', 1)} {name}", node, text


def test_a_docstring_begins_with_a_verb_or_a_noun() -> None:
    assert [place for place, _, text in definitions_with_docstrings() if NOT_PLAIN.match(text)] == []


def test_no_docstring_of_a_function_begins_in_the_third_person() -> None:
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    assert [
        place
        for place, node, text in definitions_with_docstrings()
        if isinstance(node, functions) and THIRD_PERSON.match(text)
    ] == []


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
