import json
import os
import subprocess
import sys
import time
from itertools import count
from pathlib import Path

import psutil
import pytest

from evenkeel.spark.code import source_root
from evenkeel.spark.command import TOKEN_VARIABLE, connect_url
from evenkeel.spark.probe import listens
from evenkeel.spark.server import free_port
from evenkeel.spark.session import close, connect
from tests.spark.ended_processes import ends_processes

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.exhaustive]
TOKEN = "a-token-of-this-test"
DOCKERFILE = Path(__file__).resolve().parents[2] / "docker" / "Dockerfile"


def test_the_images_command_serves_in_the_foreground_and_ends_on_sigterm(tmp_path: Path) -> None:
    line = next(line for line in DOCKERFILE.read_text(encoding="utf-8").splitlines() if line.startswith("CMD "))
    command = json.loads(line.removeprefix("CMD "))
    port = free_port()
    places = {"python": sys.executable, "/var/lib/evenkeel/spark": str(tmp_path), "15002": str(port)}
    environment = {**os.environ, "PYTHONPATH": str(source_root()), "EVENKEEL_SERVER_MEMORY": "512m"}
    environment[TOKEN_VARIABLE] = TOKEN
    server = subprocess.Popen(
        [places.get(word, word) for word in command], env=environment, stderr=subprocess.DEVNULL, cwd=tmp_path
    )
    try:
        until = time.monotonic() + 120
        while not (
            found := [process.pid for process in psutil.Process(server.pid).children() if listens(port, process.pid)]
        ):
            assert server.poll() is None
            assert time.monotonic() < until
            time.sleep(0.2)
        spark = connect(connect_url(port, TOKEN))
        assert spark.range(3).count() == 3
        table = str(tmp_path / "table")
        spark.range(3).write.format("delta").save(table)

        appends = count(2)

        def commit_twice() -> None:
            spark.range(3).write.format("delta").mode("append").save(table)
            spark.sql(f"DELETE FROM delta.`{table}` WHERE id = 1").collect()
            assert spark.read.format("delta").load(table).count() == 2 * next(appends)

        assert not ends_processes(found[0], commit_twice), "a commit starts no processes"
        close(spark)
        server.terminate()
        assert server.wait(timeout=30) == 0
    finally:
        server.kill()
        server.wait()
