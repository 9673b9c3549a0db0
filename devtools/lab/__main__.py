"""`python -m devtools.lab`: a cluster by hand."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from devtools.lab.cluster import Cluster, find, up
from devtools.lab.prepare import prepare
from devtools.lab.releases import LATEST, releases
from devtools.lab.settings import MANAGERS, SHEDDERS, LabSettings
from evenkeel.errors import EvenkeelError

HOME = Path(".evenkeel/lab")


def main(arguments: Sequence[str] | None = None) -> int:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    given = _parser().parse_args(arguments)
    try:
        code: int = given.act(given)
        return code
    except EvenkeelError as error:
        sys.exit(str(error))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m devtools.lab", description="A real Pulsar cluster on loopback.")
    parser.add_argument("--home", type=lambda text: Path(text).resolve(), default=HOME.resolve())
    acts = parser.add_subparsers(required=True, metavar="COMMAND")

    def act(name: str, does: Callable[[argparse.Namespace], int], about: str) -> argparse.ArgumentParser:
        subparser = acts.add_parser(name, help=about)
        subparser.set_defaults(act=does)
        return subparser

    act("prepare", _prepare, "fetch jars, make the class archive").add_argument("--version", default=LATEST)
    start = act("up", _up, "start a cluster that stays until `down`")
    start.add_argument("--version", default=LATEST, choices=releases())
    start.add_argument("--manager", default="modular", choices=sorted(MANAGERS))
    start.add_argument("--brokers", type=int, default=3)
    start.add_argument("--auth", action="store_true")
    start.add_argument("--own-shedding", choices=sorted(SHEDDERS))
    start.add_argument("--own-split", action="store_true")
    start.add_argument("--cpu-percent", type=int)
    start.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a broker setting")
    act("down", _down, "end it and remove its folder")
    act("status", _status, "one line for each process; exit code 0 if all brokers are ready")
    act("urls", _urls, "admin URLs, one a line, then the service URL")
    act("token", _token, "a token for a role").add_argument("role")
    act("kill-broker", _kill, "SIGKILL").add_argument("number", type=int)
    act("start-broker", _start, "start a killed broker again").add_argument("number", type=int)
    return parser


def _prepare(given: argparse.Namespace) -> int:
    prepare(given.version)
    return 0


def _up(given: argparse.Namespace) -> int:
    settings = LabSettings(
        version=given.version,
        manager=given.manager,
        brokers=given.brokers,
        auth=given.auth,
        own_shedding=given.own_shedding,
        own_split=given.own_split,
        cpu_percent=given.cpu_percent,
        broker=dict(line.split("=", 1) for line in given.set),
    )
    prepare(settings.version)
    began = time.monotonic()
    cluster = up(given.home, settings, owner=None)
    print(f"{settings.brokers} brokers after {time.monotonic() - began:.1f} s")
    return _print_urls(cluster)


def _down(given: argparse.Namespace) -> int:
    find(given.home).down()
    return 0


def _status(given: argparse.Namespace) -> int:
    cluster = find(given.home)
    for jvm in cluster.jvms():
        print(
            f"{jvm.name:<10} {jvm.identity() or 'down':<18} {jvm.resident_mb():4.0f} MB {jvm.cpu_seconds():6.1f} s CPU"
        )
    waiting = [number for number in cluster.numbers if not cluster.is_ready(number)]
    print(f"not ready: {', '.join(map(cluster.broker_id, waiting))}" if waiting else "all brokers are ready")
    return 1 if waiting else 0


def _urls(given: argparse.Namespace) -> int:
    return _print_urls(find(given.home))


def _print_urls(cluster: Cluster) -> int:
    print(*cluster.urls, cluster.service_url, sep="\n")
    return 0


def _token(given: argparse.Namespace) -> int:
    print(find(given.home).token(given.role) or "")
    return 0


def _kill(given: argparse.Namespace) -> int:
    find(given.home).kill_broker(given.number)
    return 0


def _start(given: argparse.Namespace) -> int:
    find(given.home).start_broker(given.number)
    return 0


if __name__ == "__main__":
    sys.exit(main())
