"""`evenkeel paths`: the folders that Airflow reads, in a checkout or where a wheel has installed them."""

from __future__ import annotations

import argparse

from evenkeel.cli.output import add_json, print_result
from evenkeel.spark.code import folder_beside, source_root, suites_folder

EPILOG = """In Airflow:
  AIRFLOW__CORE__DAGS_FOLDER=$(evenkeel paths dags)
  AIRFLOW__CORE__PLUGINS_FOLDER=$(evenkeel paths plugins)
Where both have files of your own: docs/how-to/airflow.md has a DAG bundle and a link."""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `paths`."""
    parser = commands.add_parser(
        "paths",
        help="where the DAGs, the plugin and the expectations of this installation lie",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", nargs="?", choices=("dags", "plugins", "expectations", "package", "preload"))
    add_json(parser)
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
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
