"""A page whose steps run: what is in it to be run, and whether what came out is what it shows.

What counts as a step, by the fence of a block:

* `console`: after `$ ` a shell command, over several lines where they end in a backslash; below it what it prints.
* `python`: a script; a `text` block comes next, with what it prints.
* two words, like `toml evenkeel.toml`: a file of that name, with the block as its content.

All other blocks are there to be read. Only standard output is shown. `…` on the page stands for anything within a line:
seconds, ids, and whatever else differs from run to run.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

FENCE = "```"
ANYTHING = "…"
VARYING = (
    re.compile(r"(?<=  plan )[0-9a-f]{12}  +[0-9.]+ s$"),
    re.compile(r"(?<=, command )[0-9a-f]{16}$"),
    re.compile(r"(?<=, head )[0-9a-f]{64}$"),
)
"""What is written as `…` when the page is filled in anew."""
_BOLD, _FIGURE = re.compile(r"\*\*(.+?)\*\*"), re.compile(r"\d[\d.,:]*\d|\d")


@dataclass(frozen=True, slots=True)
class Step:
    """Something to be run. `output`: the lines that the page shows for it, at `first` to `last` (not included) of it.

    `kind`: console, python or file; a file's `name` is its path.
    """

    kind: str
    name: str
    code: str
    output: tuple[str, ...]
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its info string, its lines, and where the first one stands in the page, counted from 0."""

    info: str
    lines: tuple[str, ...]
    first: int


class BrokenPage(Exception):
    """The page cannot be run as it stands."""


def steps_of(text: str) -> list[Step]:
    """The steps of a page, in order."""
    found: list[Step] = []
    blocks = [*blocks_of(text)]
    for block, following in zip_longest(blocks, blocks[1:]):
        language, _, name = block.info.partition(" ")
        if language == "console":
            found.append(_command(block))
        elif language == "python" and not name:
            if following is None or following.info != "text":
                raise BrokenPage(f"line {block.first}: a python block without a text block after it")
            first, lines = following.first, following.lines
            found.append(Step("python", "script", "\n".join(block.lines), lines, first, first + len(lines)))
        elif name:
            found.append(Step("file", name, "\n".join(block.lines) + "\n", (), block.first, block.first))
    return found


def blocks_of(text: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    begun: tuple[str, int] | None = None
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if not line.startswith(FENCE):
            continue
        if begun is None:
            begun = line.removeprefix(FENCE).strip(), number + 1
        else:
            yield Block(begun[0], tuple(lines[begun[1] : number]), begun[1])
            begun = None
    if begun is not None:
        raise BrokenPage(f"line {begun[1]}: a block that nothing ends")


def _command(block: Block) -> Step:
    if not block.lines or not block.lines[0].startswith("$ "):
        raise BrokenPage(f"line {block.first}: a console block begins with a command, after '$ '")
    ends = next((n for n, line in enumerate(block.lines, start=1) if not line.endswith("\\")), len(block.lines))
    command = "\n".join(block.lines[:ends]).removeprefix("$ ")
    output = block.lines[ends:]
    if any(line.startswith("$ ") for line in output):
        raise BrokenPage(f"line {block.first}: a second command in one block")
    name, first = " ".join(command.split()[:2]), block.first + ends
    return Step("console", name, command, output, first, first + len(output))


def run(step: Step, folder: Path, environment: Mapping[str, str]) -> list[str]:
    """Carries a step out in a folder, as it is written. Gives the lines that it prints, up to the last with text."""
    if step.kind == "file":
        (folder / step.name).write_text(step.code, encoding="utf-8")
        return []
    command = ["bash", "-c", step.code] if step.kind == "console" else [sys.executable, "-c", step.code]
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    ended = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise BrokenPage(f"{step.code}\nended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return [line.rstrip() for line in ended.stdout.rstrip().splitlines()]


def differences(shown: Sequence[str], printed: Sequence[str]) -> list[str]:
    """Where what was printed is not what the page shows, line by line."""
    found = []
    for number, (want, got) in enumerate(zip_longest(shown, printed), start=1):
        if want is None or got is None or not _matches(want, got):
            found.append(f"line {number}\n  page:    {_told(want)}\n  printed: {_told(got)}")
    return found


def _matches(shown: str, printed: str) -> bool:
    pattern = ".*".join(map(re.escape, shown.rstrip().split(ANYTHING)))
    return re.fullmatch(pattern, printed) is not None


def _told(line: str | None) -> str:
    return "(no such line)" if line is None else line


def filled(text: str, printed: Sequence[tuple[Step, Sequence[str]]]) -> str:
    """The page with what its steps printed in the place of what it showed."""
    lines = text.splitlines()
    for step, output in sorted(printed, key=lambda one: one[0].first, reverse=True):
        if step.kind != "file":
            lines[step.first : step.last] = [masked(line) for line in output]
    return "\n".join(lines) + "\n"


def masked(line: str) -> str:
    """With `…` for what differs from run to run."""
    for pattern in VARYING:
        line = pattern.sub(ANYTHING, line)
    return line


def figures_told(text: str) -> list[str]:
    """The figures that the page's own words name in bold: each has to stand in an output."""
    told, inside = [], False
    for line in text.splitlines():
        inside ^= line.startswith(FENCE)
        if not inside:
            told += [figure for bold in _BOLD.findall(line) for figure in figures_in(bold)]
    return told


def figures_in(line: str) -> list[str]:
    """All figures of a line, each whole: 1.5 is not a 5."""
    found: list[str] = _FIGURE.findall(line)
    return found
