"""`python -m benchmarks [NAME [OPTIONS]]`: one benchmark, or all of them one after the other.

A benchmark is a module in this folder with `main(arguments) -> int`; 0 means that its goal was met.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path


def names() -> list[str]:
    """The benchmarks there are."""
    modules = (path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_"))
    return sorted(name for name in modules if hasattr(import_module(f"benchmarks.{name}"), "main"))


def main(arguments: list[str]) -> int:
    """Runs what was named; the exit code counts the goals that were missed."""
    known = names()
    if arguments and arguments[0] not in known:
        sys.stderr.write(f"no benchmark {arguments[0]!r}; there are: {', '.join(known)}\n")
        return 2
    missed = 0
    for name in arguments[:1] or known:
        print(f"{name}:", flush=True)
        missed += import_module(f"benchmarks.{name}").main(arguments[1:]) != 0
    return missed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
