"""`python -m evenkeel.spark`: the Connect server in the foreground, for containers and process managers.

The server that commands on one machine share is started by `server.ensure` instead.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from evenkeel.errors import EvenkeelError
from evenkeel.object_store import hand_over, is_configured
from evenkeel.spark import gateway
from evenkeel.spark.command import HOST, ServerSettings, server_command, server_environment, token_given
from evenkeel.spark.home import Home


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or Ctrl-C, then return 0; else return the JVM's exit code.

    Memory and cores come from EVENKEEL_SERVER_MEMORY and EVENKEEL_SERVER_CORES. The token that clients have to show
    comes from EVENKEEL_SPARK_TOKEN or the file that EVENKEEL_SPARK_TOKEN_FILE names. Without either it is made and kept
    in the home's `.evenkeel/token`. Keys of an object store come from the environment, as `evenkeel.object_store` says.
    """
    parser = argparse.ArgumentParser(prog="python -m evenkeel.spark", description=__doc__)
    parser.add_argument("--home", type=Path, default=Path.cwd(), help="folder of its scratch files (default: current)")
    parser.add_argument("--port", type=int, default=15002)
    parser.add_argument(
        "--address", default=HOST, help="nothing is encrypted: beyond loopback, put a proxy with TLS in front"
    )
    given = parser.parse_args(arguments)
    settings = ServerSettings()
    try:
        place = Home.of(given.home)
        place.scratch.mkdir(exist_ok=True)
        token = token_given() or place.token()
        if is_configured():
            hand_over(place.folder, None)
        command = server_command(given.port, place.folder, settings, given.address)
    except EvenkeelError as error:
        sys.exit(str(error))
    server = gateway.start(command, server_environment(settings, token), place.folder, sys.stdout)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda _number, _frame: server.terminate())
    exit_code = server.wait()
    return 0 if exit_code in (-signal.SIGTERM, 128 + signal.SIGTERM) else exit_code


if __name__ == "__main__":
    sys.exit(main())
