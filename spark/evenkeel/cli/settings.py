"""`evenkeel settings` and `evenkeel config`: the settings with their values in force, and the configuration file."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenkeel.cli.output import VERSION, add_command, add_json, print_result
from evenkeel.errors import BadInput
from evenkeel.settings import describe
from evenkeel.settings.operation import CONFIGURATION
from evenkeel.settings.parsing import nearest

if TYPE_CHECKING:
    from evenkeel.explain.settings_in_force import AllInForce, KeyInForce


EPILOG = """With --lake: what the newest decided cycle of each cluster was decided with, and who set each value:
default, observed (the brokers run with it) or override (the operator). Keys at their version's default are
left out unless --all asks for them or TEXT names them; --differing leaves out those of which all clusters
have the same value. Ends with 1 where no key is left."""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `settings` and `config`."""
    parser = add_command(
        commands, "settings", "list the settings: Pulsar's own keys, and Evenkeel's few; or those in force", EPILOG
    )
    parser.add_argument("match", nargs="?", default="", metavar="TEXT", help="only keys that contain this")
    parser.add_argument("--lake", metavar="DIR", help="where the tables are: show the values in force")
    parser.add_argument("--cluster", metavar="NAME", help="of this cluster (default: of all)")
    parser.add_argument("--all", action="store_true", help="also what is at its default everywhere")
    parser.add_argument("--differing", action="store_true", help="only keys in which clusters differ")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(run=run)
    parser = commands.add_parser("config", help="check the configuration file; print its JSON schema", epilog=CODES)
    acts = parser.add_subparsers(dest="act", required=True, metavar="ACT")
    check = acts.add_parser("check", help="say everything that is wrong with a configuration file", epilog=CODES)
    check.add_argument("file", nargs="?", metavar="FILE", help=f"the TOML file (default: ${CONFIGURATION})")
    add_json(check)
    check.set_defaults(run=run_check)
    schema = acts.add_parser("schema", help="print the JSON schema of a configuration file, for editors and tools")
    schema.set_defaults(run=run_schema)


def run(given: argparse.Namespace) -> int:
    """Print the keys; 1 if none matches."""
    if given.lake is None:
        if given.cluster is not None or given.differing or given.all:
            raise BadInput("--cluster, --all and --differing are about values in force: name the tables with --lake")
        keys = [key for key in describe() if given.match.lower() in key["key"].lower()]
        if given.json:
            print(json.dumps(keys, indent=1, default=sorted))
        elif keys:
            print("\n".join(_entry(key) for key in keys))
        return 0 if keys else _nothing_like(given.match)
    from evenkeel.explain.settings_in_force import read_settings_in_force

    in_force = read_settings_in_force(given.lake, given.cluster)
    chosen = [setting for setting in in_force.settings if _is_wanted(setting, given)]
    print(_as_json(in_force, chosen) if given.json else _as_text(in_force, chosen))
    return 0 if chosen else _nothing_like(given.match)


def _nothing_like(match: str) -> int:
    if match:
        print(f"evenkeel: no key contains {match!r}: {nearest(match)}", file=sys.stderr)
    return 1


def _entry(key: dict[str, Any]) -> str:
    unit = f" {key['unit']}" if key["unit"] else ""
    notes = "".join(f"\n    {note}" for note in key["notes"])
    return f"{key['key']} = {key['default_4_x']}{unit}\n    {key['meaning']} ({key['allowed']}){notes}"


def _is_wanted(setting: KeyInForce, given: argparse.Namespace) -> bool:
    if given.differing and not setting.differs:
        return False
    if given.match:
        return given.match.lower() in setting.key.lower()
    return given.all or given.differing or setting.is_changed


def _as_text(in_force: AllInForce, chosen: list[KeyInForce]) -> str:
    lines = [f"{cluster}: as decided at {at.isoformat()}" for cluster, at in sorted(in_force.cycles.items())]
    lines += [f"{cluster}: no cycle was decided yet" for cluster in in_force.without]
    for setting in chosen:
        unit = f" {setting.unit}" if setting.unit else ""
        lines += [f"{setting.key}{' (clusters differ)' if setting.differs else ''}", f"    {setting.meaning}"]
        for value in setting.values:
            default = "" if value.is_default else f", default {value.default}"
            lines.append(f"    {value.cluster}: {value.value}{unit} ({value.origin}{default})")
    return "\n".join(lines)


def _as_json(in_force: AllInForce, chosen: list[KeyInForce]) -> str:
    settings = [
        {
            **{name: value for name, value in asdict(key).items() if name != "values"},
            "differs": key.differs,
            "values": [
                {
                    "cluster": each.cluster,
                    "value": json.loads(each.value),
                    "origin": each.origin,
                    "default": json.loads(each.default),
                }
                for each in key.values
            ],
        }
        for key in chosen
    ]
    cycles = {name: at.isoformat() for name, at in sorted(in_force.cycles.items())}
    whole = {"version": VERSION, "cycles": cycles, "without": in_force.without, "settings": settings}
    return json.dumps(whole, indent=1, ensure_ascii=False)


FAULTY = 1
CODES = f"exit code of check: 0 the file is sound; 1 it has faults; 2 it cannot be read. Default: ${CONFIGURATION}"


def run_check(given: argparse.Namespace) -> int:
    """Print each fault in a line; return 1 if there is any."""
    from evenkeel.doctor.configuration_faults import configuration_faults

    name = given.file or os.environ.get(CONFIGURATION)
    if not name:
        raise BadInput(f"no configuration is named: give FILE, or set {CONFIGURATION}")
    file = Path(name)
    faults = configuration_faults(file)
    text = "\n".join(fault.words(file) for fault in faults) or f"{file} is sound"
    rows = [{"entry": fault.entry, "line": fault.line, "text": fault.text} for fault in faults]
    print_result(given, text, {"file": str(file), "sound": not faults, "faults": rows})
    return FAULTY if faults else 0


def run_schema(_: argparse.Namespace) -> int:
    """Print the schema."""
    from evenkeel.settings.configuration_file import configuration_schema

    print(json.dumps(configuration_schema(), indent=1, ensure_ascii=False))
    return 0
