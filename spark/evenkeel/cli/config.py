"""`evenkeel config`: check the one file in which an operator configures all, and print its JSON schema."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from evenkeel.cli.output import add_json, print_result
from evenkeel.errors import BadInput
from evenkeel.settings.operation import CONFIGURATION

FAULTY = 1
EPILOG = f"exit code of check: 0 the file is sound; 1 it has faults; 2 it cannot be read. Default: ${CONFIGURATION}"


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `config`."""
    parser = commands.add_parser("config", help="check the configuration file; print its JSON schema", epilog=EPILOG)
    acts = parser.add_subparsers(dest="act", required=True, metavar="ACT")
    check = acts.add_parser("check", help="say everything that is wrong with a configuration file", epilog=EPILOG)
    check.add_argument("file", nargs="?", metavar="FILE", help=f"the TOML file (default: ${CONFIGURATION})")
    add_json(check)
    check.set_defaults(run=run_check)
    schema = acts.add_parser("schema", help="print the JSON schema of a configuration file, for editors and tools")
    schema.set_defaults(run=run_schema)


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
