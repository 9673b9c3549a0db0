"""`evenkeel …`: an operator's commands in a shell. Results go to standard output, progress to standard error."""

from __future__ import annotations

import argparse
import errno
import logging
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module

from evenkeel.cli.output import VisibleStream, handler_to_stderr
from evenkeel.errors import EvenkeelError, visible, without_right
from evenkeel.object_store import explained
from evenkeel.spark.code import code_version

BAD_USAGE = 2
COMMANDS = {
    "rebalance": ("rebalance",),
    "collect": ("collect",),
    "wish": ("wish",),
    "control": ("pause", "resume", "approve", "reject", "takeover", "handback"),
    "agent": ("agent",),
    "status": ("status", "watch"),
    "metrics": ("metrics",),
    "explain": ("explain", "trace"),
    "verify": ("verify",),
    "log": ("log", "prove"),
    "replay": ("replay", "simulate"),
    "reports": ("report", "data-docs"),
    "sql": ("sql", "views"),
    "upkeep": ("upkeep", "storage", "heat"),
    "backup": ("export", "backup", "restore"),
    "settings": ("settings", "config"),
    "installation": ("doctor", "engine", "paths"),
    "completion": ("completion",),
}
"""Modules of this package, and the commands that each of them adds."""


def parser(words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return the commands and their options: all of them, or, if `words` name a command, those of its module.

    Importing the other modules takes a second. Commands whose packages are not installed are left out, as in the image
    of the agent.
    """
    top = argparse.ArgumentParser(prog="evenkeel", description="Pulsar's load-balancing decisions, on the record.")
    top.add_argument("--version", action="version", version=f"evenkeel {code_version()}")
    top.add_argument("--verbose", action="store_true", help="log what the tasks do")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    asked = next((word for word in words if not word.startswith("-")), "")
    named = [name for name, added in COMMANDS.items() if asked in added]
    for name in named or (() if "--version" in words else COMMANDS):
        try:
            import_module(f"{__name__}.{name}").add_to(commands)
        except ModuleNotFoundError as error:
            if named or not _package_missing(error):
                raise
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; errors of ours end in one message, without a stack trace."""
    with redirect_stdout(VisibleStream.of(sys.stdout)), redirect_stderr(VisibleStream.of(sys.stderr)):
        return _run(arguments)


def _run(arguments: Sequence[str] | None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    for word in words:
        if not _is_text(word):
            print(f"evenkeel: {ascii(word)[:200]} is not UTF-8, and no name on record is like that", file=sys.stderr)
            return BAD_USAGE
    try:
        given = parser(words).parse_args(words)
    except ModuleNotFoundError as error:
        return _ended_by(error, None)
    handlers = [handler_to_stderr("%(name)s: %(message)s")]
    logging.basicConfig(level=logging.INFO if given.verbose else logging.ERROR, handlers=handlers)
    try:
        if getattr(given, "lake", None):
            from evenkeel.cli.lakes import address_of

            given.lake = address_of(given.lake)
        code: int = given.run(given)
    except KeyboardInterrupt:
        print("evenkeel: interrupted; run the same command again to go on", file=sys.stderr)
        return 130
    except Exception as error:
        return _ended_by(error, getattr(given, "lake", None))
    return code


def _ended_by(error: Exception, lake: object) -> int:
    """Report the line of an error that an operator can act on; any other is raised again."""
    line = _told(error, lake)
    if line is None:
        raise error
    print(f"evenkeel: {line}", file=sys.stderr)
    return BAD_USAGE


def _package_missing(error: ModuleNotFoundError) -> str:
    """The package of someone else that is not installed; "" where a module of this project is missing."""
    package = (error.name or "").partition(".")[0]
    return "" if package == __name__.partition(".")[0] else package


def _told(error: Exception, lake: object) -> str | None:
    """Return the line for an error that an operator can act on, None for any other."""
    if isinstance(error, EvenkeelError):
        return visible(error)
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return f"{str(error.filename)[:200]!r}… is too long for the name of a file"
    if isinstance(error, PermissionError):
        return visible(without_right(error))
    if isinstance(error, ModuleNotFoundError) and (package := _package_missing(error)):
        return f"the package {package} is not installed: run this where all of Evenkeel's packages are installed"
    from evenkeel.lake.table_log import damage_behind, first_line

    try:
        explanation = explained(error, lake) or damage_behind(error, lake)
    except PermissionError as denied:
        return visible(without_right(denied))
    if explanation:
        return visible(explanation)
    of_spark = type(error).__module__.partition(".")[0] in ("pyspark", "py4j")
    return f"Spark failed: {visible(first_line(error))}. Its server's log has the rest" if of_spark else None


def _is_text(word: str) -> bool:
    """Return True if a word can be stored; Python makes half characters of bytes that are not UTF-8."""
    try:
        word.encode()
    except UnicodeEncodeError:
        return False
    return True
