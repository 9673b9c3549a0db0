"""`evenkeel log`: keys that are made once, a log that is begun once, and a witness as a process of its own."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evenkeel.cli import main
from evenkeel.transparency.keys import COSIGNATURE, ED25519, VerifierKey
from tests.transparency.lakes import kept_lake, publish_more, set_back

NAME = "example.com/evenkeel"


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str], str]:
    """Exit code, lines and errors of `evenkeel log …`."""
    code = main(["log", *words])
    out, err = capsys.readouterr()
    return code, out.splitlines(), err


@pytest.fixture
def key(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """The verifier key of the key in the environment."""
    code, lines, _ = said(capsys, "make-key", NAME, "--out", str(tmp_path / "log.key"))
    assert code == 0
    monkeypatch.setenv("EVENKEEL_LOG_KEY", f"file:{tmp_path / 'log.key'}")
    monkeypatch.delenv("EVENKEEL_WITNESSES", raising=False)
    return lines[0]


def test_a_key_is_made_for_its_owner_and_its_verifier_key_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, kind in (((), ED25519), (("--witness",), COSIGNATURE)):
        file = tmp_path / f"{kind}.key"
        code, lines, _ = said(capsys, "make-key", NAME, *words, "--out", str(file))
        found = VerifierKey.read(lines[0])
        assert (code, found.name, found.kind) == (0, NAME, kind)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.read_text().startswith("PRIVATE+KEY+")
        code, _, err = said(capsys, "make-key", NAME, *words, "--out", str(file))
        assert (code, "no key is ever written over" in err) == (2, True)
    code, _, err = said(capsys, "make-key", "two words", "--out", str(tmp_path / "no.key"))
    assert (code, (tmp_path / "no.key").exists()) == (2, False)


def test_a_log_is_begun_caught_up_and_shown(tmp_path: Path, key: str, capsys: pytest.CaptureFixture[str]) -> None:
    lake = kept_lake(tmp_path)
    code, lines, _ = said(capsys, "begin", "--lake", str(lake))
    assert (code, lines[1]) == (0, key)
    assert lines[0].startswith(f"the log {NAME} begins with 11 manifests, which nothing had witnessed before")
    publish_more(lake, "lab")
    assert "lab: 2 manifests without a leaf: `evenkeel log catch-up`" in said(capsys, "show", "--lake", str(lake))[1]
    assert said(capsys, "catch-up", "--lake", str(lake)) == (0, ["2 leaves appended"], "")
    code, lines, _ = said(capsys, "show", "--lake", str(lake))
    assert (code, lines[0], lines[1]) == (0, NAME, "14")
    assert f"key: {key}" in lines
    assert lines[-1] == "no witness: that all are shown one log is the word of whoever holds the key"
    assert said(capsys, "begin", "--lake", str(lake))[0] == 2
    set_back(lake)
    code, lines, err = said(capsys, "catch-up", "--lake", str(lake))
    assert (code, lines) == (1, ["0 leaves appended"])
    assert "lab: the log has row 4 of its chain, and `cycles` ends at row 2" in err
    code, lines, _ = said(capsys, "show", "--lake", str(lake))
    assert (code, "lab: 2 manifests gone: `evenkeel verify`" in lines) == (1, True)


def test_without_a_key_nothing_can_be_begun_and_all_can_be_shown(
    tmp_path: Path, key: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = kept_lake(tmp_path)
    said(capsys, "begin", "--lake", str(lake))
    monkeypatch.delenv("EVENKEEL_LOG_KEY")
    assert said(capsys, "show", "--lake", str(lake))[0] == 0
    code, _, err = said(capsys, "catch-up", "--lake", str(lake))
    assert (code, "EVENKEEL_LOG_KEY is not set: `evenkeel log make-key" in err) == (2, True)
    code, _, err = said(capsys, "show", "--lake", str(tmp_path / "none"))
    assert (code, "there is no transparency log" in err) == (2, True)


@contextmanager
def serving(tmp_path: Path, log_key: str) -> Iterator[str]:
    """The line of a witness that runs as a process: its key and URL."""
    command = [
        *(sys.executable, "-m", "evenkeel.cli", "log", "witness", "--address", "127.0.0.1:0"),
        *("--key", str(tmp_path / "witness.key"), "--state", str(tmp_path / "state"), "--log-key", log_key),
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ})
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        process.stdout.close()


def test_a_witness_on_another_port_cosigns_and_catches_a_split_view(
    tmp_path: Path, key: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = kept_lake(tmp_path / "one"), kept_lake(tmp_path / "other")
    said(capsys, "make-key", "witness.example/1", "--witness", "--out", str(tmp_path / "witness.key"))
    for lake in (one, other):
        said(capsys, "begin", "--lake", str(lake))
    with serving(tmp_path, key) as line:
        url = line.split()[1]
        monkeypatch.setenv("EVENKEEL_WITNESSES", line)
        publish_more(one, "lab")
        code, lines, _ = said(capsys, "catch-up", "--lake", str(one))
        assert (code, lines[1].startswith(f"witness {url}: has seen all 14 leaves")) == (0, True)
        publish_more(other, "modular")
        code, lines, _ = said(capsys, "catch-up", "--lake", str(other))
        assert (code, lines[1].startswith(f"witness {url}: INCONSISTENT since")) == (1, True)
        assert said(capsys, "show", "--lake", str(other))[0] == 1
    publish_more(one, "lab")
    code, lines, _ = said(capsys, "catch-up", "--lake", str(one))
    assert code == 0
    assert lines[1].startswith(f"witness {url}: 2 leaves behind since 20")


@pytest.mark.parametrize("address", ["7380", ":7380", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:99999"])
def test_an_address_is_a_host_and_a_port(
    address: str, tmp_path: Path, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said(capsys, "make-key", "witness.example/1", "--witness", "--out", str(tmp_path / "witness.key"))
    words = ("--key", str(tmp_path / "witness.key"), "--state", str(tmp_path / "state"), "--log-key", key)
    code, _, err = said(capsys, "witness", "--address", address, *words)
    assert (code, "write HOST:PORT" in err) == (2, True)
