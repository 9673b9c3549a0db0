"""How commands that talk to brokers are told where these are: by a configuration, or by their addresses."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from evenkeel.errors import SettingsError

if TYPE_CHECKING:
    from evenkeel.pulsar.admin import AdminConnection

_WITH_ADMIN = ("token_env", "ca_file", "broker_url")


def add_source(parser: argparse.ArgumentParser) -> None:
    """A configuration, or addresses."""
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--config", metavar="FILE", help="a TOML file with clusters; --cluster says which")
    source.add_argument("--admin", metavar="URL", nargs="+", help="web addresses of brokers, tried in order")


def add_admin_options(parser: argparse.ArgumentParser) -> None:
    """What goes with addresses."""
    parser.add_argument("--token-env", metavar="VAR", help="with --admin: the variable that holds the token")
    parser.add_argument("--ca-file", metavar="FILE", help="with --admin: certificates to trust")
    parser.add_argument(
        "--broker-url", metavar="URL", help="with --admin: where a broker is asked, https://{host}:8443"
    )


def refuse_admin_options(given: argparse.Namespace) -> None:
    """A configuration says itself what goes with addresses."""
    for option in _WITH_ADMIN:
        if getattr(given, option):
            raise SettingsError(f"--{option.replace('_', '-')} goes with --admin: a configuration says it itself")


def connection_by_address(given: argparse.Namespace) -> AdminConnection:
    """The connection that --admin and what goes with it make."""
    from evenkeel.pulsar.admin import AdminConnection
    from evenkeel.pulsar.admin.connection import from_variable

    found = from_variable(given.token_env) if given.token_env else None
    if given.token_env and found is None:
        raise SettingsError(
            f"--token-env {given.token_env}: the variable is not set, and {given.token_env}_FILE neither"
        )
    token = found.token if found is not None else None
    return AdminConnection(tuple(given.admin), token=token, ca_file=given.ca_file, broker_url=given.broker_url)
