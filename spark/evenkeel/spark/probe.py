"""First query of a new server: `python -m evenkeel.spark.probe FOLDER PORT PID`; exit code 0 once answered.

It is a process of its own, since a client whose server dies may wait for minutes, and a process can be ended. It also
keeps gRPC out of the caller, who may fork later.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import psutil

from evenkeel.spark.command import connect_url
from evenkeel.spark.home import Home, identity
from evenkeel.spark.session import close, connect

TICK_SECONDS = 0.1


def main(folder: Path, port: int, pid: int) -> int:
    """Wait until that very process listens on the port, then run one query."""
    import pyspark.sql.connect.session  # noqa: F401 - imported while the server starts, which takes as long

    asker = os.getppid()
    while not listens(port, pid):
        if identity(pid) is None or os.getppid() != asker:
            return 1  # the server is gone, or the caller is
        time.sleep(TICK_SECONDS)
    spark = connect(connect_url(port, Home(folder).token()), "first question")
    answered = spark.range(1).count() == 1
    close(spark)
    return 0 if answered else 1


def listens(port: int, pid: int) -> bool:
    """Return True if this very process has the port open for connections."""
    try:
        sockets = psutil.Process(pid).net_connections(kind="tcp")
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False
    return any(socket.status == psutil.CONN_LISTEN and socket.laddr.port == port for socket in sockets)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
