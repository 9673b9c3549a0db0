"""`evenkeel engine`: the local Spark server that commands share; started once, each command saves ten seconds."""

from __future__ import annotations

import argparse

from evenkeel.cli.options import engine_home
from evenkeel.cli.output import add_json, print_result
from evenkeel.spark.server import ensure, status, stop


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `engine`."""
    parser = commands.add_parser("engine", help="the local Spark server, and Airflow's connection to it")
    parser.add_argument("action", choices=("start", "stop", "status", "connection"))
    add_json(parser)
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Run the requested action; `status` returns 1 if nothing runs.

    `connection` prints the value of Airflow's connection to the server, which holds its token.
    """
    home = engine_home()
    if given.action == "connection":
        value = ensure(home).airflow_connection()
        print_result(given, value, {"action": given.action, "connection": value})
        return 0
    if given.action == "start":
        engine = ensure(home)
        words = f"{engine.address} ({'started' if engine.started_here else 'was running'})"
        result = {"action": given.action, "address": engine.address, "changed": engine.started_here}
        print_result(given, words, result)
        return 0
    if given.action == "stop":
        stopped = stop(home)
        words = "stopped" if stopped else "nothing was running"
        print_result(given, words, {"action": given.action, "changed": bool(stopped)})
        return 0
    server = status(home)
    words = server.state if server.url is None else f"{server.state} {server.url}"
    print_result(given, words, {"action": given.action, "state": server.state, "url": server.url})
    return 0 if server.state == "running" else 1
