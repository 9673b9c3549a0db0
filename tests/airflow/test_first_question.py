"""A task whose Spark server elsewhere lets nobody in fails soon, with one line, before Airflow's operator connects."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from evenkeel.spark.endpoint import ROOTS_VARIABLE
from evenkeel.spark.server import free_port
from tests.spark.certificates import Authority
from tests.spark.tls_server import TOKEN, serving

pytestmark = pytest.mark.airflow

# What a task is declared with is called as Airflow's task runner does. gRPC reads the authorities once in a process.
ASK = """
import json, os, sys
from evenkeel.airflow.wiring import step
from tests.airflow.xcom import XCom
said = []
for uri in json.load(sys.stdin):
    os.environ["AIRFLOW_CONN_EVENKEEL_SPARK"] = uri
    xcom, kind, words = XCom(), "", ""
    try:
        step("shed", "Sheds.")["pre_execute"]({"ti": xcom.of("rebalance", "manual__1", "shed")})
    except Exception as error:
        kind, words = type(error).__name__, str(error)
    reason = xcom.left.get(("rebalance", "manual__1", "shed", "reason"), "")
    said.append([kind, words, reason])
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """Servers by what is wrong with them, and the file of the authority that is known."""
    folder = tmp_path_factory.mktemp("tls")
    own = Authority(folder / "own")
    made = {"good": own.issue(folder / "good", "localhost"), "expired": own.issue(folder / "old", "localhost", days=-2)}
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setenv(ROOTS_VARIABLE, str(own.file))
        yield {name: stack.enter_context(serving(found)) for name, found in made.items()}


def asked(folder: Path, *uris: str) -> list[list[Any]]:
    """Of each connection: the kind of error, its words, and the reason that the task leaves."""
    environment = {**os.environ, "AIRFLOW_HOME": str(folder), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    done = subprocess.run(
        [sys.executable, "-c", ASK], input=json.dumps(uris), capture_output=True, text=True, env=environment,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: list[list[Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_task_s_log_has_one_line_soon_where_the_operator_would_try_for_ten_minutes(
    ports: dict[str, int], tmp_path: Path
) -> None:
    def uri(port: int, token: str = TOKEN) -> str:
        return f"spark-connect://:{token}@localhost:{port}?use_ssl=True"

    good, expired, stranger, here, classic = asked(
        tmp_path,
        uri(ports["good"]),
        uri(ports["expired"]),
        uri(ports["good"], "another-token-0123456789"),
        f"spark-connect://:{TOKEN}@localhost:{free_port()}",
        "spark://spark.example:7077",
    )
    for one in (good, here, classic):
        assert one[:3] == ["", "", ""], "one that answers, one of this machine, and a master without Connect"
    assert expired[1].endswith("its certificate has expired: have it renewed, and the proxy before Spark reloaded")
    assert "does not accept this token" in stranger[1]
    for kind, words, reason in (expired, stranger):
        assert (kind, reason) == ("AirflowException", words), "it is tried again, and publish knows why"
        assert "\n" not in words
        assert "token-0123456789" not in words
