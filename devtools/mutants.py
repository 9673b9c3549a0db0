"""Small changes to the code that decides, and the list of those that no test notices.

    nice -n 15 python -m devtools.mutants --room shed --room place --seed 1 --count 60

One process runs the tests that need no Spark, Airflow or browser, and records which functions each test calls. For each
change it forks, swaps the code of the changed function, and runs the tests that call it, the shortest first, until one
fails. The files stay as they are, and one core is enough. Changes lie in functions that such a test calls; the others
are counted. The exit code is 1 if a change went unnoticed. mutmut and cosmic-ray do not serve: they start pytest for
each change, and its imports and collection cost more than the tests.
"""

from __future__ import annotations

import argparse
import ast
import gc
import os
import random
import re
import resource
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from cProfile import Profile
from functools import _lru_cache_wrapper, partial
from itertools import accumulate, pairwise
from operator import setitem
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import Phase, settings

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGE = CHECKOUT / "spark" / "evenkeel"
ROOMS = ("plan_splits", "shed", "place", "publish", "planner", "model", "verify", "transparency", "validate")
BESIDE = ("aggregate", "cycle", "golden", "pulsar_unit", "manual_requests")
"""Folders of tests that call several rooms."""

FLIPPED: dict[type, type] = {ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt}
_PAIRS: tuple[tuple[type, type], ...] = (
    (ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.In, ast.NotIn), (ast.Is, ast.IsNot),
    (ast.And, ast.Or), (ast.Add, ast.Sub), (ast.Mult, ast.Div),
)  # fmt: skip
EXCHANGED = dict(_PAIRS) | {two: one for one, two in _PAIRS}
SYMMETRIC = {"min", "max", "minimum", "maximum", "isclose", "overlaps"}
KEPT = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom, ast.arguments)
"""Messages, assertions, imports and parameters stay as they are."""

Change = tuple[Any, Callable[[], object]]
"""The node that changes, and the edit of its tree."""


def changes(tree: ast.Module) -> Iterator[tuple[int, Change]]:
    """The changes to functions and methods of a module, each with the first line of its function."""
    for holder in ast.walk(tree):
        for function in holder.body if isinstance(holder, ast.ClassDef | ast.Module) else ():
            if isinstance(function, ast.FunctionDef):
                first = min([function.lineno, *(decorator.lineno for decorator in function.decorator_list)])
                yield from ((first, change) for change in _below(function, "body", function.body))


def _below(node: ast.AST, name: str, value: object) -> Iterator[Change]:
    """The changes of what a field of a node holds, and below it."""
    for at, child in enumerate(value if isinstance(value, list) else [value]):
        if not isinstance(child, ast.AST) or isinstance(child, KEPT):
            continue
        put = partial(setitem, value, at) if isinstance(value, list) else partial(setattr, node, name)
        is_call = isinstance(child, ast.Expr) and isinstance(child.value, ast.Call)
        if is_call or isinstance(child, ast.AugAssign | ast.Continue):
            yield child, partial(put, ast.Pass())
        if isinstance(child, ast.UnaryOp) and isinstance(child.op, ast.Not):
            yield node, partial(put, child.operand)
        if isinstance(child, ast.Constant) and isinstance(child.value, bool | int | float):
            others = [not child.value] if isinstance(child.value, bool) else [child.value + 1, child.value - 1]
            yield from ((node, partial(put, ast.Constant(other))) for other in others)
        yield from _of_node(child)
        for field, held in ast.iter_fields(child):
            if field not in ("annotation", "returns", "decorator_list"):
                yield from _below(child, field, held)


def _of_node(node: ast.AST) -> Iterator[Change]:
    """The changes of a comparison, an operator, a return or a call itself."""
    if isinstance(node, ast.Compare):
        for at, operator in enumerate(node.ops):
            others = [table[type(operator)] for table in (EXCHANGED, FLIPPED) if type(operator) in table]
            yield from ((node, partial(setitem, node.ops, at, other())) for other in others)
    elif isinstance(node, ast.BoolOp | ast.BinOp) and type(node.op) in EXCHANGED:
        yield node, partial(setattr, node, "op", EXCHANGED[type(node.op)]())
    elif isinstance(node, ast.Return) and not isinstance(node.value, ast.Constant | None):
        is_list = isinstance(node.value, ast.List | ast.ListComp)
        yield node, partial(setattr, node, "value", ast.List([], ast.Load()) if is_list else ast.Constant(None))
    elif isinstance(node, ast.Call):
        if len(node.args) > 1 and ast.unparse(node.func).rpartition(".")[2] not in SYMMETRIC:
            yield node, partial(setattr, node, "args", [node.args[1], node.args[0], *node.args[2:]])
        for one, two in pairwise(keyword for keyword in node.keywords if keyword.arg):
            yield node, partial(_swap, one, two)


def _swap(one: ast.keyword, two: ast.keyword) -> None:
    one.value, two.value = two.value, one.value


