"""`evenkeel agent`: carries out, beside a cluster, the commands that come over its queue."""

from __future__ import annotations

import argparse
import os
import socket
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from evenkeel.cli import options
from evenkeel.cli.output import add_command, log_to_stderr
from evenkeel.errors import SettingsError
from evenkeel.steering.agent.setup import AgentSettings
from evenkeel.steering.outcome import LONGEST_REQUEST_S

if TYPE_CHECKING:
    from evenkeel.pulsar.admin import AdminConnection
    from evenkeel.sources.configuration import ClusterSource

PAUSED_VARIABLE = "EVENKEEL_PAUSED_FILE"
_DAY_S = 86_400.0
EPILOG = """Credentials, region and endpoint of the queues come from where boto3 takes them: the environment
(AWS_ACCESS_KEY_ID, AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_SQS, …), ~/.aws, or the machine's role.
While the file of --paused-file exists, nothing is sent: commands that come in are answered `withheld`, for good.
SIGTERM lets it finish what is under way; give it longer than --longest-request.
exit codes: 0 ended by SIGTERM, Ctrl-C or because there was nothing left to do; 2 it cannot work, see the message."""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `agent`."""
    parser = add_command(commands, "agent", "carry out commands from a queue beside a cluster, and report back", EPILOG)
    parser.add_argument("--cluster", metavar="NAME", required=True, help="the cluster whose commands it carries out")
    parser.add_argument("--queue", metavar="URL", required=True, help="the FIFO queue that brings the commands")
    parser.add_argument("--reports", metavar="URL", required=True, help="the FIFO queue that takes the reports")
    parser.add_argument(
        "--keys",
        metavar="NAME",
        help="the name of the keys that sign both queues' messages: $EVENKEEL_KEYS_NAME holds them, or the file that "
        "$EVENKEEL_KEYS_NAME_FILE names (default: as --config says, else queue_CLUSTER)",
    )
    parser.add_argument(
        "--clock-tolerance",
        type=float,
        default=300.0,
        metavar="SECONDS",
        help="a message signed further ahead of the queue's clock than this is not believed (default: 300)",
    )
    options.add_brokers(parser)
    options.add_admin_options(parser)
    _add_work(parser)
    parser.set_defaults(run=run)


def _add_work(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ledger", metavar="FILE", help="its memory, on a local disk (default: .evenkeel/agent/CLUSTER.db)"
    )
    parser.add_argument("--name", metavar="NAME", default=socket.gethostname(), help="in reports (default: the host)")
    parser.add_argument(
        "--paused-file",
        metavar="FILE",
        default=os.environ.get(PAUSED_VARIABLE),
        help=f"send nothing while this file exists (default: ${PAUSED_VARIABLE})",
    )
    parser.add_argument("--in-flight", type=int, default=4, metavar="N", help="commands under way at most (default: 4)")
    parser.add_argument("--per-second", type=float, default=2.0, metavar="R", help="commands begun (default: 2)")
    parser.add_argument(
        "--longest-request",
        type=float,
        default=LONGEST_REQUEST_S,
        metavar="SECONDS",
        help="after so long no effect of a request can come (default: 65; the brokers give up after 60)",
    )
    parser.add_argument(
        "--visibility", type=int, default=120, metavar="SECONDS", help="how long a message is held (default: 120)"
    )
    end = parser.add_mutually_exclusive_group()
    end.add_argument("--once", action="store_true", help="end when the queue gives nothing more")
    end.add_argument("--until-idle", type=float, metavar="SECONDS", help="end after so long without work")


def run(given: argparse.Namespace) -> int:
    """Work until ended by a signal."""
    from evenkeel.ending import until_signalled
    from evenkeel.pulsar.admin import AdminClient
    from evenkeel.steering.agent.ledger import Ledger
    from evenkeel.steering.agent.processor import ClusterExecutor
    from evenkeel.steering.agent.service import Agent
    from evenkeel.steering.agent.setup import QueueClock

    log_to_stderr("evenkeel.steering.agent")
    source = options.configured_source(given.config, given.cluster) if given.config else None
    settings = _settings(given, source)
    clock = QueueClock()
    with AdminClient(_connection(given, source)) as client:
        carrier = ClusterExecutor(client, longest_request_s=settings.longest_request_s, now=clock.now)
        ledger = Ledger(settings.ledger, settings.cluster, settings.name)
        try:
            agent = Agent(settings, carrier, ledger, clock)
            until_signalled(agent.run, agent.stop)
        finally:
            ledger.close()
    return 0


def _settings(given: argparse.Namespace, source: ClusterSource | None) -> AgentSettings:
    from evenkeel.settings.names import default_keys
    from evenkeel.steering.queue.signing import Signature, resolved_keys

    configured = source.queues.keys if source is not None and source.queues is not None else None
    name = given.keys if given.keys is not None else configured or default_keys(given.cluster)
    if not 0 <= given.clock_tolerance <= _DAY_S:
        raise SettingsError(f"--clock-tolerance {given.clock_tolerance:g}: from 0 to {_DAY_S:g} seconds")
    return AgentSettings(
        signature=Signature(given.cluster, resolved_keys(name), timedelta(seconds=given.clock_tolerance)),
        queue=given.queue,
        reports=given.reports,
        ledger=Path(given.ledger) if given.ledger else _own_ledger(given.cluster),
        name=given.name,
        paused_file=Path(given.paused_file) if given.paused_file else None,
        most_in_flight=given.in_flight,
        per_second=given.per_second,
        visibility_s=given.visibility,
        longest_request_s=given.longest_request,
        idle_s=0.0 if given.once else given.until_idle,
    )


def _own_ledger(cluster: str) -> Path:
    """Return the ledger in a folder that only its own user may read, whichever process creates it first."""
    from evenkeel.spark.home import Home

    return Home.of(options.engine_home()).folder / "agent" / f"{quote(cluster, safe='')}.db"


def _connection(given: argparse.Namespace, source: ClusterSource | None) -> AdminConnection:
    from evenkeel.pulsar.admin.connection import from_environment
    from evenkeel.sources.collecting import connection_of

    if source is not None:
        options.refuse_admin_options(given)
        if source.live is None:
            raise SettingsError(f"{given.cluster} is not a running cluster in {given.config}: give it `admin`")
        return connection_of(source.live, from_environment)
    return options.connection_by_address(given)
