"""Start of Spark's JVM with Spark Connect in it, as a Py4J gateway like pyspark's own.

Connect's own main class gives every session Python workers of its own. Starting them cost each task a second, and they
stay until the server ends: 40 MB for every session that ever ran a grouped map. With this gateway all sessions share
the workers. The JVM ends when its standard input does, so it also ends if the process that started it is killed.
"""

from __future__ import annotations

import logging
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from evenkeel.spark import file_systems

MAIN_CLASS = "org.apache.spark.api.python.PythonGatewayServer"
_TOLD = "_PYSPARK_DRIVER_CONN_INFO_PATH"
_TICK_SECONDS = 0.05


def classes_folder(folder: Path) -> Path:
    """Return the folder on the class path for the classes that the JVM compiles as it starts."""
    return folder / "scratch" / "classes"


def start(
    command: Sequence[str], environment: Mapping[str, str], folder: Path, output: IO[str]
) -> subprocess.Popen[bytes]:
    """Start the JVM, which serves some seconds later, or ends with the reason on its standard error."""
    import py4j.java_gateway  # noqa: F401 (not first in the thread that uses it)

    gateway_file = folder / "gateway"
    gateway_file.unlink(missing_ok=True)
    server = subprocess.Popen(
        command, env={**environment, _TOLD: str(gateway_file)}, cwd=folder, stdin=subprocess.PIPE, stdout=output
    )
    with_object_store = "hadoop-aws-" in command[command.index("-cp") + 1]
    arguments = (server, gateway_file, classes_folder(folder), with_object_store)
    threading.Thread(target=_serve, args=arguments, name="gateway", daemon=True).start()
    return server


def _serve(server: subprocess.Popen[bytes], gateway_file: Path, classes: Path, with_object_store: bool) -> None:
    """Make a Spark session in the JVM and serve it; end the JVM if that fails."""
    from py4j.java_gateway import GatewayParameters, JavaGateway

    try:
        while not gateway_file.exists():
            if server.poll() is not None:
                return
            time.sleep(_TICK_SECONDS)
        content = gateway_file.read_bytes()
        gateway_file.unlink()
        port, length = struct.unpack("!ii", content[:8])
        secret = content[8 : 8 + length].decode()
        logging.getLogger("py4j").setLevel(logging.CRITICAL)  # it complains when the JVM ends before its objects
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=secret))
        file_systems.compile_into(gateway, classes, with_object_store=with_object_store)
        session = gateway.jvm.org.apache.spark.sql.classic.SparkSession.builder().getOrCreate()
        gateway.jvm.org.apache.spark.sql.connect.service.SparkConnectService.start(session.sparkContext())
        gateway.close()
    except Exception as error:  # whatever the error, a JVM without a session is useless
        sys.stderr.write(f"{error}\n")
        sys.stderr.flush()
        server.terminate()
