"""`evenkeel agent` as operators start it, between real queues and brokers that answer as Pulsar was seen to answer."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evenkeel.cli import main
from evenkeel.steering.sqs import SqsSink
from tests.steering.queue.acting_cluster import wait_until
from tests.steering.queue.conftest import SECRET, Pair
from tests.steering.queue.examples import KEY, LAB
from tests.steering.queue.running import collect, on_record, query

pytestmark = pytest.mark.slow

simulated = pytest.importorskip("tests.steering.simulated")
rows = pytest.importorskip("tests.steering.commands")
TOKEN = "a-token-that-nobody-may-see"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENKEEL_KEYS_TESTS", KEY)


@pytest.fixture
def pulsar() -> Iterator[Any]:
    with simulated.simulated() as cluster:
        yield cluster


def options(pulsar: Any, queues: Pair, folder: Path, *more: str) -> list[str]:
    return [
        "agent", "--cluster", "lab", "--queue", queues.commands, "--reports", queues.reports, "--admin", pulsar.url,
        "--ledger", str(folder / "ledger.db"), "--name", "agent-1", "--per-second", "50",
        "--keys", "tests", "--longest-request", "2", "--visibility", "4", *more,
    ]  # fmt: skip


def asked(pulsar: Any, queues: Pair) -> list[dict]:
    """A split and two unloads that the cluster's state allows, on their queue."""
    first, second, third, _ = pulsar.namespace("acme/orders", 4)
    b1, b2, b3 = pulsar.brokers
    made = [
        rows.split(first, b1, 0x20000000, step=1),
        rows.unload(second, b1, b2, step=2),
        rows.unload(third, b1, b3, step=3),
    ]
    assert SqsSink(LAB, queues.commands, queues.reports).send(made) == []
    return made


def outcomes(queues: Pair, commands: list[dict]) -> list[str]:
    found = collect(queues, [one["command_id"] for one in commands])
    return [found[one["command_id"]].outcome for one in commands]


def test_the_command_carries_out_what_is_on_the_queue_and_shows_no_secret(
    pulsar: Any, queues: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ADMIN_TOKEN", TOKEN)
    commands = asked(pulsar, queues)
    assert main(options(pulsar, queues, tmp_path, "--token-env", "ADMIN_TOKEN", "--once")) == 0
    assert outcomes(queues, commands) == ["done"] * 3
    assert [pulsar.moves(one["bundle"]) for one in commands] == [1, 1, 1]
    assert pulsar.owner[commands[1]["bundle"]] == pulsar.brokers[1]
    said = capfd.readouterr().err
    assert said.count(": done (") == 3, "one line per command"
    assert f"Bearer {TOKEN}" in pulsar.tokens
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    for secret in (TOKEN, SECRET, KEY):
        assert secret not in said
        assert secret.encode() not in kept


def test_nothing_is_sent_while_the_brokers_steer_themselves(
    pulsar: Any, queues: Pair, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pulsar.configuration[pulsar.brokers[2]]["loadBalancerSheddingEnabled"] = "true"
    commands = asked(pulsar, queues)
    assert main(options(pulsar, queues, tmp_path, "--once")) == 0
    assert outcomes(queues, commands) == ["withheld"] * 3
    assert pulsar.effects == []
    assert "loadBalancerSheddingEnabled is not off on" in capfd.readouterr().err


@pytest.mark.exhaustive
@pytest.mark.parametrize("works", [True, False], ids=["the effect came", "the request was lost"])
def test_an_agent_killed_while_a_request_is_out_is_followed_by_one_that_finds_out(
    pulsar: Any, queues: Pair, tmp_path: Path, works: bool
) -> None:
    commands = asked(pulsar, queues)
    faults: list[str] = []

    def never_answered(broker: str, method: str, path: str) -> Any:
        if method != "PUT" or faults:
            return None
        faults.append(path)
        return simulated.Fault(wait_s=3.0, status=0, works=works)

    pulsar.faults = never_answered
    command = [sys.executable, "-m", "evenkeel.cli", *options(pulsar, queues, tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    first = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
    try:
        assert wait_until(lambda: faults, 60)
    finally:
        first.kill()
        first.communicate()
    assert set(on_record(tmp_path / "ledger.db").values()) == {None}
    second = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
    try:
        assert outcomes(queues, commands) == ["done"] * 3
        second.send_signal(signal.SIGTERM)
        assert second.wait(30) == 0
    finally:
        second.kill()
        second.communicate()
    assert [pulsar.moves(one["bundle"]) for one in commands] == [1, 1, 1]
    ((tries,),) = query(tmp_path / "ledger.db", "SELECT tries FROM commands WHERE step = 1")
    assert tries == (1 if works else 2)


def test_wrong_options_are_told_in_words(
    pulsar: Any, queues: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(options(pulsar, queues, tmp_path, "--longest-request", "100", "--once")) == 2
    assert "hold them for at least 150 s" in capsys.readouterr().err
    assert main(options(pulsar, queues, tmp_path, "--token-env", "NOT_SET", "--once")) == 2
    assert "--token-env NOT_SET: the variable is not set" in capsys.readouterr().err
    monkeypatch.delenv("EVENKEEL_KEYS_TESTS")
    assert main(options(pulsar, queues, tmp_path, "--once")) == 2
    assert "the keys 'tests' are unknown: set EVENKEEL_KEYS_TESTS" in capsys.readouterr().err
    monkeypatch.setenv("EVENKEEL_KEYS_TESTS", KEY)
    absent = Pair(queues.commands.replace("commands", "absent"), queues.reports, None)
    assert main(options(pulsar, absent, tmp_path, "--once")) == 2
    assert "Make the queue, or correct its URL." in capsys.readouterr().err
