"""`evenkeel completion`: completion of commands, options and recorded names in a shell.

argcomplete does the work; Airflow brings it along, and it completes bash and zsh. A shell sets `_ARGCOMPLETE`.
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterator, MutableMapping

from evenkeel.cli.lakes import address_of
from evenkeel.cli.output import add_command
from evenkeel.settings.lakes import configured_lakes

_ASKED, _LINE, _POINT = "_ARGCOMPLETE", "COMP_LINE", "COMP_POINT"
_CLUSTERS = frozenset({"cluster", "clusters"})
EPILOG = """For this shell:      source <(evenkeel completion bash)        (or zsh)
For each new one:    put that line into ~/.bashrc or ~/.zshrc"""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `completion`."""
    parser = add_command(commands, "completion", "print what bash or zsh needs to complete this command", EPILOG)
    parser.add_argument("shell", choices=("bash", "zsh"))
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Print the shell's code."""
    from argcomplete.shell_integration import shellcode

    print(shellcode(["evenkeel"], shell=given.shell))
    return 0


def answer_shell(environment: MutableMapping[str, str] = os.environ) -> None:
    """Print completions and end this process, if a shell requests them. Else do nothing."""
    if _ASKED not in environment:
        return
    import argcomplete

    from evenkeel.cli import parser

    top = parser(_words(environment.get(_LINE, ""), environment.get(_POINT, "")))
    for action in _actions(top):
        if action.dest in _CLUSTERS:
            action.completer = clusters_on_record  # type: ignore[attr-defined]
    argcomplete.autocomplete(top)


def clusters_on_record(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """Return the clusters of the lake that the line names, or of the configured ones; empty if it cannot be read."""
    try:
        from evenkeel.lake.record import Record

        named = getattr(parsed_args, "lake", None)
        lakes = [address_of(named)] if named else [lake.path for lake in configured_lakes().lakes]
        clusters = {
            name for lake in lakes for name in Record(lake).clusters() if name.startswith(prefix) and name.isprintable()
        }
        return sorted(clusters)
    except Exception:  # a shell waits for an answer, and has no place for an error
        return []


def _words(line: str, point: str) -> tuple[str, ...]:
    """The words before the one that is being written, without the command's own name."""
    before = line[: int(point)] if point.isdigit() else line
    try:
        words = shlex.split(before)
    except ValueError:  # a quote is still open
        words = before.split()
    complete = words if before[-1:].isspace() else words[:-1]
    return tuple(complete[1:])


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from _actions(below)
