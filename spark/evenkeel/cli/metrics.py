"""`evenkeel metrics`: figures of a lake for Prometheus, served until the command is ended."""

from __future__ import annotations

import argparse
import ipaddress
import os
from pathlib import Path

from evenkeel.cli.lakes import add_lake_option, lakes_chosen
from evenkeel.cli.output import add_command, log_to_stderr
from evenkeel.ending import until_signalled
from evenkeel.errors import BadInput, SettingsError
from evenkeel.secret import Secret, private_text
from evenkeel.settings.operation import CONFIGURATION

_EVERY = (1.0, 3600.0)
_SHORTEST_TOKEN = 32
_EXAMPLE = "127.0.0.1:9464"
EPILOG = """GET /metrics answers with the last reading; the lake is read in the background, without a JVM. GET /health
answers as long as the command serves. Beyond this machine, put a proxy with TLS before it.
With several configured lakes every metric has the label `lake`. The configuration file is read again when it
has changed.
Metrics, rules and a dashboard: docs/how-to/monitoring.md.
exit codes: 0 ended by SIGTERM or Ctrl-C; 2 it cannot serve, see the error message."""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `metrics`."""
    parser = add_command(commands, "metrics", "serve figures of a lake to Prometheus", EPILOG)
    add_lake_option(parser, "as configured: all lakes, with the label `lake`")
    parser.add_argument("--listen", metavar="HOST:PORT", required=True, help=f"where to listen, e.g. {_EXAMPLE}")
    parser.add_argument(
        "--token-file",
        metavar="FILE",
        help="a file that its owner alone may read: scrapers send the token in it (needed beyond loopback)",
    )
    parser.add_argument(
        "--every", metavar="SECONDS", type=float, default=30.0, help="how often the lake is read (default: 30)"
    )
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT."""
    server_address, token = _address_in(given.listen), _token(given.token_file)
    if token is None and not _is_loopback(server_address[0]):
        raise BadInput(
            f"--listen {given.listen}: beyond 127.0.0.1 scrapers need a token: give --token-file FILE "
            "(`openssl rand -hex 32`, chmod 600)"
        )
    if not _EVERY[0] <= given.every <= _EVERY[1]:
        raise BadInput(f"--every {given.every:g}: from {_EVERY[0]:g} to {_EVERY[1]:g} seconds")
    lakes = lakes_chosen(given)
    from evenkeel.metrics.exporter import MetricsServer
    from evenkeel.metrics.lake_watch import ConfigurationWatch, LakeWatch

    log_to_stderr("evenkeel.metrics")
    is_configured = not given.lake and os.environ.get(CONFIGURATION)
    (first, *_) = lakes.lakes
    watch: LakeWatch | ConfigurationWatch = (
        ConfigurationWatch(lakes, given.every) if is_configured else LakeWatch(first.path, given.every)
    )
    try:
        server = MetricsServer(server_address, watch, token)
    except OSError as error:
        problem = f"--listen {given.listen}: nothing can listen there: {error.strerror or error}"
        raise BadInput(problem) from None
    watch.start()
    host, port = str(server.server_address[0]), int(server.server_address[1])
    print(f"http://{f'[{host}]' if ':' in host else host}:{port}/metrics", flush=True)
    try:
        until_signalled(server.serve_forever, server.shutdown)
    finally:
        server.server_close()
        watch.stop()
    return 0


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name; its address may change
        return host == "localhost"


def _token(file: str | None) -> Secret | None:
    if file is None:
        return None
    token = Secret(private_text(Path(file), "--token-file"))
    if len(token.reveal()) < _SHORTEST_TOKEN:
        raise SettingsError(
            f"--token-file {file}: the token has fewer than {_SHORTEST_TOKEN} characters: `openssl rand -hex 32`"
        )
    return token


def _address_in(text: str) -> tuple[str, int]:
    """Host and port of HOST:PORT, an IPv6 host in brackets. Raises BadInput."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise BadInput(f"--listen {text[:60]!r}: write HOST:PORT, e.g. {_EXAMPLE}")
    return host.strip("[]"), int(port)
