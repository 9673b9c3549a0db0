"""`evenkeel collect`: what it writes, says and returns, and how it is ended."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from evenkeel.cli import main
from evenkeel.sources.recordings import Recording
from evenkeel.sources.snapshot_files import read_header
from tests.pulsar.admin.books import Size, sized
from tests.pulsar.admin.simulated import Answer, SimulatedCluster

TOKEN = "t0k3n-of-the-test"
CHECKOUT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    with SimulatedCluster(sized(Size(20, 2, 2)), 2, token=TOKEN) as running:
        yield running


@pytest.fixture(autouse=True)
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", TOKEN)


def collect(cluster: SimulatedCluster, folder: Path, *options: str) -> int:
    return main(["collect", "--admin", cluster.url, "--to", str(folder), "--token-env", "MY_TOKEN", *options])


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_one_snapshot_and_a_line_that_says_what_it_cost(
    cluster: SimulatedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.kill(cluster.ids[1])
    assert collect(cluster, tmp_path / "new" / "place", "--note", "after the upgrade") == 0
    line = capsys.readouterr().err
    assert "[1/1]" in line
    assert "0000  full  2 brokers" in line
    assert "8 not answered" in line
    assert read_header(tmp_path / "new" / "place" / "0000.jsonl.gz").note == "after the upgrade"


def test_a_further_run_goes_on_where_the_first_ended(cluster: SimulatedCluster, tmp_path: Path) -> None:
    (tmp_path / "0007.json.gz").write_bytes(b"")
    assert collect(cluster, tmp_path, "--count", "3", "--every", "0.01", "--full-every", "2") == 0
    assert names(tmp_path) == ["0007.json.gz", "0008.jsonl.gz", "0009.jsonl.gz", "0010.jsonl.gz"]
    heads = [read_header(tmp_path / name) for name in names(tmp_path)[1:]]
    assert [head.has_configuration for head in heads] == [True, False, True]
    assert len(Recording(tmp_path).snapshots) == 3


def test_a_cluster_of_a_configuration(
    cluster: SimulatedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "clusters.toml"
    file.write_text(f'[clusters.east]\nadmin = "{cluster.url}"\nconnection = "east"\n[clusters.old]\nrecording = "r"')
    monkeypatch.setenv("EVENKEEL_TOKEN_EAST", TOKEN)
    to = ["--to", str(tmp_path / "out")]
    assert main(["collect", "--config", str(file), "--cluster", "east", *to]) == 0
    assert main(["collect", "--config", str(file), *to]) == 0, "its only running one"
    assert names(tmp_path / "out") == ["0000.jsonl.gz", "0001.jsonl.gz"]


def test_a_cluster_that_cannot_be_observed_ends_in_one_sentence_without_the_token(
    cluster: SimulatedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.fault("", Answer(401, f"<html>{TOKEN}</html>"))
    assert collect(cluster, tmp_path) == 2
    assert collect(cluster, tmp_path, "--count", "2", "--every", "0.01") == 2
    said = capsys.readouterr().err
    assert "the token (or password) is missing, wrong or expired" in said
    assert "none of 2 snapshots could be taken" in said
    assert TOKEN not in said
    assert names(tmp_path) == []


def test_some_that_could_not_be_taken_are_told_in_the_exit_code(cluster: SimulatedCluster, tmp_path: Path) -> None:
    cluster.fault("/brokers$", Answer(500), times=1)
    assert collect(cluster, tmp_path, "--count", "3", "--every", "0.01") == 1
    assert names(tmp_path) == ["0000.jsonl.gz", "0001.jsonl.gz"]


def heed_ctrl_c() -> None:
    """A test run in the background may have been started with Ctrl-C ignored, and what it starts inherits that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(("options", "code"), [([], 0), (["--count", "9999"], 130)])
def test_a_run_that_is_ended_leaves_whole_snapshots_only(
    cluster: SimulatedCluster, tmp_path: Path, ending: signal.Signals, options: list[str], code: int
) -> None:
    command = [sys.executable, "-m", "evenkeel.cli", "collect", "--admin", cluster.url, "--to", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": f"{CHECKOUT}/spark"}
    run = subprocess.Popen(
        [*command, "--token-env", "MY_TOKEN", "--every", "0.01", *options],
        env=environment,
        stderr=subprocess.PIPE,
        preexec_fn=heed_ctrl_c,
    )
    while len(list(tmp_path.glob("[0-9]*"))) < 3 and run.poll() is None:
        time.sleep(0.01)
    run.send_signal(ending)
    _, said = run.communicate(timeout=30)
    assert run.returncode == code, said.decode()
    assert b"Traceback" not in said
    assert b"ended; " in said
    recording = Recording(tmp_path)
    assert recording.problems == ()
    assert len(recording.snapshots) >= 3
