"""Which module adds which commands."""

from __future__ import annotations

import argparse
from importlib import import_module

import pytest

from evenkeel.cli import COMMANDS, parser


@pytest.mark.parametrize("module", COMMANDS)
def test_a_module_adds_the_commands_that_are_declared_for_it(module: str) -> None:
    commands = argparse.ArgumentParser().add_subparsers()
    import_module(f"evenkeel.cli.{module}").add_to(commands)
    assert tuple(commands.choices) == COMMANDS[module]


@pytest.mark.parametrize("words", [(), ("--help",), ("unheard-of",)])
def test_without_a_command_that_is_known_all_are_listed(words: tuple[str, ...]) -> None:
    listed = {found[0] for line in parser(words).format_help().splitlines() if (found := line.split())}
    assert listed >= {name for names in COMMANDS.values() for name in names}


def test_with_options_before_it_a_command_is_found() -> None:
    given = parser(("--verbose", "engine", "status")).parse_args(["--verbose", "engine", "status"])
    assert given.verbose
    assert given.action == "status"
