"""`evenkeel engine`: the local Spark server that commands share; started once, each command saves ten seconds."""

from __future__ import annotations

import argparse
import json
from typing import Any

from evenkeel.cli.options import engine_home
from evenkeel.settings import describe
from evenkeel.spark.server import ensure, status, stop


def _add_engine(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `engine`."""
    parser = commands.add_parser("engine", help="start, stop or look at the local Spark server")
    parser.add_argument("action", choices=("start", "stop", "status"))
    parser.set_defaults(run=run_engine)


def run_engine(given: argparse.Namespace) -> int:
    """Does what was asked for; `status` gives 1 where nothing runs."""
    home = engine_home()
    if given.action == "start":
        engine = ensure(home)
        print(f"{engine.url} ({'started' if engine.started_here else 'was running'})")
        return 0
    if given.action == "stop":
        print("stopped" if stop(home) else "nothing was running")
        return 0
    found = status(home)
    print(found.state if found.url is None else f"{found.state} {found.url}")
    return 0 if found.state == "running" else 1


# `evenkeel settings`: every key with its meaning, default and range.


def _add_settings(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `settings`."""
    parser = commands.add_parser("settings", help="list the settings: Pulsar's own keys, and Evenkeel's few")
    parser.add_argument("match", nargs="?", default="", metavar="TEXT", help="only keys that contain this")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(run=run_settings)


def run_settings(given: argparse.Namespace) -> int:
    """Prints the keys; 1 if none matches."""
    found = [key for key in describe() if given.match.lower() in key["key"].lower()]
    if given.json:
        print(json.dumps(found, indent=1, default=sorted))
    else:
        print("\n".join(_entry(key) for key in found))
    return 0 if found else 1


def _entry(key: dict[str, Any]) -> str:
    unit = f" {key['unit']}" if key["unit"] else ""
    return f"{key['key']} = {key['default_4_x']}{unit}\n    {key['meaning']} ({key['allowed']})"
