"""`evenkeel collect`: snapshots of a running cluster as a recording, for decisions taken elsewhere or later."""

from __future__ import annotations

import argparse
import math
import sys
import time
from datetime import UTC, datetime
from threading import Event
from typing import TYPE_CHECKING, Any

from evenkeel.cli import options
from evenkeel.cli.output import add_command, add_json, as_line
from evenkeel.ending import until_signalled
from evenkeel.errors import LandingError, SettingsError, Unreachable
from evenkeel.model.amounts import plural
from evenkeel.times import utc_seconds

if TYPE_CHECKING:
    from evenkeel.pulsar.admin import AdminClient, AdminConnection
    from evenkeel.pulsar.limits import Limits
    from evenkeel.sources.collecting import TakenSnapshot, WantedSnapshot
    from evenkeel.sources.landing import SnapshotStore

EVERY_SECONDS = 60.0
FULL_EVERY = 8
INTERRUPTED = 130
_MOST = 1_000_000_000
EPILOG = """exit codes: 0 all snapshots asked for were taken (also: an endless run was ended by Ctrl-C or SIGTERM);
1 some could not be taken; 2 none could be taken, or an option is wrong; 130 interrupted before --count was reached.
A broker that does not answer is part of the snapshot and no failure."""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `collect`."""
    parser = add_command(commands, "collect", "record snapshots of a running cluster", EPILOG)
    options.add_brokers(parser)
    parser.add_argument(
        "--cluster",
        metavar="NAME",
        help="a cluster of the configuration (default: its only one); with --admin: its name in S3 (default: its own)",
    )
    parser.add_argument(
        "--to",
        metavar="DIR|s3://BUCKET/PREFIX",
        required=True,
        help="where the snapshots go; a folder is made if missing",
    )
    parser.add_argument("--spool", metavar="DIR", help="with S3: where snapshots wait that could not be uploaded")
    parser.add_argument("--count", type=int, metavar="N", help="how many (default: 1; with --every without end)")
    parser.add_argument(
        "--every", type=float, metavar="SECONDS", help=f"from start to start (default: {EVERY_SECONDS:g})"
    )
    parser.add_argument(
        "--full-every",
        type=int,
        default=FULL_EVERY,
        metavar="K",
        help=f"topic lists in every Kth (default: {FULL_EVERY})",
    )
    options.add_admin_options(parser)
    parser.add_argument("--note", metavar="TEXT", default="", help="a note for every snapshot")
    add_json(parser, "one JSON object per snapshot")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Take the snapshots; see `EPILOG` for the exit codes."""
    from evenkeel.pulsar.admin import AdminClient
    from evenkeel.sources.collecting import PARALLEL
    from evenkeel.sources.landing_zone.spool import S3_SCHEME, store_of

    count = _count(given)
    cluster, connection, limits, silent_seconds = _connection(given)
    if given.spool and not given.to.startswith(S3_SCHEME):
        raise SettingsError(f"--spool goes with --to {S3_SCHEME}…: a local folder needs none")
    store = store_of(
        given.to,
        cluster=cluster,
        spool=given.spool,
        say=lambda text: print(f"{utc_seconds(datetime.now(UTC))}  {text}", file=sys.stderr, flush=True),
        limits=limits,
    )
    ended = Event()
    with AdminClient(connection, most_connections=PARALLEL, limits=limits, folder=store.folder) as client:
        collecting = _CollectRun(given, client, store, count, limits, silent_seconds, ended)
        return until_signalled(collecting.snapshots, ended.set)


