"""`evenkeel engine`: the local Spark server that commands share; started once, each command saves ten seconds."""

from __future__ import annotations

import argparse

from evenkeel.cli.options import engine_home
from evenkeel.spark.class_archive_maker import make
from evenkeel.spark.server import ensure, status, stop


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `engine`."""
    parser = commands.add_parser("engine", help="the local Spark server, and Airflow's connection to it")
    parser.add_argument("action", choices=("start", "stop", "status", "connection", "prepare"))
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Does what was asked for; `status` gives 1 where nothing runs.

    `connection` prints the value of Airflow's connection to the server, which holds its token; `prepare` makes Java's
    archive of classes, with which servers start sooner.
    """
    home = engine_home()
    if given.action == "connection":
        print(ensure(home).airflow_connection())
        return 0
    if given.action == "start":
        engine = ensure(home)
        print(f"{engine.address} ({'started' if engine.started_here else 'was running'})")
        return 0
    if given.action == "stop":
        print("stopped" if stop(home) else "nothing was running")
        return 0
    if given.action == "prepare":
        print("prepared" if make() else "was prepared already")
        return 0
    found = status(home)
    print(found.state if found.url is None else f"{found.state} {found.url}")
    return 0 if found.state == "running" else 1
