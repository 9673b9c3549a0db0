"""Which module adds which commands."""

import argparse
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from evenkeel.cli import COMMANDS, main, parser
from evenkeel.cli.__main__ import READER_GONE
from evenkeel.cli.options import overrides_of, warn_without_effect
from evenkeel.cli.rebalance import _is_small
from evenkeel.pipeline import LARGE_SNAPSHOT_BYTES


@pytest.mark.parametrize("module", COMMANDS)
def test_a_module_adds_the_commands_that_are_declared_for_it(module: str) -> None:
    commands = argparse.ArgumentParser().add_subparsers()
    import_module(f"evenkeel.cli.{module}").add_to(commands)
    assert tuple(commands.choices) == COMMANDS[module]


@pytest.mark.parametrize("words", [(), ("--help",), ("unheard-of",)])
def test_without_a_command_that_is_known_all_are_listed(words: tuple[str, ...]) -> None:
    listed = {found[0] for line in parser(words).format_help().splitlines() if (found := line.split())}
    assert listed >= {name for names in COMMANDS.values() for name in names}


def test_a_recording_of_small_snapshots_is_soon_decided(tmp_path: Path) -> None:
    (tmp_path / "0000.json.gz").write_bytes(b"small")
    assert _is_small(str(tmp_path))
    with (tmp_path / "0001.json.gz").open("wb") as file:
        file.truncate(LARGE_SNAPSHOT_BYTES + 1)
    assert not _is_small(str(tmp_path))
    assert not _is_small(None), "clusters of a configuration may be of any size"
    assert not _is_small(str(tmp_path / "absent"))


def test_with_options_before_it_a_command_is_found() -> None:
    given = parser(("--verbose", "engine", "status")).parse_args(["--verbose", "engine", "status"])
    assert given.verbose
    assert given.action == "status"


def test_a_command_whose_reader_has_gone_ends_without_a_word() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "evenkeel.cli", "settings"]
    try:
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (READER_GONE, "")


def test_a_key_says_when_a_broker_takes_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "LoadSheddingStrategy"]) == 0
    assert "a broker takes loadBalancerLoadSheddingStrategy at its restart" in capsys.readouterr().out


def test_a_key_without_an_effect_warns_once(capsys: pytest.CaptureFixture[str]) -> None:
    given = argparse.Namespace(settings=None, set=["statsUpdateInitialDelayInSecs=9", "minUnloadMessage=7"])
    assert overrides_of(given) == {"statsUpdateInitialDelayInSecs": 9, "minUnloadMessage": 7}
    assert capsys.readouterr().err == "evenkeel: statsUpdateInitialDelayInSecs has no effect on decisions\n"
    warn_without_effect(["a:minUnloadMessage=7,loadBalancerOverrideBrokerNics=eth0,eth1", "nosuchkey=1"])
    assert capsys.readouterr().err == "evenkeel: loadBalancerOverrideBrokerNics has no effect on decisions\n"


def test_a_setting_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "nosuchkey"]) == 1
    assert main(["settings", "Sheder"]) == 1
    far, near = capsys.readouterr().err.splitlines()
    assert (
        far == "evenkeel: no key contains 'nosuchkey': no known key looks like it; `evenkeel settings` lists them all"
    )
    assert near.endswith("no key contains 'Sheder': `evenkeel settings Shedder` lists the keys that look like it")
