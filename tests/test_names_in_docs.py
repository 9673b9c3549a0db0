"""Names of ours in backticks exist: in the pages and in docstrings.

A name counts as ours by its shape and by what exists: a path that begins with a folder or a room of ours, a file of
Python or Java, or a dotted name that begins with a package, a room, a module or a class of ours. Other words in
backticks (keys and classes of Pulsar, columns, settings, other packages, words of a shell) are not looked up.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from sysconfig import get_path

import pytest

from devtools.rooms import CHECKOUT, LAYERS
from evenkeel.lake.schemas import EVERY_TABLE
from evenkeel.settings.configuration_file import Configuration

CODE = ("spark", "dags", "plugins", "devtools", "benchmarks", "tools")
FOLDERS = (*CODE, "demo", "docker", "docs", "expectations", "tests")
OUR_PACKAGES = {"evenkeel", *FOLDERS} - {"spark"}
ROOMS = {room for layer in LAYERS for room in layer}
INSTALLED = {path.name.split(".")[0] for path in Path(get_path("purelib")).iterdir()}
FOREIGN = {*sys.stdlib_module_names, *INSTALLED} - OUR_PACKAGES
ENTRIES = {*Configuration.model_fields}
"""First parts of entries of the configuration file, as in `clusters.east.silent_seconds`."""
SYSTEM_NAMESPACE = "pulsar/system"
"""Of Pulsar's own tenant, whose name is that of a room."""
BACKTICKS = re.compile(r"`([^`\n]+)`")
FENCED = re.compile(r"^( *)```.*?^\1```", re.M | re.S)
PATH = re.compile(r"\w[\w.-]*(?:/[\w.-]+)*/?")
DOTTED = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+)(?:\(.*\))?")
SEVERAL_WORDS = re.compile(r"_*[a-z][a-z0-9]*(?:_[a-z0-9]+)+")
NO_LONGER_HOLDS = re.compile(r"^\*\*Status\.\*\* (?:Superseded|No longer holds)", re.M)


@dataclass
class Names:
    """The names that a module or a class defines.

    `members`: each name with what a class defines below it, None for other things. `bases`: of a class, the last parts
    of their names. `imports`: of a module, each name that it imports with its full name.
    """

    members: dict[str, Names | None] = field(default_factory=dict)
    bases: list[str] = field(default_factory=list)
    imports: dict[str, str] = field(default_factory=dict)

    def has(self, parts: list[str]) -> bool:
        """Return True if the parts of a dotted name lead to something, as far as the text shows."""
        if not parts:
            return True
        if parts[0] in self.members:
            below = self.members[parts[0]]
            return below is None or below.has(parts[1:])
        return any(base not in classes() or any(known.has(parts) for known in classes()[base]) for base in self.bases)


def names_in(body: list[ast.stmt]) -> Names:
    """Return what the statements define: functions, classes, variables, imports, and attributes of `self`."""
    names = Names()
    for node in body:
        if isinstance(node, ast.ClassDef):
            inside = names_in(node.body)
            inside.bases = [ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases]
            names.members[node.name] = inside
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names.members[node.name] = None
        for inner in ast.walk(node):
            if isinstance(inner, ast.ImportFrom):
                names.imports |= {each.asname or each.name: f"{inner.module}.{each.name}" for each in inner.names}
            elif isinstance(inner, ast.Attribute) and isinstance(inner.value, ast.Name) and inner.value.id == "self":
                names.members.setdefault(inner.attr, None)
            elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store) and not is_function(node):
                names.members.setdefault(inner.id, None)
    names.members |= {name: None for name in names.imports if name not in names.members}
    return names


def is_function(node: ast.AST) -> bool:
    """Return True for the definition of a function, whose variables no dotted name reaches."""
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


@cache
def files() -> tuple[str, ...]:
    """Return the paths of all files and folders of the project, from its root."""
    below = [path for name in FOLDERS for path in (CHECKOUT / name, *(CHECKOUT / name).rglob("*"))]
    below += [path for path in CHECKOUT.iterdir() if path.is_file()]
    return tuple(sorted(path.relative_to(CHECKOUT).as_posix() for path in below if "__pycache__" not in path.parts))