class _CollectRun:
    """One run of the command."""

    def __init__(
        self,
        given: argparse.Namespace,
        client: AdminClient,
        store: SnapshotStore,
        count: int | float,
        limits: Limits,
        silent_seconds: float,
        ended: Event,
    ) -> None:
        self._ended = ended
        self._given, self._client, self._store, self._count = given, client, store, count
        self._limits, self._silent_seconds = limits, silent_seconds
        self._number = store.next_number()
        self._taken = self._missed = 0
        self._lent: frozenset[str] = frozenset()  # bundles whose quotas the last full snapshot lends

    def snapshots(self) -> int:
        every = self._given.every or EVERY_SECONDS
        due = time.monotonic()
        try:
            while True:
                self._one()
                if self._taken + self._missed >= self._count:
                    break
                # A snapshot that took longer than its turn does not make the next ones hurry.
                due = max(due + every, time.monotonic())
                if self._ended.wait(due - time.monotonic()):
                    raise KeyboardInterrupt
        except KeyboardInterrupt:
            print(f"ended; {plural(self._taken, 'snapshot')} in {self._given.to}", file=sys.stderr, flush=True)
            return 0 if math.isinf(self._count) and self._taken else INTERRUPTED
        return 1 if self._missed else 0

    def _one(self) -> None:
        from evenkeel.pulsar.limits import BeyondLimit
        from evenkeel.sources.collecting import WantedSnapshot, take_snapshot

        full = self._taken % self._given.full_every == 0
        known = frozenset() if full else self._lent
        wanted = WantedSnapshot(self._number, full, self._given.note, known=known)
        label = f"[{self._taken + self._missed + 1}{'' if math.isinf(self._count) else f'/{self._count}'}]"
        try:
            writer = self._store.begin(f"{self._number:04d}")
            taken = take_snapshot(
                self._client,
                writer,
                wanted,
                silent_seconds=self._silent_seconds,
                limits=self._limits,
                ended=self._ended,
            )
        except (Unreachable, LandingError, BeyondLimit) as error:
            if self._count == 1:
                raise
            self._missed += 1
            print(f"{label} {utc_seconds(datetime.now(UTC))}  not taken: {error}", file=sys.stderr, flush=True)
            if self._missed == self._count:
                raise type(error)(f"none of {self._missed} snapshots could be taken; the last one: {error}") from None
            return
        if not taken.committed:
            raise LandingError(
                f"{self._given.to} has a snapshot {self._number:04d} by now: does another run write there?"
            )
        self._number += 1
        self._taken += 1
        if taken.head.has_configuration:
            self._lent = taken.quotas
        print(f"{label} {_line(wanted, taken)}", file=sys.stderr, flush=True)
        if self._given.json:
            print(as_line(_result(wanted, taken)), flush=True)


def _result(wanted: WantedSnapshot, taken: TakenSnapshot) -> dict[str, Any]:
    return {
        "number": wanted.n,
        "full": wanted.full,
        "finished_at": taken.head.finished_at,
        "brokers": taken.brokers,
        "requests": taken.tally.requests,
        "not_answered": taken.tally.not_answered,
        "characters": taken.tally.characters,
        "seconds": round(taken.seconds, 3),
    }


def _line(wanted: WantedSnapshot, taken: TakenSnapshot) -> str:
    kind = "full  " if wanted.full else ""
    tally = taken.tally
    return (
        f"{taken.head.finished_at:%Y-%m-%dT%H:%M:%SZ}  {wanted.n:04d}  {kind}{plural(taken.brokers, 'broker')}  "
        f"{plural(tally.requests, 'request')}, {tally.not_answered} not answered  {tally.characters / 1e6:.2f} MB  "
        f"{taken.seconds:.1f} s"
    )


def _connection(given: argparse.Namespace) -> tuple[str | None, AdminConnection, Limits, float]:
    """Return the cluster's given name, its address, how much is read of it, and its time limit in seconds."""
    from evenkeel.pulsar.admin.connection import from_environment
    from evenkeel.pulsar.limits import DEFAULT
    from evenkeel.settings.cluster_entries import SILENT_SECONDS
    from evenkeel.sources.collecting import connection_of
    from evenkeel.sources.configuration import choose, read_configuration
    from evenkeel.sources.landing_zone.spool import S3_SCHEME

    if given.config:
        options.refuse_admin_options(given)
        live = [source for source in read_configuration(given.config) if source.live is not None]
        if not live:
            raise SettingsError(f"{given.config} names no running cluster: give one of them `admin`")
        chosen = choose(live, [given.cluster] if given.cluster else ())
        if len(chosen) > 1:
            raise SettingsError(f"--cluster is missing: {given.config} has {', '.join(str(s.cluster) for s in chosen)}")
        (one,) = chosen
        assert one.live is not None
        return one.cluster, connection_of(one.live, from_environment), one.limits, one.live.silent_seconds
    if given.cluster and not given.to.startswith(S3_SCHEME):
        raise SettingsError("--cluster goes with --config or with S3: --admin names the cluster by its address")
    return given.cluster, options.connection_by_address(given), DEFAULT, SILENT_SECONDS


def _count(given: argparse.Namespace) -> int | float:
    if given.count is not None and not 1 <= given.count <= _MOST:
        raise SettingsError(f"--count {given.count}: at least 1, and {_MOST:,} at most")
    if given.every is not None and not 0 < given.every <= _MOST:
        raise SettingsError(f"--every {given.every:g}: more than 0 seconds, and {_MOST:,} at most")
    if given.full_every < 1:
        raise SettingsError(f"--full-every {given.full_every}: at least 1")
    if given.count is None:
        return 1 if given.every is None else math.inf
    return int(given.count)
