"""`evenkeel settings`: every key with its meaning, default and range."""

from __future__ import annotations

import argparse
import json
from typing import Any

from evenkeel.settings import describe


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `settings`."""
    parser = commands.add_parser("settings", help="list the settings: Pulsar's own keys, and Evenkeel's few")
    parser.add_argument("match", nargs="?", default="", metavar="TEXT", help="only keys that contain this")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
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