@cache
def trees() -> dict[str, ast.Module]:
    """Return the syntax trees of all modules but tests, by path."""
    paths = [path for path in files() if path.endswith(".py") and path.split("/")[0] in CODE]
    return {path: ast.parse((CHECKOUT / path).read_text(encoding="utf-8")) for path in paths}


@cache
def paths_by_ending() -> frozenset[str]:
    """Return each path and each of its ends: `task.py`, `shed/task.py` and so on."""
    return frozenset("/".join(path.split("/")[n:]) for path in files() for n in range(path.count("/") + 1))


@cache
def modules() -> dict[str, Names]:
    """Return what each module defines, by its path."""
    return {path: names_in(tree.body) for path, tree in trees().items()}


@cache
def modules_by_ending() -> dict[str, list[Names]]:
    """Return the modules that a dotted name may mean: `fold`, `cycle.fold` and `evenkeel.cycle.fold` are one."""
    found = defaultdict(list)
    for path, names in modules().items():
        parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
        for n in range(len(parts)):
            found[".".join(parts[n:])].append(names)
    return found


@cache
def classes() -> dict[str, list[Names]]:
    """Return all classes of the project, by name."""
    found = defaultdict(list)
    for module in modules().values():
        for name, members in module.members.items():
            if members is not None:
                found[name].append(members)
    return found


@cache
def words_of_code() -> frozenset[str]:
    """Return all words of the code (without docstrings and comments), of tests, and of names of files and folders."""
    words = {word for path in files() for word in re.findall(r"\w+", path)}
    for path in files():
        if path.startswith("tests/") and path.endswith(".py") and (CHECKOUT / path) != Path(__file__):
            words |= set(re.findall(r"\w+", (CHECKOUT / path).read_text(encoding="utf-8")))
    for tree in trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                words.add(node.id)
            elif isinstance(node, ast.Attribute):
                words.add(node.attr)
            elif isinstance(node, ast.arg | ast.keyword):
                words.add(node.arg or "")
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                words.add(node.name)
            elif isinstance(node, ast.alias):
                words |= {*node.name.split("."), node.asname or ""}
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not is_sentence(node.value):
                words |= set(re.findall(r"\w+", node.value))
    return frozenset(words)


def is_sentence(text: str) -> bool:
    """Return True for a text with names in backticks, as a docstring has it."""
    return "`" in text


def is_ours(name: str, module: Names | None = None) -> bool | None:
    """Return True if the name exists, False if it is one of ours and does not exist, None if it is not one of ours.

    `module`: the module in whose docstring the name stands; its imports have names there too.
    """
    if PATH.fullmatch(name) and ("/" in name or name.endswith((".py", ".java"))):
        return is_our_path(name)
    if match := DOTTED.fullmatch(name):
        first, _, rest = match.group(1).partition(".")
        imported = module.imports.get(first, first) if module else first
        return is_our_dotted_name(f"{imported}.{rest}".split("."))
    if module is not None and SEVERAL_WORDS.fullmatch(name):
        return name in words_of_code()
    return None


def is_our_path(name: str) -> bool | None:
    """Return what `is_ours` does, for a path."""
    if name.rstrip("/") in paths_by_ending():
        return True
    first, below, _ = name.partition("/")
    if name == SYSTEM_NAMESPACE or first in FOREIGN:
        return None
    return False if not below or name.endswith(".py") or first in {*FOLDERS, *ROOMS} else None


def is_our_dotted_name(parts: list[str]) -> bool | None:
    """Return what `is_ours` does, for the parts of a dotted name."""
    for length in range(len(parts), 0, -1):
        known = modules_by_ending().get(".".join(parts[:length]), [])
        if any(module.has(parts[length:]) for module in known):
            return True
    if any(known.has(parts[1:]) for known in classes().get(parts[0], [])) or is_known_file("/".join(parts)):
        return True
    if parts[0] in OUR_PACKAGES:
        return None if is_file_name(parts) else False
    if parts[0] in FOREIGN or parts[0] in {*EVERY_TABLE, *ENTRIES} or is_file_name(parts) or is_elsewhere(parts):
        return None
    return False if parts[0] in {*ROOMS, *modules_by_ending(), *classes()} else None


def is_known_file(path: str) -> bool:
    """Return True for a folder or a module of the project, also of its tests."""
    return path in paths_by_ending() or f"{path}.py" in paths_by_ending()


