"""`evenkeel takeover` and `handback`: the brokers' own shedding and auto-split, off and back, recorded."""

from __future__ import annotations

import argparse
import json

from evenkeel.cli.control import say
from evenkeel.cli.options import add_on_record, said_by
from evenkeel.cli.output import add_json, print_result
from evenkeel.cli.progress import busy_with
from evenkeel.errors import BadInput, SettingsError
from evenkeel.lake.controls import HANDBACK, TAKEOVER, control_row, last_switches
from evenkeel.lake.record import read_table
from evenkeel.pulsar.admin import AdminClient
from evenkeel.steering.broker_switches import OFF, Values


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of both."""
    for word, run, text in (
        ("takeover", run_takeover, "switch the brokers' own shedding and auto-split off, so that a cluster is steered"),
        ("handback", run_handback, "give a cluster back to its brokers, with their switches as they were before"),
    ):
        parser = commands.add_parser(word, help=text)
        parser.add_argument("cluster", metavar="CLUSTER")
        parser.add_argument("--config", required=True, metavar="FILE", help="the configuration that names its brokers")
        add_on_record(parser, "reason, which is recorded")
        add_json(parser)
        parser.set_defaults(run=run)


def run_takeover(given: argparse.Namespace) -> int:
    """Record the switches, then switch them off and wait until every broker reports so."""
    from evenkeel.steering.broker_switches import await_off, dynamic_values, set_values

    with _client(given) as client:
        noted = _noted(given)
        before = dynamic_values(client)
        if noted is None:  # recorded before any change, so that a second takeover still knows the first state
            _record(given, TAKEOVER, before)
        set_values(client, dict.fromkeys(before, OFF))
        with busy_with("waiting until every broker says that it is off"):
            await_off(client)
    restored = before if noted is None else noted
    words = (
        f"the brokers of {given.cluster} neither shed nor split by themselves any more\n"
        f"`evenkeel handback {given.cluster}` restores their switches: {_in_words(restored)}"
    )
    print_result(given, words, {"cluster": given.cluster, "kind": TAKEOVER, "switches": dict(restored)})
    return 0


def run_handback(given: argparse.Namespace) -> int:
    """Set the switches to their values before the takeover."""
    from evenkeel.steering.broker_switches import set_values

    noted = _noted(given)
    if noted is None:
        raise BadInput(
            f"no takeover of {given.cluster} is on record in {given.lake}, so it is not known what its switches were: "
            "set them by `pulsar-admin brokers update-dynamic-config` or `delete-dynamic-config`"
        )
    with _client(given) as client:
        set_values(client, noted)
    _record(given, HANDBACK, noted)
    words = f"{given.cluster} is its brokers' own again: {_in_words(noted)}"
    print_result(given, words, {"cluster": given.cluster, "kind": HANDBACK, "switches": dict(noted)})
    return 0


def _noted(given: argparse.Namespace) -> Values | None:
    """Return the values before the takeover in force, None if no takeover is."""
    return last_switches(read_table(given.lake, "controls", cluster=given.cluster))


def _record(given: argparse.Namespace, kind: str, values: Values) -> None:
    row = control_row(given.cluster, kind, said_by(given), given.reason)
    row["switches"] = json.dumps(values, sort_keys=True)
    say(given.lake, "controls", row, cluster=[given.cluster], kind=[TAKEOVER, HANDBACK])


def _client(given: argparse.Namespace) -> AdminClient:
    from evenkeel.pulsar.admin.connection import from_environment
    from evenkeel.sources.collecting import connection_of
    from evenkeel.sources.configuration import choose, read_configuration

    (source,) = choose(read_configuration(given.config), [given.cluster])
    if source.live is None:
        raise SettingsError(
            f"{given.config} names no `admin` for {given.cluster}: its brokers cannot be reached from this machine"
        )
    return AdminClient(connection_of(source.live, from_environment))


def _in_words(values: Values) -> str:
    by_file = "as the brokers' files say"
    return ", ".join(f"{key} {by_file if value is None else value}" for key, value in sorted(values.items()))
