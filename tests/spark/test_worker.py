"""The daemon of one session's Python workers ends with the last of them, and no other daemon does."""

import os
import subprocess
import sys

import pytest

from evenkeel.spark.code import source_root

# A daemon with two workers, forked as pyspark forks its own; they end one after the other.
DAEMON = """
import os, signal, sys
from importlib.machinery import ModuleSpec
sys.modules["__main__"].__spec__ = ModuleSpec(sys.argv[1], None)
from evenkeel.spark.worker import end_with_the_last
say = lambda words: os.write(1, words + b"\\n")  # at once: three processes share the pipe
signal.signal(signal.SIGTERM, lambda *_: (say(b"ended"), os._exit(0)))

def fork(gate):
    pid = os.fork()
    if pid == 0:
        end_with_the_last()
        end_with_the_last()
        say(b"ready")
        os.read(gate, 1)
        os._exit(0)
    return pid

gates = [os.pipe() for _ in range(2)]
workers = [fork(gate[0]) for gate in gates]
for (_, gate), worker in zip(gates, workers):
    os.write(gate, b"x")
    os.waitpid(worker, 0)
    say(b"worker ended")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="children are read from /proc")
@pytest.mark.parametrize(
    ("module", "session", "reused", "ends"),
    [
        ("pyspark.daemon", "1b4e28ba", "1", True),
        ("pyspark.daemon", "default", "1", False),
        ("pyspark.daemon", "1b4e28ba", None, False),
        ("evenkeel.spark.daemon", "1b4e28ba", "1", False),
    ],
)
def test_the_last_worker_of_a_session_takes_its_daemon_along(
    module: str, session: str, reused: str | None, ends: bool
) -> None:
    environment = {**os.environ, "PYTHONPATH": str(source_root()), "SPARK_JOB_ARTIFACT_UUID": session}
    environment.pop("SPARK_REUSE_WORKER", None)
    if reused is not None:
        environment["SPARK_REUSE_WORKER"] = reused
    done = subprocess.run(
        [sys.executable, "-c", DAEMON, module], env=environment, capture_output=True, text=True, timeout=240, check=True
    )
    said = [line for line in done.stdout.split("\n") if line and line != "ready"]
    assert said[0] == "worker ended", "one of two leaves the daemon alone"
    assert said[1:] == (["ended"] if ends else ["worker ended"]), done.stderr
