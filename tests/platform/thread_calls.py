"""The functions that our threads may run, read from the source, and the packages that they import as they run.

A function counts as called where its name stands: of its own module, imported, as `self.name`, or as the name of a
method that one class alone has among the modules that the caller imports. A class counts as its methods of
construction. A call through a variable is not seen, but through a field of a class that is given a function
(`SiteCheck(run=...)`) it is.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
CONSTRUCTION = ("__init__", "__post_init__", "__enter__", "__exit__", "__iter__", "__call__")
OF_BUILTINS = {name for kind in (str, bytes, list, dict, set, Path, ThreadPoolExecutor) for name in dir(kind)}


@dataclass(eq=False)
class Function:
    """A function or class: where it stands, what its names mean, and the imports in its body."""

    module: Module
    name: str
    node: ast.AST
    parent: Function | None
    names: dict[str, str | Function] = field(default_factory=dict)
    imports: set[str] = field(default_factory=set)

    def within(self) -> Iterator[Function]:
        """The function and those around it."""
        yield self
        if self.parent is not None:
            yield from self.parent.within()


@dataclass(eq=False)
class Module:
    """A source file: `top` stands for its own level."""

    path: Path
    name: str
    top: Function = field(init=False)


class Sources:
    """All modules below folders; `roots` are the folders by which their names begin."""

    def __init__(self, folders: Mapping[Path, Path]) -> None:
        self.functions: dict[ast.AST, Function] = {}
        self.modules: dict[str, Module] = {}
        self._methods: dict[str, list[Function]] = defaultdict(list)
        self._given: dict[str, list[tuple[Module, Function]]] = defaultdict(list)
        self._known: dict[Module, set[Module]] = {}
        self._calls: dict[Function, list[Function]] = {}
        for folder, root in folders.items():
            for path in sorted(folder.rglob("*.py")):
                name = ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")
                module = Module(path, name)
                tree = ast.parse(path.read_text(encoding="utf-8"))
                module.top = self.functions[tree] = Function(module, "", tree, None)
                self.modules[name] = module
                self._enter(tree, module.top)
        self._imports: dict[Module, set[str]] = defaultdict(set)
        for function in self.functions.values():
            self._imports[function.module] |= function.imports
        for function in [*self.functions.values()]:
            for call in (node for node in body_of(function.node) if isinstance(node, ast.Call)):
                for made in self.meant(call.func, function):
                    if isinstance(made.node, ast.ClassDef):
                        self._note_given(made.node, call, function)

    def _enter(self, node: ast.AST, around: Function) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                continue
            if isinstance(child, ast.Import):
                around.imports |= {alias.name for alias in child.names}
                around.names |= {
                    alias.asname or alias.name.partition(".")[0]: alias.name
                    if alias.asname
                    else alias.name.partition(".")[0]
                    for alias in child.names
                }
            elif isinstance(child, ast.ImportFrom):
                around.imports |= {f"{child.module}.{alias.name}" for alias in child.names}
                around.names |= {alias.asname or alias.name: f"{child.module}.{alias.name}" for alias in child.names}
            elif isinstance(child, (*FUNCTIONS, ast.ClassDef)):
                name = getattr(child, "name", "lambda")
                inner = self.functions[child] = Function(around.module, name, child, around)
                around.names[name] = inner
                if isinstance(around.node, ast.ClassDef):
                    self._methods[name].append(inner)
                self._enter(child, inner)
            else:
                self._enter(child, around)

    def _note_given(self, made: ast.ClassDef, call: ast.Call, function: Function) -> None:
        fields = [
            line.target.id
            for line in made.body
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
        ]
        for given in (*call.args, *(word.value for word in call.keywords)):
            if isinstance(given, ast.Name | ast.Lambda):
                for name in fields:
                    self._given[name] += [(self.functions[made].module, each) for each in self.meant(given, function)]

    def meant(self, node: ast.AST, function: Function) -> list[Function]:
        """The functions and classes that an expression names as it stands in a function."""
        if isinstance(node, ast.Lambda):
            return [self.functions[node]]
        if isinstance(node, ast.Name):
            return self._named(node.id, function)
        if not isinstance(node, ast.Attribute):
            return []
        if isinstance(node.value, ast.Name):
            if node.value.id in ("self", "cls"):
                for around in function.within():
                    if isinstance(around.node, ast.ClassDef) and isinstance(
                        own := around.names.get(node.attr), Function
                    ):
                        return [own]
            for around in function.within():
                known = around.names.get(node.value.id)
                if isinstance(known, str):
                    return self._at(f"{known}.{node.attr}")
        return []

    def _named(self, name: str, function: Function) -> list[Function]:
        for around in function.within():
            if name in around.names and (around is function or not isinstance(around.node, ast.ClassDef)):
                known = around.names[name]
                return [known] if isinstance(known, Function) else self._at(known)
        return []

    def _at(self, dotted: str) -> list[Function]:
        """A function by its module and name; also one that another module imports from there."""
        module, _, name = dotted.rpartition(".")
        if module not in self.modules:
            return []
        known = self.modules[module].top.names.get(name)
        return [known] if isinstance(known, Function) else self._at(known) if known not in (None, dotted) else []

    def called(self, nodes: Iterable[ast.AST], function: Function) -> list[Function]:
        """The functions that these nodes of a function name or call."""
        found: list[Function] = []
        for node in nodes:
            found += self.meant(node, function)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                name, known = node.func.attr, self._imported(function.module)
                methods = [one for one in self._methods[name] if one.module in known and name not in OF_BUILTINS]
                found += methods if len(methods) == 1 else []
                found += [given for module, given in self._given[name] if module in known]
        return [
            one
            for each in found
            for one in (
                [each.names[name] for name in CONSTRUCTION if name in each.names]
                if isinstance(each.node, ast.ClassDef)
                else [each]
            )
            if isinstance(one, Function)
        ]

    def _imported(self, module: Module) -> set[Module]:
        """The modules of ours that a module imports anywhere, and those that these import."""
        if module not in self._known:
            found, left = {module}, [module]
            while left:
                for name in self._imports[left.pop()]:
                    other = self.modules.get(name) or self.modules.get(name.rpartition(".")[0])
                    if other is not None and other not in found:
                        found.add(other)
                        left.append(other)
            self._known[module] = found
        return self._known[module]

    def reached(self, functions: Iterable[Function]) -> set[Function]:
        """The functions and all that they may call."""
        found: set[Function] = set()
        left = [*functions]
        while left:
            function = left.pop()
            if function not in found:
                found.add(function)
                if function not in self._calls:
                    self._calls[function] = self.called(body_of(function.node), function)
                left += self._calls[function]
        return found

    def packages(self, imports: Iterable[str]) -> set[str]:
        """The packages of others that come with these imports, also by way of modules of ours."""
        found: set[str] = set()
        seen: set[str] = set()
        left = [*imports]
        while left:
            name = left.pop()
            module = name if name in self.modules else name.rpartition(".")[0]
            if module not in self.modules:
                found.add(name.partition(".")[0])
            elif module not in seen:
                parents = [module.rsplit(".", n)[0] for n in range(module.count(".") + 1)]
                seen.add(module)
                left += [
                    one for parent in parents if parent in self.modules for one in self.modules[parent].top.imports
                ]
        return found - sys.stdlib_module_names

    def starts(self) -> Iterator[tuple[ast.Call, Function, list[Function]]]:
        """Every call that hands a function to a thread: the call, the function around it, what the thread runs."""
        for function in [*self.functions.values()]:
            for call in (node for node in body_of(function.node) if isinstance(node, ast.Call)):
                given = handed_over(call, has_pools="ThreadPoolExecutor" in function.module.top.names)
                if given is not None:
                    run = self.called(ast.walk(given), function)
                    yield call, function, run or self.called(body_of(function.node), function)


def handed_over(call: ast.Call, *, has_pools: bool) -> ast.AST | None:
    """The function that a call hands to a thread; None where it hands over none."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in ("Thread", "Timer"):
        words = {word.arg: word.value for word in call.keywords}
        return words.get("target") or words.get("function") or (call.args[1] if len(call.args) > 1 else None)
    of_pool = has_pools and isinstance(call.func, ast.Attribute) and name in ("submit", "map")
    if name in ("run_sync", "to_thread") or of_pool:
        return call.args[0] if call.args else None
    return None


def body_of(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function's own body, those of functions within it left out."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, (*FUNCTIONS, ast.ClassDef)):
            yield from body_of(child)
