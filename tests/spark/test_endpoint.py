"""A Connect server elsewhere that cannot be asked: one line that says why and what to do, and soon."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, NoReturn

import grpc
import pytest

from evenkeel.errors import EngineError
from evenkeel.spark.command import connect_url
from evenkeel.spark.endpoint import ROOTS_VARIABLE, demand_answer, words_for
from evenkeel.spark.server import free_port
from evenkeel.spark.session import is_elsewhere, session_for_a_while
from tests.spark.certificates import Authority
from tests.spark.tls_server import TOKEN, FirstQuestion, serving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# gRPC reads the authorities once in a process.
ASK = """
import json, sys
from evenkeel.errors import EngineError
from evenkeel.spark.endpoint import demand_answer
said = []
for url in json.load(sys.stdin):
    try:
        demand_answer(url, 0)
        said.append("")
    except EngineError as error:
        said.append(str(error))
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """Servers by what is wrong with them."""
    folder = tmp_path_factory.mktemp("tls")
    own, foreign = Authority(folder / "own"), Authority(folder / "foreign")
    os.environ[ROOTS_VARIABLE] = str(own.file)
    certificates = {
        "good": own.issue(folder / "good", "localhost"),
        "expired": own.issue(folder / "expired", "localhost", days=-2),
        "other name": own.issue(folder / "other", "spark.example"),
        "other authority": foreign.issue(folder / "foreign-leaf", "localhost"),
        "no TLS": None,
    }
    with ExitStack() as stack:
        yield {name: stack.enter_context(serving(found)) for name, found in certificates.items()}
    del os.environ[ROOTS_VARIABLE]


def test_what_is_wrong_with_a_server_elsewhere_is_one_line_that_says_what_to_do(ports: dict[str, int]) -> None:
    def url(name: str, token: str = TOKEN) -> str:
        return f"sc://localhost:{ports[name]}/;use_ssl=true;token={token}"

    plain = connect_url(ports["good"], TOKEN)
    asked = [url("good"), url("good", "another-token-0123456789"), url("expired"), url("other name")]
    asked += [url("other authority"), url("no TLS"), plain, f"sc://localhost:{free_port()}/;token={TOKEN}"]
    done = subprocess.run(
        [sys.executable, "-c", ASK], input=json.dumps(asked), capture_output=True, text=True, check=True, timeout=300
    )
    said = json.loads(done.stdout)
    assert said[0] == ""
    assert "does not accept this token. Set EVENKEEL_SPARK_TOKEN" in said[1]
    assert "its certificate has expired: have it renewed" in said[2]
    assert "its certificate has another name: connect by a name in the certificate" in said[3]
    assert "of an authority that this process does not know: name the file" in said[4]
    assert said[4].endswith(f"certificate in {ROOTS_VARIABLE}")
    assert "it speaks no TLS: take use_ssl out" in said[5]
    assert "it may want TLS (?use_ssl=true behind the connection)" in said[6]
    assert "the server does not answer (Connection refused): check host and port" in said[7]
    for line in said:
        assert "\n" not in line
        assert TOKEN not in line
        assert "another-token" not in line


def test_a_question_releases_a_session_that_nobody_has() -> None:
    service = FirstQuestion()
    with serving(None, service) as port:
        with pytest.raises(EngineError, match="does not accept this token"):
            demand_answer(f"sc://127.0.0.1:{port}", 0)
        demand_answer(connect_url(port, TOKEN), 0)
        demand_answer(connect_url(port, TOKEN), 0)
    assert len({*service.asked}) == 2


@pytest.mark.spark
def test_a_token_travels_without_the_credentials_that_can_stop_a_process(
    monkeypatch: pytest.MonkeyPatch, ports: dict[str, int], spark: SparkSession
) -> None:
    def refuse(_token: str) -> NoReturn:
        raise AssertionError("closing the last channel with these can wait for itself (grpc/grpc#42247)")

    monkeypatch.setattr(grpc, "access_token_call_credentials", refuse)
    demand_answer(connect_url(ports["no TLS"], TOKEN), 0)
    with session_for_a_while(spark) as own:
        assert own.range(2).count() == 2


def test_a_token_leaves_this_machine_by_tls_alone() -> None:
    with serving(None) as port:
        demand_answer(f"sc://localhost:{port}/;token={TOKEN}", 0)
        with pytest.raises(EngineError, match="it speaks no TLS"):
            demand_answer(f"sc://127.0.0.1:{port}/;token={TOKEN}", 0)


def test_a_server_that_comes_back_in_time_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    service = FirstQuestion()
    with ExitStack() as stack:
        port = free_port()
        waits: list[float] = []

        def wait(seconds: float) -> None:
            waits.append(seconds)
            stack.enter_context(serving(None, service, port=port))

        monkeypatch.setattr("evenkeel.spark.endpoint.time.sleep", wait)
        demand_answer(connect_url(port, TOKEN), 30)
    assert (len(waits), len(service.asked)) == (1, 1)


@pytest.mark.parametrize(
    ("code", "details", "words", "lasts"),
    [
        (
            grpc.StatusCode.UNAVAILABLE,
            "Received http2 header with status: 502",
            "the proxy answers, and no Spark",
            False,
        ),
        (grpc.StatusCode.UNIMPLEMENTED, "Received http2 header with status: 404", "no Spark Connect server is", True),
        (grpc.StatusCode.UNIMPLEMENTED, "Method not found", "no Spark Connect server is behind it", True),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", "no answer within", False),
        (
            grpc.StatusCode.UNAVAILABLE,
            "errors resolving spark:1: [field:hostname lookup error:address lookup failed for spark:1: Domain name not "
            "found]",
            "the server does not answer (Domain name not found): check host and port",
            False,
        ),
        (grpc.StatusCode.UNAVAILABLE, "", "the server does not answer (no reason given)", False),
        (
            grpc.StatusCode.UNAVAILABLE,
            "failed to connect to all addresses; last error: INTERNAL: ipv4:127.0.0.1:40147: Failed parsing HTTP/2 "
            "(Expected SETTINGS frame as the first frame, got frame type 80) (Trying to connect an http1.x server "
            "(HTTP status 400))",  # nginx, asked without TLS
            "it speaks TLS: write ?use_ssl=true",
            True,
        ),
    ],
)
def test_other_answers_of_proxies_and_of_the_network(
    code: grpc.StatusCode, details: str, words: str, lasts: bool
) -> None:
    said, found = words_for(code, details)
    assert said.startswith(words)
    assert found is lasts


@pytest.mark.parametrize(
    ("url", "elsewhere"),
    [
        ("sc://localhost:15002/;token=x", False),
        ("sc://127.0.0.1:15002", False),
        ("sc://localhost:15443/;use_ssl=True;token=x", True),
        ("sc://spark:15002", True),
    ],
)
def test_a_local_server_is_not_asked_first(url: str, elsewhere: bool) -> None:
    assert is_elsewhere(url) is elsewhere