def is_file_name(parts: list[str]) -> bool:
    """Return True if the last part ends the names of files: `engine.json`, `evenkeel.toml`, `server.log`."""
    return parts[-1] in suffixes()


@cache
def suffixes() -> frozenset[str]:
    """Return the last parts of the names of files, `py` left out."""
    return frozenset({"log", *(path.rpartition(".")[2] for path in files())} - {"py"})


def is_elsewhere(parts: list[str]) -> bool:
    """Return True for Java's classes and Pulsar's tests, keys of Spark, hosts of examples, and DAGs: `upkeep.north`."""
    is_dag = len(parts) == 2 and f"dags/{parts[0]}.py" in paths_by_ending()
    return parts[0] in ("java", "spark") or parts[-1] == "example" or parts[-1].endswith("Test") or is_dag


def names_of_pages() -> Iterator[tuple[str, str]]:
    """Yield each page with each of its names in backticks.

    A decision that no longer holds keeps the names of its time. A file that a page makes, in its own blocks of code, is
    the reader's.
    """
    pages = (CHECKOUT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docker/README.md"))
    folders = (
        page
        for name in ("docs", "adr", "benchmarks", "devtools", "tests")
        for page in sorted((CHECKOUT / name).rglob("*.md"))
    )
    for page in (*pages, *folders):
        text = page.read_text(encoding="utf-8")
        blocks = " ".join(match.group() for match in FENCED.finditer(text))
        if not NO_LONGER_HOLDS.search(text):
            for name in BACKTICKS.findall(FENCED.sub("", text)):
                if not is_made_in(blocks, name):
                    yield page.relative_to(CHECKOUT).as_posix(), name


def is_made_in(blocks: str, name: str) -> bool:
    """Return True if the blocks of a page have the module that the file name stands for."""
    return (
        name.endswith(".py")
        and re.search(rf"\b{re.escape(name.removesuffix('.py').removeprefix('test_'))}\b", blocks) is not None
    )


def names_of_docstrings() -> Iterator[tuple[str, str]]:
    """Yield each module with each name in backticks of its docstrings, those below a variable included."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                for name in BACKTICKS.findall(str(node.value.value)):
                    yield path, name


def test_names_in_pages_exist() -> None:
    looked_up = {(page, name): is_ours(name) for page, name in names_of_pages()}
    assert [f"{page}: {name}" for (page, name), known in looked_up.items() if known is False] == []
    assert sum(known is True for known in looked_up.values()) > 150


def test_names_in_docstrings_exist() -> None:
    looked_up = {(path, name): is_ours(name, modules()[path]) for path, name in names_of_docstrings()}
    assert [f"{path}: {name}" for (path, name), known in looked_up.items() if known is False] == []
    assert sum(known is True for known in looked_up.values()) > 300


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("lake/store.py", True),
        ("spark/evenkeel/lake/", True),
        ("dags/rebalance.py", True),
        ("evenkeel.lake.store", True),
        ("cycle.fold.decide_cycle", True),
        ("fold.decide_cycle()", True),
        ("Round.ahead_of", True),
        ("lake/nowhere.py", False),
        ("spark/evenkeel/nowhere/", False),
        ("nowhere.py", False),
        ("engine/gateway.py", False),
        ("pyspark/nowhere.py", None),
        ("evenkeel.lake.nowhere", False),
        ("fold.decide_nothing", False),
        ("Round.nowhere", False),
        ("record.read", False),
        ("cycles.files", None),
        ("clusters.east.admin", None),
        ("spark.sql.shuffle.partitions", None),
        ("acme/orders", None),
        ("_delta_log/00000000000000000000.json", None),
        (".evenkeel/object-stores/", None),
        ("loadBalancerEnabled", None),
        ("pyspark.sql.connect.nowhere", None),
        ("upkeep.north", None),
    ],
)
def test_what_counts_as_ours(name: str, known: bool | None) -> None:
    assert is_ours(name) is known


def test_a_docstring_may_name_what_its_module_imports() -> None:
    module = names_in(ast.parse("from evenkeel.cycle import fold as folding").body)
    assert is_ours("folding.decide_cycle", module) is True
    assert is_ours("folding.decide_nothing", module) is False
    assert is_ours("decide_cycle", module) is True
    assert is_ours("decide_no_" + "cycle", module) is False
