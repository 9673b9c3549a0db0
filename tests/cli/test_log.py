"""`evenkeel log`: keys that are made once, a log that is begun once, and what witnesses make of it."""

import stat
from pathlib import Path

import pytest

from evenkeel.cli import main
from evenkeel.transparency.keys import VerifierKey
from tests.transparency.http_witness import line_of, witness
from tests.transparency.lakes import publish_more, set_back, small_lake

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
    file = tmp_path / "log.key"
    code, lines, _ = said(capsys, "make-key", NAME, "--out", str(file))
    assert (code, VerifierKey.read(lines[0]).name) == (0, NAME)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text().startswith("PRIVATE+KEY+")
    code, _, err = said(capsys, "make-key", NAME, "--out", str(file))
    assert (code, "no key is ever overwritten" in err) == (2, True)
    code, _, err = said(capsys, "make-key", "two words", "--out", str(tmp_path / "no.key"))
    assert (code, (tmp_path / "no.key").exists()) == (2, False)


def test_a_log_is_begun_grown_and_shown(tmp_path: Path, key: str, capsys: pytest.CaptureFixture[str]) -> None:
    lake = small_lake(tmp_path)
    code, lines, _ = said(capsys, "begin", "--lake", str(lake))
    assert (code, lines[1]) == (0, key)
    assert lines[0].startswith(f"the log {NAME} begins with 11 commits, which had no witness before")
    publish_more(lake, "lab")
    for act in ("show", "catch-up"):
        code, lines, _ = said(capsys, act, "--lake", str(lake))
        assert (code, [line[:33] for line in lines if "--adopt" in line][-1]) == (
            0,
            "cycles: 1 commit without a leaf: ",
        )
    assert said(capsys, "catch-up", "--lake", str(lake), "--adopt") == (0, ["2 leaves appended"], "")
    code, lines, _ = said(capsys, "show", "--lake", str(lake))
    assert (code, lines[0], lines[1]) == (0, NAME, "14")
    assert f"key: {key}" in lines
    assert lines[-1] == "no witness: only the holder of the key vouches that all readers see one log"
    assert said(capsys, "begin", "--lake", str(lake))[0] == 2
    set_back(lake)
    code, lines, _ = said(capsys, "catch-up", "--lake", str(lake))
    assert (code, lines) == (1, ["0 leaves appended", "cycles: 1 commit lost: `evenkeel verify`"])
    code, lines, _ = said(capsys, "show", "--lake", str(lake))
    assert (code, "cycles: 1 commit lost: `evenkeel verify`" in lines) == (1, True)


def test_without_a_key_nothing_can_be_begun_and_all_can_be_shown(
    tmp_path: Path, key: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = small_lake(tmp_path)
    said(capsys, "begin", "--lake", str(lake))
    monkeypatch.delenv("EVENKEEL_LOG_KEY")
    assert said(capsys, "show", "--lake", str(lake))[0] == 0
    code, _, err = said(capsys, "catch-up", "--lake", str(lake))
    assert (code, "EVENKEEL_LOG_KEY is not set: `evenkeel log make-key" in err) == (2, True)
    code, _, err = said(capsys, "show", "--lake", str(tmp_path / "none"))
    assert (code, "there is no transparency log" in err) == (2, True)


def test_two_logs_of_one_key_are_a_split_view_to_a_witness(
    tmp_path: Path, key: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = small_lake(tmp_path / "one"), small_lake(tmp_path / "other")
    for lake in (one, other):
        assert said(capsys, "begin", "--lake", str(lake))[0] == 0
    with witness({}, log_keys=[VerifierKey.read(key)]) as url:
        monkeypatch.setenv("EVENKEEL_WITNESSES", line_of(url))
        publish_more(one, "lab")
        code, lines, _ = said(capsys, "catch-up", "--lake", str(one), "--adopt")
        assert (code, f"witness {url}: has seen all 14 leaves" in "\n".join(lines)) == (0, True)
        publish_more(other, "modular")
        code, lines, _ = said(capsys, "catch-up", "--lake", str(other), "--adopt")
        assert (code, f"witness {url}: INCONSISTENT since" in "\n".join(lines)) == (1, True)
        assert said(capsys, "show", "--lake", str(other))[0] == 1
    publish_more(one, "lab")
    code, lines, _ = said(capsys, "catch-up", "--lake", str(one), "--adopt")
    assert code == 0
    assert f"witness {url}: 2 leaves behind since 20" in "\n".join(lines)
