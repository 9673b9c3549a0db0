"""Small changes to the code that decides, and the list of those that no test notices.

    nice -n 15 python -m devtools.mutants --room shed --room place --seed 1 --count 60

One process runs the tests that need no Spark, Airflow or browser, and records which functions each test calls. For each
change it forks, swaps the code of the changed function, and runs the tests that call this function, the shortest first,
until one fails. The files stay as they are, and one core is enough. Changes lie in functions that such a test calls;
the others are counted. The exit code is 1 if a change went unnoticed. mutmut and cosmic-ray do not serve: they start
pytest for each change, whose imports and collection cost more than the tests.
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
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import _lru_cache_wrapper, partial
from itertools import accumulate
from operator import setitem
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

import pytest
from _pytest.runner import runtestprotocol
from hypothesis import Phase, settings

CHECKOUT = Path(__file__).resolve().parent.parent
PACKAGE = CHECKOUT / "spark" / "evenkeel"
ROOMS = ("plan_splits", "shed", "place", "publish", "planner", "model", "verify", "transparency", "validate")
BESIDE = ("cycle", "golden", "pulsar_unit", "manual_requests")
"""Folders of tests that call several rooms."""
FLIPPED: dict[type, type] = {ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt}
EXCHANGED: dict[type, type] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
}  # fmt: skip
KEPT = (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)
"""Messages, assertions and imports stay as they are."""


class Change(NamedTuple):
    """The first line of the changed function, the changed node, and the edit of its tree."""

    function: int
    node: Any
    edit: Callable[[], object]


def changes(tree: ast.Module) -> list[Change]:
    """All changes to the functions and methods of a module, in the order of the source."""
    holders = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.Module)]
    functions = [node for holder in holders for node in holder.body if isinstance(node, ast.FunctionDef)]
    found = []
    for function in sorted(functions, key=lambda function: function.lineno):
        first = min(node.lineno for node in (function, *function.decorator_list))
        found += [Change(first, *change) for change in _below(function, "body", function.body)]
    return found


def _below(node: ast.AST, name: str, value: object) -> Iterator[tuple[ast.AST, Callable[[], object]]]:
    """The changes of what a field of a node holds, and below it."""
    children = value if isinstance(value, list) else [value]
    for at, child in enumerate(children):
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
            if field not in ("annotation", "returns", "decorator_list") and not isinstance(held, ast.arguments):
                yield from _below(child, field, held)


def _of_node(node: ast.AST) -> Iterator[tuple[ast.AST, Callable[[], object]]]:
    """The changes of a comparison, an operator, a return or a call itself."""
    match node:
        case ast.Compare():
            for at, operator in enumerate(node.ops):
                for table in (EXCHANGED, FLIPPED):
                    if type(operator) in table:
                        yield node, partial(setitem, node.ops, at, table[type(operator)]())
        case ast.BoolOp() | ast.BinOp() if type(node.op) in EXCHANGED:
            yield node, partial(setattr, node, "op", EXCHANGED[type(node.op)]())
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            empty = {ast.List: "[]", ast.ListComp: "[]", ast.Dict: "{}", ast.DictComp: "{}"}.get(type(value), "None")
            yield node, partial(setattr, node, "value", ast.parse(empty, mode="eval").body)
        case ast.Call(args=[ast.expr() as first, ast.expr() as second, *rest]):
            if not any(isinstance(argument, ast.Starred) for argument in node.args):
                yield node, partial(setattr, node, "args", [second, first, *rest])
    if isinstance(node, ast.Call):
        for one, two in zip(node.keywords, node.keywords[1:], strict=False):
            if one.arg and two.arg and ast.dump(one.value) != ast.dump(two.value):
                yield node, partial(_exchange, one, two)


def _exchange(one: ast.keyword, two: ast.keyword) -> None:
    one.value, two.value = two.value, one.value


class Mutants:
    """A plugin of pytest: runs the collected tests once, and for each change those that call the changed function."""

    def __init__(self, rooms: list[str], seed: int, count: int, budget: float) -> None:
        self.rooms, self.seed, self.count, self.budget = rooms, seed, count, budget
        self.callers: dict[tuple[str, int], set[int]] = defaultdict(set)
        self.seconds: dict[int, float] = {}
        self.unnoticed = 0

    def pytest_configure(self) -> None:
        settings.register_profile("mutants", settings(), phases=[Phase.explicit, Phase.generate])
        settings.load_profile("mutants")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.run_all(session.items)
        gc.unfreeze()
        self.functions: dict[CodeType, list[FunctionType]] = defaultdict(list)
        for function in gc.get_objects():
            if isinstance(function, FunctionType) and function.__code__.co_filename.startswith(str(PACKAGE)):
                self.functions[function.__code__].append(function)
        for room in self.rooms:
            self.try_room(room, session.items)
        return True

    def run_all(self, items: list[pytest.Item]) -> None:
        """Run each test once; note its seconds and the functions that it calls, and leave out those that fail."""
        caches = [each for each in gc.get_objects() if isinstance(each, _lru_cache_wrapper)]
        for at, (item, following) in enumerate(zip(items, [*items[1:], None], strict=True)):
            called: set[CodeType] = set()

            def note(frame: FrameType, event: str, argument: object, called: set[CodeType] = called) -> None:
                called.add(frame.f_code)

            forget(caches)
            begun = time.process_time()
            threading.settrace(note)
            sys.settrace(note)
            reports = runtestprotocol(item, log=False, nextitem=following)
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type]
            if all(report.passed for report in reports):
                self.seconds[at] = time.process_time() - begun
                for code in called:
                    self.callers[code.co_filename, code.co_firstlineno].add(at)
        self.caches = caches
        print(f"{len(self.seconds)} of {len(items)} tests pass, {sum(self.seconds.values()):.0f} s")

    def try_room(self, room: str, items: list[pytest.Item]) -> None:
        """Try the changes of a room that its seed chooses, and print the result of each."""
        found: list[tuple[Path, int]] = []
        beyond = 0
        for module in sorted((PACKAGE / room).rglob("*.py")):
            of_module = changes(ast.parse(module.read_text()))
            called = [at for at, change in enumerate(of_module) if self.callers.get((str(module), change.function))]
            found += [(module, at) for at in called]
            beyond += len(of_module) - len(called)
        chosen = random.Random(f"{self.seed} {room}").sample(found, min(self.count, len(found)))
        results = Counter(self.try_change(module, at, items) for module, at in sorted(chosen))
        self.unnoticed += results["unnoticed"]
        told = ", ".join(f"{number} {result}" for result, number in sorted(results.items()))
        print(
            f"{room}: {told}; {len(found)} changes possible, {beyond} in functions that no such test calls", flush=True
        )

    def try_change(self, module: Path, number: int, items: list[pytest.Item]) -> str:
        """Run the tests with a change in a process of its own; return `noticed`, `unnoticed` or `not made`."""
        tree = ast.parse(module.read_text())
        change = changes(tree)[number]
        before = ast.unparse(change.node)
        change.edit()
        after = ast.unparse(change.node)
        new = compile(ast.fix_missing_locations(tree), str(module), "exec")
        old = compile(module.read_text(), str(module), "exec")
        swaps = [pair for pair in zip(codes_in(old), codes_in(new), strict=False) if pair[0] != pair[1]]
        shortest = sorted(self.callers[str(module), change.function], key=lambda at: (self.seconds[at], at))
        ends = accumulate(self.seconds[at] for at in shortest)
        tests = [at for at, end in zip(shortest, ends, strict=True) if end <= self.budget] or shortest[:1]
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            limit = int(20 + 4 * min(self.budget, sum(self.seconds[at] for at in tests)))
            resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))  # a test that never ends has noticed
            try:
                for was, becomes in swaps:
                    for function in self.functions.get(was, ()):
                        function.__code__ = becomes
            except ValueError:  # a closure has other free variables
                os._exit(2)
            forget(self.caches)
            for at, following in zip(tests, [*tests[1:], None], strict=True):
                end = None if following is None else items[following]
                for report in runtestprotocol(items[at], log=False, nextitem=end):
                    if report.failed:
                        os.write(writer, items[at].nodeid.encode()[:4000])
                        os._exit(1)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as pipe:
            test = pipe.read()
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        result = {0: "unnoticed", 2: "not made"}.get(code, "noticed")
        where = f"{module.relative_to(CHECKOUT)}:{change.node.lineno}"
        what = f"{before}  →  {'left out' if before == after else after}"
        print(
            f"{result}: {where}: {' '.join(what.split())[:300]}  [{test or f'{len(tests)} of {len(shortest)} tests'}]",
            flush=True,
        )
        return result


def forget(caches: list[Any]) -> None:
    """Empty the caches of functions, so that each test calls what it needs."""
    for cache in caches:
        if str(getattr(cache, "__module__", "")).startswith("evenkeel"):
            cache.cache_clear()


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """The code objects in a module's code, from the outside in."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from codes_in(constant)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m devtools.mutants", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--room", action="append", choices=ROOMS, help="may be repeated; all of them by default")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=60, help="changes per room")
    parser.add_argument("--budget", type=float, default=60, help="seconds of tests per change")
    options = parser.parse_args()
    rooms = options.room or list(ROOMS)
    marks = re.search(r"^PURE := (.*)$", (CHECKOUT / "Makefile").read_text(), re.MULTILINE)
    assert marks is not None
    folders = [str(CHECKOUT / "tests" / name) for name in (*rooms, *BESIDE)]
    plugin = Mutants(rooms, options.seed, options.count, options.budget)
    given = ["-q", "-s", "-n", "0", "-p", "no:cacheprovider", "-m", marks[1], *folders]
    return int(pytest.main(given, plugins=[plugin])) or int(plugin.unnoticed > 0)


if __name__ == "__main__":
    sys.exit(main())
