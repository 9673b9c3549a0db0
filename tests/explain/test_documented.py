"""The commands of docs/how-to/explain.md run as the page shows them, and print the example."""

import re
import shlex
from pathlib import Path

import pytest

from evenkeel.cli import main
from evenkeel.explain import times
from evenkeel.explain.trace import inputs
from tests.lakes.acting_lake import WHOLE

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "explain.md").read_text(encoding="utf-8")
COMMANDS = [
    line
    for block in re.findall(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL)
    for line in block.splitlines()
    if line.startswith("evenkeel ")
]


def as_given(command: str, lake: Path) -> list[str]:
    made = inputs(lake, WHOLE, when=times("2026-03-01T03:13", None, None, None))
    words = {"LAKE": str(lake), "WRITE_ID": made.writes[0]["write_id"], "SNAPSHOT": str(made.snapshot)}
    return [words.get(word, word) for word in shlex.split(command)[1:]]


def test_the_page_has_commands() -> None:
    assert len(COMMANDS) == 9


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_answers(command: str, acting: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(as_given(command, acting)) == 0
    assert len(capsys.readouterr().out.splitlines()) >= 5


def test_the_example_is_what_is_printed(acting: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(as_given(COMMANDS[0], acting))
    (example,) = [block for block in PAGE.split("```")[1::2] if block.startswith("\n")]
    assert capsys.readouterr().out == example[1:]
