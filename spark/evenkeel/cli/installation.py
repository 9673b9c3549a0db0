"""`evenkeel doctor`, `engine` and `paths`: an installation with its checks, its local Spark server and its folders."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from evenkeel.cli.output import QUIET_S, ProgressLine, add_command, add_json, bare, duration, is_coloured, print_result
from evenkeel.errors import visible
from evenkeel.spark.code import folder_beside, source_root, suites_folder

if TYPE_CHECKING:
    from evenkeel.doctor.checks import CheckResult, Site


_DOCTOR_EPILOG = """\
exit code: 0 nothing to do; 1 there is something to do (warn, fail); 2 a check could not look, or an option
is wrong. Nothing is written unless --probe asks for it; what a probe writes it removes, and says so. Tokens are never
shown."""
_COLOURS = {"ok": "32", "warn": "33", "fail": "31", "skipped": "2"}
_WORD, _NAME = 8, 16


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of all three."""
    parser = add_command(
        commands, "doctor", "look at the whole installation, and say what is to be done", _DOCTOR_EPILOG
    )
    parser.add_argument("--config", metavar="FILE", help="the configuration file (default: $EVENKEEL_CONFIG)")
    parser.add_argument("--lake", metavar="DIR", help="where the tables are (default: as configured)")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="this check alone (repeatable)")
    parser.add_argument("--skip", action="append", default=[], metavar="NAME", help="without this check (repeatable)")
    parser.add_argument("--probe", action="store_true", help="try to write, too; what is written is removed again")
    parser.add_argument("--list", action="store_true", help="list the checks, and look at nothing")
    add_json(parser)
    parser.set_defaults(run=run_doctor)
    parser = commands.add_parser("engine", help="the local Spark server, and Airflow's connection to it")
    parser.add_argument("action", choices=("start", "stop", "status", "connection"))
    add_json(parser)
    parser.set_defaults(run=run_engine)
    parser = add_command(
        commands, "paths", "where the DAGs, the plugin and the expectations of this installation lie", _PATHS_EPILOG
    )
    parser.add_argument("name", nargs="?", choices=("dags", "plugins", "expectations", "package", "preload"))
    add_json(parser)
    parser.set_defaults(run=run_paths)


def run_doctor(given: argparse.Namespace) -> int:
    """Run the checks and print a line each, in their order, as soon as it is ready."""
    from evenkeel.cli.options import engine_home
    from evenkeel.doctor.catalogue import chosen_checks, site_of
    from evenkeel.doctor.checks import exit_code, run_checks

    checks = chosen_checks(given.only, given.skip)
    if given.list:
        names = [{"name": check.name, "about": check.about} for check in checks]
        print_result(given, "\n".join(f"{check.name:{_NAME}} {check.about}" for check in checks), {"checks": names})
        return 0
    site = site_of(given.config, given.lake, engine_home(), probe=given.probe)
    line, results = ProgressLine(sys.stderr, quiet=QUIET_S), []
    coloured = is_coloured(sys.stdout)
    for result in run_checks(checks, site, lambda name, s: line.show(f"waiting for {name}, {duration(s)} so far")):
        results.append(result)
        if not given.json:
            with line.aside():
                print(_line(result, coloured=coloured), file=bare(sys.stdout), flush=True)
    line.end()
    code = exit_code(results)
    counts = {word: sum(result.finding.outcome == word for result in results) for word in _COLOURS}
    lines = [", ".join(f"{number} {word}" for word, number in counts.items() if number)]
    lines += [f"written and removed again: {name}" for name in site.wrote]
    print_result(given, "\n".join(lines), _object(results, site, code))
    return code


def _line(result: CheckResult, *, coloured: bool) -> str:
    finding = result.finding
    word = f"{finding.outcome:{_WORD}}"
    if coloured:
        word = f"\x1b[{_COLOURS[finding.outcome]}m{word}\x1b[0m"
    of = f"{result.subject}: " if result.subject else ""
    advice = f" -> {finding.advice}" if finding.advice else ""
    return f"{word}{visible(f'{result.check:{_NAME}} {of}{finding.words}{advice}')}"


def _object(results: Sequence[CheckResult], site: Site, code: int) -> dict[str, Any]:
    from evenkeel.doctor.catalogue import LAKE_CHECKS

    return {
        "at": datetime.now(UTC),
        "code": code,
        "checks": [
            {
                "check": result.check,
                "cluster": (result.subject or None) if result.check not in LAKE_CHECKS else None,
                **({"lake": result.subject} if result.check in LAKE_CHECKS and result.subject else {}),
                "outcome": result.finding.outcome,
                "words": result.finding.words,
                "advice": result.finding.advice or None,
                "looked": result.looked,
                "seconds": round(result.seconds, 3),
            }
            for result in results
        ],
        "wrote": site.wrote,
    }


def run_engine(given: argparse.Namespace) -> int:
    """Run the action; `status` returns 1 if nothing runs, `connection` prints Airflow's connection (with its token)."""
    from evenkeel.cli.options import engine_home
    from evenkeel.spark.server import ensure, status, stop

    home, code = engine_home(), 0
    result: dict[str, Any]
    if given.action == "connection":
        words = ensure(home).airflow_connection()
        result = {"connection": words}
    elif given.action == "start":
        engine = ensure(home)
        words = f"{engine.address} ({'started' if engine.started_here else 'was running'})"
        result = {"address": engine.address, "changed": engine.started_here}
    elif given.action == "stop":
        stopped = stop(home)
        words = "stopped" if stopped else "nothing was running"
        result = {"changed": bool(stopped)}
    else:
        server = status(home)
        words = server.state if server.url is None else f"{server.state} {server.url}"
        result, code = {"state": server.state, "url": server.url}, int(server.state != "running")
    print_result(given, words, {"action": given.action, **result})
    return code


_PATHS_EPILOG = """In Airflow:
  AIRFLOW__CORE__DAGS_FOLDER=$(evenkeel paths dags)
  AIRFLOW__CORE__PLUGINS_FOLDER=$(evenkeel paths plugins)
Where both have files of your own: docs/how-to/airflow.md has a DAG bundle and a link."""


def run_paths(given: argparse.Namespace) -> int:
    """Print the folders, or the one that was named; 1 where one of them is missing."""
    package = source_root() / "evenkeel"
    folders = {
        "dags": folder_beside("dags"),
        "plugins": folder_beside("plugins"),
        "expectations": suites_folder(),
        "package": package,
        "preload": package / "airflow" / "preload.py",
    }
    asked = {name: path for name, path in folders.items() if given.name in (None, name)}
    lines = [
        str(path) if given.name else f"{name:13} {path}{'' if path.exists() else '  (missing)'}"
        for name, path in asked.items()
    ]
    print_result(given, "\n".join(lines), {name: str(path) for name, path in asked.items()})
    return 0 if all(path.exists() for path in asked.values()) else 1
