"""How a line goes on: asked as bash asks, by a process of the command."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from evenkeel.cli import main
from evenkeel.cli.completion import clusters_on_record
from tests.lakes.plausible import LAB, SPREAD, plausible_lake


def completed(line: str, tmp_path: Path) -> list[str]:
    """What argcomplete answers for a line, through the file that takes the place of file descriptor 8."""
    answer = tmp_path / "answer"
    environment = {
        **os.environ,
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_SHELL": "bash",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "_ARGCOMPLETE_IFS": "\n",
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
        "COMP_TYPE": "9",
        "COMP_WORDBREAKS": " \t\n",
    }
    subprocess.run([sys.executable, "-m", "evenkeel.cli"], env=environment, check=True, timeout=60)
    return answer.read_text().replace("\x0b", "\n").split()


def test_commands_options_and_clusters_of_the_named_lake_are_completed(tmp_path: Path) -> None:
    lake = plausible_lake(tmp_path / "lake")
    assert completed("evenkeel ver", tmp_path) == ["verify"]
    assert "--differing" in completed("evenkeel settings --", tmp_path)
    assert sorted(completed(f"evenkeel explain b1:1 --lake {lake} --cluster ", tmp_path)) == [LAB, SPREAD]


@pytest.mark.parametrize("lake", ["", "no-such-folder"])
def test_names_that_cannot_be_read_are_no_error(lake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import argparse

    monkeypatch.delenv("EVENKEEL_LAKE", raising=False)
    assert clusters_on_record("", argparse.Namespace(lake=lake)) == []


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_the_code_for_a_shell_is_printed(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "_python_argcomplete evenkeel" in capsys.readouterr().out
