"""`evenkeel status` and `evenkeel watch`: what they print, in what colours, and with which code they end."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evenkeel.cli import main
from evenkeel.cli.output import is_coloured
from evenkeel.status.attention import KINDS
from tests.lakes.urgent_lake import XSS, UrgentLake, urgent_lake

CHECKOUT = Path(__file__).resolve().parents[2]
PAGE = CHECKOUT / "docs" / "reference" / "json.md"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(urgent_lake(tmp_path_factory.mktemp("lakes") / "urgent", datetime.now(UTC)))


def test_a_line_per_cluster_and_what_each_needs_below_it(lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--lake", lake]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["CLUSTER", "BUSIEST/MEAN", "MODE", "LAST", "CYCLE"]
    assert lines[1].startswith("harm ")
    assert lines[2].startswith("  harm after a move: The unload of")
    assert lines[-1] == "17 of 23 clusters need attention."
    assert "\x1b" not in "".join(lines)
    assert "\u202e" not in "".join(lines), "a name turns no line around"


def test_one_cluster_alone_and_the_code_of_a_calm_one(lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--lake", lake, "--cluster", "calm-a"]) == 0
    out = capsys.readouterr().out
    assert "1 cluster, nothing to do." in out
    assert "harm" not in out
    assert main(["status", "--lake", lake, "--cluster", "held"]) == 0, "what is only to be known asks for nobody"
    assert main(["status", "--lake", lake, "--cluster", XSS[4]]) == 1


def test_the_json_fits_the_documented_schema(lake: str, capsys: pytest.CaptureFixture[str]) -> None:
    import jsonschema

    assert main(["status", "--lake", lake, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    schema = json.loads((PAGE.parent / "json" / "status.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(found, schema)
    assert found["clusters"][0]["cluster"] == "harm"
    assert {one["cluster"] for one in found["clusters"]} >= set(XSS)


def test_every_kind_is_in_the_reference_with_its_source() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for kind in KINDS:
        assert f"| `{kind.name}` | {kind.label} | {kind.mood} | {kind.meaning} | {kind.source} |" in page


class Terminal:
    """A stream that is a terminal, or is not."""

    def __init__(self, is_one: bool) -> None:
        self._is_one = is_one

    def isatty(self) -> bool:
        return self._is_one


@pytest.mark.parametrize(
    ("terminal", "environment", "coloured"),
    [
        (True, {"TERM": "xterm"}, True),
        (True, {}, True),
        (False, {"TERM": "xterm"}, False),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_colours_are_for_terminals_unless_no_color_is_set(
    terminal: bool, environment: dict[str, str], coloured: bool
) -> None:
    assert is_coloured(Terminal(terminal), environment) is coloured


def watching(lake: str, cluster: str, **more: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "evenkeel.cli", "watch", cluster, "--lake", lake, "--every", "0.2"]
    environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT / 'spark'}{os.pathsep}{CHECKOUT}", "TERM": "xterm"}
    given: dict[str, Any] = {"stdout": subprocess.PIPE, **more}
    return subprocess.Popen(command, env=environment, text=True, preexec_fn=takes_ctrl_c, **given)


def takes_ctrl_c() -> None:
    """What a shell started in the background ignores Ctrl-C, and whatever it starts with it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_a_watch_in_a_pipe_has_a_line_for_each_change_and_ends_on_ctrl_c(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    lake = UrgentLake(tmp_path, now - timedelta(minutes=1))
    lake.course("a")
    lake.lake.write()
    running = watching(str(tmp_path), "a")
    first = running.stdout.readline()
    assert "a auto closed busiest/mean 1.28: nothing needs attention" in first
    lake.lake.add("a", now, {}, status="failed", reason="gone", source="admin", mode="auto")
    lake.lake.write()
    assert "failed: The newest cycle failed: gone." in running.stdout.readline()
    running.send_signal(signal.SIGINT)
    rest, _ = running.communicate(timeout=30)
    assert rest == ""
    assert running.returncode == 1, "the cluster needs attention"


def test_a_watch_on_a_terminal_is_drawn_anew_in_place(lake: str) -> None:
    ours, theirs = pty.openpty()
    running = watching(lake, "calm-a", stdout=theirs)
    os.close(theirs)
    seen, ends = b"", time.monotonic() + 20
    while seen.count(b"\x1b[H\x1b[J") < 2 and time.monotonic() < ends:
        seen += os.read(ours, 10_000)
    running.send_signal(signal.SIGINT)
    assert running.wait(30) == 0
    os.close(ours)
    assert b"Ctrl-C ends it" in seen
    assert b"calm-a" in seen
