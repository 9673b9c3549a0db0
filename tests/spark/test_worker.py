"""A Python worker of a server that others share leaves its process and its daemon as Spark made them."""

import os
import subprocess
import sys

from evenkeel.spark.code import source_root

# A daemon of one session with a worker, forked as pyspark forks its own.
DAEMON = """
import os, signal, sys
from importlib.machinery import ModuleSpec
sys.modules["__main__"].__spec__ = ModuleSpec("pyspark.daemon", None)
from evenkeel.errors import StaleCode
from evenkeel.spark.worker import demand_code
heard = []
signal.signal(signal.SIGTERM, lambda *_: heard.append("signalled"))
leave = os._exit
if (worker := os.fork()) == 0:
    try:
        demand_code("other code", ())
    except StaleCode:
        os._exit(3 if os._exit is leave else 4)
_, status = os.waitpid(worker, 0)
print(os.waitstatus_to_exitcode(status), heard)
"""


def test_what_a_worker_ends_with_is_sparks_own_and_its_daemon_goes_on() -> None:
    environment = {**os.environ, "PYTHONPATH": str(source_root()), "SPARK_JOB_ARTIFACT_UUID": "1b4e28ba"}
    environment["SPARK_REUSE_WORKER"] = "1"
    command = [sys.executable, "-c", DAEMON]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=True)
    assert done.stdout == "3 []\n", done.stderr
