"""`python -m evenkeel.engine`: becomes the Connect server, in the foreground, for containers and process managers.

The server that commands on one machine share is started by `server.ensure` instead.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from evenkeel.engine.command import ServerSettings, server_command, server_environment
from evenkeel.engine.home import Home
from evenkeel.errors import EvenkeelError


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Replaces this process by the JVM; memory and cores come from EVENKEEL_SERVER_MEMORY and EVENKEEL_SERVER_CORES."""
    parser = argparse.ArgumentParser(prog="python -m evenkeel.engine", description=__doc__)
    parser.add_argument("--home", type=Path, default=Path.cwd(), help="folder for its scratch files (default: here)")
    parser.add_argument("--port", type=int, default=15002)
    parser.add_argument("--address", default="127.0.0.1", help="whoever can reach it can run code there")
    given = parser.parse_args(arguments)
    settings = ServerSettings()
    place = Home.of(given.home)
    place.scratch.mkdir(exist_ok=True)
    try:
        command = server_command(given.port, place.folder, settings, given.address)
    except EvenkeelError as error:
        sys.exit(str(error))
    os.execve(command[0], command, server_environment(settings))


if __name__ == "__main__":
    main()
