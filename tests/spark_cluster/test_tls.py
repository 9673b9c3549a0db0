"""The cluster's Connect server behind nginx with `docker/nginx.conf`: its token, and certificates."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from evenkeel.spark.command import HOST
from evenkeel.spark.endpoint import ROOTS_VARIABLE
from evenkeel.spark.server import free_port
from tests.left_out import NGINX, lacking
from tests.spark.certificates import Authority
from tests.spark_cluster.standalone import TOKEN, StandaloneCluster
from tests.spark_cluster.tls_proxy import nginx, tls_in_front

pytestmark = [pytest.mark.exhaustive, pytest.mark.spark, pytest.mark.slow]

# gRPC reads the authorities once in a process.
WORK = """
import json, os, sys
from evenkeel.doctor.spark_endpoint import _workers
from evenkeel.errors import EngineError
from evenkeel.spark.session import close, connect
said = []
for url in json.load(sys.stdin):
    try:
        spark = connect(url)
        words = f"{spark.range(1000).count()} {_workers(spark)}"
        close(spark)
    except EngineError as error:
        words = str(error)
    said.append(words)
print(json.dumps(said))
sys.stdout.flush()
os._exit(0)
"""
PATIENCE_SECONDS = 300.0  # for all of them; pyspark alone tries each for ten minutes


def test_a_token_and_certificates_work_and_what_is_wrong_with_them_is_one_line(
    cluster: StandaloneCluster, tmp_path: Path
) -> None:
    if nginx() is None:
        pytest.skip(lacking(NGINX))
    own, foreign = Authority(tmp_path / "own"), Authority(tmp_path / "foreign")
    certificates = {
        "good": own.issue(tmp_path / "good", "localhost"),
        "expired": own.issue(tmp_path / "expired", "localhost", days=-2),
        "other name": own.issue(tmp_path / "other", "spark.example"),
        "other authority": foreign.issue(tmp_path / "foreign-leaf", "localhost"),
    }
    with ExitStack() as stack:
        ports = {
            name: stack.enter_context(tls_in_front(tmp_path / f"nginx-{number}", found, cluster.port))
            for number, (name, found) in enumerate(certificates.items())
        }
        urls = [f"sc://localhost:{port}/;use_ssl=true;token={TOKEN}" for port in ports.values()]
        urls += [f"sc://localhost:{ports['good']}/;use_ssl=true;token=another-token-0123456789"]
        urls += [f"sc://localhost:{cluster.port}/;use_ssl=true"]
        said = asked(urls, own.file)
    assert said[0] == "1000 "
    assert "its certificate has expired: have it renewed" in said[1]
    assert "its certificate has another name" in said[2]
    assert f"certificate in {ROOTS_VARIABLE}" in said[3]
    assert "does not accept this token. Set EVENKEEL_SPARK_TOKEN" in said[4]
    assert "it speaks no TLS" in said[5]
    for text in said[1:]:
        assert "\n" not in text
        assert TOKEN not in text


def test_a_proxy_without_a_server_behind_it_says_so(tmp_path: Path) -> None:
    if nginx() is None:
        pytest.skip(lacking(NGINX))
    own = Authority(tmp_path / "own")
    with tls_in_front(tmp_path / "nginx", own.issue(tmp_path / "good", "localhost"), free_port()) as port:
        (text,) = asked([f"sc://localhost:{port}/;use_ssl=true;token={TOKEN}"], own.file)
    assert text.startswith(
        f"the Spark server at sc://localhost:{port}: the proxy answers, and no Spark server behind it"
    )


def asked(urls: list[str], authority: Path) -> list[str]:
    """What a client with that authority gets at each URL."""
    environment = {**os.environ, ROOTS_VARIABLE: str(authority), "no_proxy": HOST}
    done = subprocess.run(
        [sys.executable, "-c", WORK],
        input=json.dumps(urls),
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
    )
    found: list[str] = json.loads(done.stdout)
    return found
