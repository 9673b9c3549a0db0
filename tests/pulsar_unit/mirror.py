"""Says which test of Pulsar a test restates, and reads those marks back: per class, what agrees and what differs.

`python -m tests.pulsar_unit.mirror` prints the table of README.md.
"""

import importlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.pulsar_unit.catalogue import CLASSES

HERE = Path(__file__).parent
Method = tuple[str, str]


def mirrors(java_class: str, java_method: str, *, differs: str = "") -> pytest.MarkDecorator:
    """Marks a test that restates a method of Pulsar's tests; `java_class` as `catalogue.CLASSES` names it.

    `differs`: what Pulsar's test states and Evenkeel answers otherwise, and why. The test then asserts Evenkeel's
    answer and everything else that the method states.
    """
    return pytest.mark.mirrors(java_class, java_method, differs)


@dataclass(frozen=True)
class Restated:
    """One method of Pulsar: the file that restates it, and what differs ("" where both agree)."""

    file: str
    differs: str


def restated() -> dict[Method, Restated]:
    """(class, method) of Pulsar -> where it is restated, by the marks of all test files of this folder."""
    found: dict[Method, Restated] = {}
    for file in sorted(HERE.glob("test_*.py")):
        module = importlib.import_module(f"tests.pulsar_unit.{file.stem}")
        for name, test in vars(module).items():
            if not name.startswith("test_"):
                continue
            for java_class, java_method, differs in _marks(getattr(test, "pytestmark", [])):
                known = found.get((java_class, java_method))
                found[java_class, java_method] = Restated(file.name, differs or (known.differs if known else ""))
    return found


def _marks(marks: list[pytest.Mark]) -> Iterator[tuple[str, str, str]]:
    """The arguments of `mirrors`, also of those that stand at single cases of a parametrised test."""
    for mark in marks:
        if mark.name == "mirrors":
            yield mark.args
        elif mark.name == "parametrize":
            cases: list[Any] = [case for case in mark.args[1] if hasattr(case, "marks")]
            for case in cases:
                yield from _marks([getattr(own, "mark", own) for own in case.marks])


def table() -> str:
    """Per class of Pulsar, as Markdown: methods considered, restated, agreeing, differing, left out, and the files."""
    found = restated()
    lines = [
        "| Pulsar's class | considered | restated | agree | differ | left out | restated in |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    total = [0, 0, 0, 0, 0]
    for java_class, methods in CLASSES.items():
        mine = [found[java_class, method] for method in methods if (java_class, method) in found]
        differ = sum(bool(one.differs) for one in mine)
        counts = [len(methods), len(mine), len(mine) - differ, differ, len(methods) - len(mine)]
        total = [a + b for a, b in zip(total, counts, strict=True)]
        files = ", ".join(f"`{file}`" for file in sorted({one.file for one in mine}))
        lines.append(f"| `{java_class}` | {' | '.join(map(str, counts))} | {files} |")
    lines.append(f"| all | {' | '.join(map(str, total))} | |")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