class Mutants:
    """A plugin of pytest: runs the collected tests once, and for each change those that call the changed function."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.unnoticed = options, 0
        self.callers: dict[tuple[str, int], set[int]] = defaultdict(set)
        self.seconds: dict[int, float] = {}
        self.functions: dict[CodeType, list[FunctionType]] = defaultdict(list)

    def pytest_configure(self) -> None:
        settings.register_profile("mutants", settings(), phases=[Phase.explicit, Phase.generate])
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.items: list[Any] = session.items
        caches = [each for each in gc.get_objects() if isinstance(each, _lru_cache_wrapper)]
        self.caches = [cache for cache in caches if str(getattr(cache, "__module__", "")).startswith("evenkeel")]
        self.run_all()
        gc.unfreeze()
        for function in gc.get_objects():
            if isinstance(function, FunctionType) and function.__code__.co_filename.startswith(str(PACKAGE)):
                self.functions[function.__code__].append(function)
        for room in self.options.room or ROOMS:
            self.try_room(room)
        return True

    def run_all(self) -> None:
        """Run each test once; note its seconds and the functions that it calls. Those that fail are left out."""
        for at, item in enumerate(self.items):
            profile = Profile(subcalls=False, builtins=False)
            begun = time.process_time()
            profile.enable()
            # Fixtures run again with each test, so that calls in them are noted too.
            is_passed = self.passes(item, None)
            profile.disable()
            if is_passed:
                self.seconds[at] = time.process_time() - begun
                for code in (entry.code for entry in profile.getstats() if isinstance(entry.code, CodeType)):
                    self.callers[code.co_filename, code.co_firstlineno].add(at)
        print(f"{len(self.seconds)} of {len(self.items)} tests pass, {sum(self.seconds.values()):.0f} s", flush=True)

    def passes(self, item: Any, following: Any) -> bool:
        """Run one test; functions have forgotten what they cached."""
        for cache in self.caches:
            cache.cache_clear()
        return all(report.passed for report in runtestprotocol(item, log=False, nextitem=following))

    def try_room(self, room: str) -> None:
        """Try the changes of a room that the seed chooses, and print the result of each."""
        modules = sorted((PACKAGE / room).rglob("*.py"))
        every = [(path, at, first) for path in modules for at, (first, _) in enumerate(changes(_parsed(path)))]
        found = [(path, at, first) for path, at, first in every if self.callers.get((str(path), first))]
        chance = random.Random(f"{self.options.seed} {room}")
        chosen = sorted(chance.sample(found, min(self.options.count, len(found))))
        results = Counter(self.try_change(*change) for change in chosen)
        self.unnoticed += results["unnoticed"]
        counts = ", ".join(f"{number} {result}" for result, number in sorted(results.items()))
        print(f"{room}: {counts}; {len(every) - len(found)} of {len(every)} are in functions that no such test calls")

    def try_change(self, module: Path, number: int, first: int) -> str:
        """Run the tests with a change in a process of its own; return `noticed`, `unnoticed` or `not made`."""
        tree = _parsed(module)
        node, edit = [change for _, change in changes(tree)][number]
        before = ast.unparse(node)
        edit()
        after = ast.unparse(node)
        codes = (compile(one, str(module), "exec") for one in (_parsed(module), ast.fix_missing_locations(tree)))
        swaps = [*zip(*(_codes(code, first) for code in codes), strict=True)]
        if ast.dump(tree) == ast.dump(_parsed(module)):  # two equal arguments, or what is returned anyway
            return "not made"
        shortest = sorted(self.callers[str(module), first], key=lambda at: (self.seconds[at], at))
        ends = accumulate(self.seconds[at] for at in shortest)
        tests = [at for at, end in zip(shortest, ends, strict=True) if end <= self.options.budget] or shortest[:1]
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            self.run_changed(swaps, tests, writer)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            by = pipe.read() or f"{len(tests)} of {len(shortest)} tests"
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        result = {0: "unnoticed", 2: "not made"}.get(code, "noticed")
        what = " ".join(f"{before} → {'left out' if before == after else after}".split())
        line = getattr(node, "lineno", first)  # parts of a comprehension have none
        print(f"{result}: {module.relative_to(CHECKOUT)}:{line}: {what[:300]}  [{by}]", flush=True)
        return result

    def run_changed(self, swaps: list[tuple[CodeType, CodeType]], tests: list[int], writer: int) -> None:
        """Swap the code, run the tests until one fails, write its name, and end this process."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(1, 2)
        limit = int(20 + 4 * self.options.budget)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))  # tests that never end have noticed
        try:
            for function, becomes in ((one, new) for old, new in swaps for one in self.functions.get(old, ())):
                function.__code__ = becomes
        except ValueError:  # a closure has other free variables
            os._exit(2)
        for item, following in pairwise([*(self.items[at] for at in tests), None]):
            if not self.passes(item, following):
                os.write(writer, item.nodeid.encode()[:4000])
                os._exit(1)
        os._exit(0)


def _parsed(module: Path) -> ast.Module:
    return ast.parse(module.read_text())


def _codes(code: CodeType, first: int) -> Iterator[CodeType]:
    """The code of the function that begins in this line, without those inside it."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from [constant] if constant.co_firstlineno == first else _codes(constant, first)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m devtools.mutants", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--room", action="append", choices=ROOMS, help="may be repeated; all of them by default")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60, help="changes per room")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of tests per change")
    options = parser.parse_args()
    os.environ.pop("EVENKEEL_TESTS_FROZEN", None)  # tests of a copy call none of the checkout's functions
    marks = re.search(r"^PURE := (.*)$", (CHECKOUT / "Makefile").read_text(), re.MULTILINE)
    folders = [str(CHECKOUT / "tests" / name) for name in (*(options.room or ROOMS), *BESIDE)]
    plugin = Mutants(options)
    given = ["-q", "-s", "-n", "0", "-p", "no:cacheprovider", "-m", marks[1] if marks else "", *folders]
    return int(pytest.main(given, plugins=[plugin])) or int(plugin.unnoticed > 0)


if __name__ == "__main__":
    sys.exit(main())
