"""A command line that is wrong in one word ends with exit code 2 and one line that says what is wrong."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from evenkeel.cli import main, options
from tests.bad_input.command_lines import command_lines
from tests.bad_input.values import by_place
from tests.lakes.plausible import plausible_lake

pytestmark = pytest.mark.slow

RECORDING = Path(__file__).resolve().parents[2] / "demo" / "recordings" / "own-threshold"
CASES = {name: words for name, words, _ in command_lines()}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A lake, a recording and a configuration that are right, and a file, a folder and names in their way."""
    folder = tmp_path_factory.mktemp("input")
    (folder / "file").write_text("not a folder")
    (folder / "bytes").write_bytes(b"\xff\xfe\x00 = 1")
    (folder / "config").write_text(f'[clusters.lab]\nrecording = "{RECORDING}"\n')
    (folder / "empty").mkdir()
    lake = plausible_lake(folder / "lake")
    names = ("file", "bytes", "config", "empty", "gone", "new")
    return {name: str(folder / name) for name in names} | {"lake": str(lake), "recording": str(RECORDING)}


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object, **__: object) -> None:
        raise AssertionError("Spark is started")

    def serve(*_: object) -> None:
        raise AssertionError("an agent waits for messages")

    for name in ("EVENKEEL_SPARK", "EVENKEEL_LAKE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("EVENKEEL_KEYS_QUEUE_LAB", "0" * 64)
    monkeypatch.setattr("evenkeel.steering.agent.service.Agent.run", serve)
    monkeypatch.setattr(options, "engine_for", start)
    monkeypatch.setattr(options, "connect", start)


def run(words: Sequence[str], places: dict[str, str]) -> int:
    filled = []
    for word in words:
        for name, place in places.items():
            word = word.replace("{" + name + "}", place)
        filled.append(word)
    try:
        return main(filled)
    except SystemExit as error:  # argparse
        return int(error.code or 0)


@pytest.mark.parametrize("names", by_place(CASES))
def test_a_word_that_is_wrong_is_told_in_one_line(
    names: list[str], subtests: pytest.Subtests, places: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    for name in names:
        with subtests.test(name):
            status = run(CASES[name], places)
            said = capsys.readouterr()
            assert status == 2
            assert said.out == ""
            assert "Traceback" not in said.err
            *usage, last = said.err.splitlines()
            assert last.startswith("evenkeel")
            assert last.isprintable()
            assert not usage or usage[0].startswith("usage: evenkeel")
