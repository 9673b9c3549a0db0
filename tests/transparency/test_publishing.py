"""What a publish does for the log: leaves, witnesses, and nothing that could stop it."""

import json
import logging
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from evenkeel.lake.pending_commits import pending
from evenkeel.transparency import LOG_KEY as VARIABLE
from evenkeel.transparency import lake_log, witness_client, witnesses
from evenkeel.transparency.lake_log import begin, open_log, storage_of
from evenkeel.transparency.publishing import log_commits
from evenkeel.transparency.storage import FolderStorage
from evenkeel.transparency.witnesses import witness_states
from tests.transparency.http_witness import Seen, line_of, witness
from tests.transparency.lakes import copied, publish_more, size_of
from tests.transparency.logs import LOG_KEY, WITNESS_KEY


@pytest.fixture
def lake(begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake with a log of 12 leaves, whose key is in the environment; no witness is."""
    monkeypatch.setenv(VARIABLE, LOG_KEY.secret().reveal())
    monkeypatch.delenv("EVENKEEL_WITNESSES", raising=False)
    return copied(begun, tmp_path / "lake")


@pytest.fixture
def seen() -> Seen:
    """What a witness remembers."""
    return {}


def published(lake: Path) -> None:
    """A publish of a cycle: its manifests, then what comes after them."""
    log_commits(str(lake), publish_more(lake, "lab"))


def state_of(lake: Path, name: str) -> tuple[int, str, bool]:
    state = witness_states(storage_of(str(lake)))[name]
    return state.size, state.fault, state.is_inconsistent


def test_a_publish_takes_its_manifests_into_the_log(lake: Path) -> None:
    published(lake)
    assert size_of(lake) == 14
    published(lake)
    assert size_of(lake) == 16


def test_without_a_key_nothing_of_it_is_imported_and_nothing_is_done(
    lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE)
    published(lake)
    assert size_of(lake) == 12
    program = (
        "import sys\n"
        "from evenkeel.transparency.publishing import log_commits\n"
        f"log_commits({str(lake)!r}, (1 / 0 for _ in 'x'))\n"
        "ours = [name for name in sys.modules if name.startswith('evenkeel.transparency.')]\n"
        "assert ours == ['evenkeel.transparency.publishing'], ours\n"
        "assert 'cryptography' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_goes_wrong_with_the_log_is_told_and_stops_nothing(
    lake: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.move(lake / "_log", lake / "elsewhere")
    published(lake)
    assert "has no transparency log, or its checkpoint was removed" in caplog.text
    assert "take its commits in with `evenkeel log catch-up --adopt`" in caplog.text
    shutil.move(lake / "elsewhere", lake / "_log")
    monkeypatch.setenv(VARIABLE, "nonsense")
    published(lake)
    assert "a private key cannot be read" in caplog.text
    monkeypatch.setenv(VARIABLE, LOG_KEY.secret().reveal())
    with monkeypatch.context() as patch:
        patch.setattr(lake_log, "append_commits", lambda *given, **named: 1 / 0)
        published(lake)
    assert "an unforeseen error" in caplog.text
    published(lake)
    assert size_of(lake) == 16, "with the manifests that two of the others handed on"
    assert pending(str(lake)) == []


def test_checkpoints_go_to_a_file_and_to_a_witness_that_cosigns(
    lake: Path, seen: Seen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with witness(seen) as url:
        monkeypatch.setenv("EVENKEEL_WITNESSES", f"{line_of(url)}\n{tmp_path / 'kept.jsonl'}")
        published(lake)
        published(lake)
    found = open_log(storage_of(str(lake))).cosigned([WITNESS_KEY.verifier])
    assert found is not None
    assert (found.checkpoint.size, list(found.cosigned)) == (16, [WITNESS_KEY.verifier])
    lines = [json.loads(line) for line in (tmp_path / "kept.jsonl").read_text().splitlines()]
    assert [line["checkpoint"].split("\n")[1] for line in lines] == ["14", "16"]
    assert state_of(lake, url) == state_of(lake, str(tmp_path / "kept.jsonl")) == (16, "", False)


def test_a_witness_that_cannot_be_reached_is_told_of_and_gets_the_newest_once_it_can(
    lake: Path, seen: Seen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with witness(seen) as url:
        monkeypatch.setenv("EVENKEEL_WITNESSES", line_of(url))
        published(lake)
    caplog.set_level(logging.WARNING)
    published(lake)
    assert "cannot be reached" in caplog.text
    assert "2 leaves behind, and is asked again the next time" in caplog.text
    size, fault, _ = state_of(lake, url)
    assert size == 14
    since = witness_states(storage_of(str(lake)))[url].since
    published(lake)
    later = witness_states(storage_of(str(lake)))[url]
    assert (later.since, later.fault) == (since, fault)
    assert "4 leaves behind since 20" in later.words(18)
    with witness(seen, int(url.rpartition(":")[2])):
        log_commits(str(lake), [])
        assert state_of(lake, url) == (18, "", False)
        assert "has seen all 18 leaves" in witness_states(storage_of(str(lake)))[url].words(18)


def test_a_split_view_is_an_error_at_every_witness_and_stands_beside_the_log(
    lake: Path, seen: Seen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    other = copied(lake, tmp_path / "other")
    with witness(seen) as url:
        monkeypatch.setenv("EVENKEEL_WITNESSES", f"{line_of(url)}\n{tmp_path / 'kept.jsonl'}")
        published(lake)
        log_commits(str(other), publish_more(other, "modular", 2))
        for name in (url, str(tmp_path / "kept.jsonl")):
            size, fault, is_inconsistent = state_of(other, name)
            assert (size, is_inconsistent) == (0, True)
            assert "split view" in fault
            assert "INCONSISTENT" in witness_states(storage_of(str(other)))[name].words(16)
        assert caplog.text.count("Some readers get another past") == 2
        caplog.clear()
        published(lake)
        assert state_of(lake, url) == (16, "", False)


def test_a_log_that_was_set_back_is_refused_by_a_witness(
    lake: Path, seen: Seen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with witness(seen) as url:
        monkeypatch.setenv("EVENKEEL_WITNESSES", line_of(url))
        published(lake)
        published(lake)
        shutil.rmtree(lake / "_log")
        begin(str(lake), [LOG_KEY])
        log_commits(str(lake), [])
        assert state_of(lake, url)[2]
        assert "split view" in state_of(lake, url)[1]


def test_two_that_append_at_once_are_no_split_view(
    lake: Path, seen: Seen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The slower one submits an older checkpoint than the witness has seen."""
    real = witness_client.submit

    def slow(*given: object, **named: object) -> object:
        monkeypatch.setattr(witnesses, "submit", real)
        published(lake)
        return real(*given, **named)  # type: ignore[arg-type]

    with witness(seen) as url:
        monkeypatch.setenv("EVENKEEL_WITNESSES", line_of(url))
        monkeypatch.setattr(witnesses, "submit", slow)
        published(lake)
        assert state_of(lake, url) == (16, "", False)
    assert "split view" not in caplog.text


def test_states_that_cannot_be_read_are_forgotten(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path)
    for data in (b"[]", b"{", b'{"a": 7}', b'{"a": {"b": 1}}'):
        storage.put("witnesses", data)
        assert witness_states(storage) == {}
