"""What a publish does for the log: leaves, witnesses, and nothing that could stop it."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from evenkeel.lake_log import LOG_KEY as VARIABLE
from evenkeel.lake_log import catch_up as catching_up
from evenkeel.lake_log import witnessing
from evenkeel.lake_log.catch_up import begin, open_log, storage_of
from evenkeel.lake_log.publishing import log_manifests
from evenkeel.lake_log.witnessing import witness_states
from evenkeel.transparency import witness_client
from evenkeel.transparency.storage import FolderStorage
from tests.lake_log.lakes import LOG_KEY, WITNESS_KEY, copied, publish_more
from tests.lake_log.witnesses_here import line_of, witness


@pytest.fixture
def lake(begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake with a log of 12 leaves, whose key is in the environment; no witness is."""
    monkeypatch.setenv(VARIABLE, LOG_KEY.secret().reveal())
    monkeypatch.delenv("EVENKEEL_WITNESSES", raising=False)
    return copied(begun, tmp_path / "lake")


def size_of(lake: Path) -> int:
    return open_log(storage_of(str(lake))).checkpoint().checkpoint.size


def published(lake: Path) -> None:
    """A publish of a cycle: its manifests, then what comes after them."""
    publish_more(lake, "lab")
    log_manifests(str(lake))


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
        "from evenkeel.lake.store import Lake\n"
        "from evenkeel.publish import task\n"
        f"task.log_manifests({str(lake)!r})\n"
        "ours = [name for name in sys.modules if name.startswith(('evenkeel.transparency', 'evenkeel.lake_log.'))]\n"
        "assert ours == ['evenkeel.lake_log.publishing'], ours\n"
        "assert 'cryptography' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_goes_wrong_with_the_log_is_told_and_stops_nothing(
    lake: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.move(lake / "_log", lake / "elsewhere")
    published(lake)
    assert "has no transparency log, or its checkpoint was removed" in caplog.text
    assert "the next publish, or `evenkeel log catch-up`, takes into the log what it lacks" in caplog.text
    shutil.move(lake / "elsewhere", lake / "_log")
    monkeypatch.setenv(VARIABLE, "nonsense")
    published(lake)
    assert "a private key cannot be read" in caplog.text
    monkeypatch.setenv(VARIABLE, LOG_KEY.secret().reveal())
    with monkeypatch.context() as patch:
        patch.setattr(catching_up, "catch_up", lambda *given: 1 / 0)
        published(lake)
    assert "an error that nobody foresaw" in caplog.text
    published(lake)
    assert size_of(lake) == 20


def test_checkpoints_go_to_a_file_and_to_a_witness_that_cosigns(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with witness(tmp_path / "state") as url:
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
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with witness(tmp_path / "state") as url:
        monkeypatch.setenv("EVENKEEL_WITNESSES", line_of(url))
        published(lake)
    caplog.set_level(logging.WARNING)
    published(lake)
    assert "cannot be reached" in caplog.text
    assert "2 leaves behind, and is told again the next time" in caplog.text
    size, fault, _ = state_of(lake, url)
    assert size == 14
    since = witness_states(storage_of(str(lake)))[url].since
    published(lake)
    later = witness_states(storage_of(str(lake)))[url]
    assert (later.since, later.fault) == (since, fault)
    assert "4 leaves behind since 20" in later.words(18)
    with witness(tmp_path / "state", int(url.rpartition(":")[2])):
        log_manifests(str(lake))
        assert state_of(lake, url) == (18, "", False)
        assert "has seen all 18 leaves" in witness_states(storage_of(str(lake)))[url].words(18)


def test_a_split_view_is_an_error_at_every_witness_and_stands_beside_the_log(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    other = copied(lake, tmp_path / "other")
    with witness(tmp_path / "state") as url:
        monkeypatch.setenv("EVENKEEL_WITNESSES", f"{line_of(url)}\n{tmp_path / 'kept.jsonl'}")
        published(lake)
        publish_more(other, "modular", 2)
        log_manifests(str(other))
        for name in (url, str(tmp_path / "kept.jsonl")):
            size, fault, is_inconsistent = state_of(other, name)
            assert (size, is_inconsistent) == (0, True)
            assert "split view" in fault
            assert "INCONSISTENT" in witness_states(storage_of(str(other)))[name].words(16)
        assert caplog.text.count("Somebody is shown another past") == 2
        caplog.clear()
        published(lake)
        assert state_of(lake, url) == (16, "", False)


def test_a_log_that_was_set_back_is_refused_by_a_witness(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with witness(tmp_path / "state") as url:
        monkeypatch.setenv("EVENKEEL_WITNESSES", line_of(url))
        published(lake)
        published(lake)
        shutil.rmtree(lake / "_log")
        begin(str(lake), [LOG_KEY])
        log_manifests(str(lake))
        assert state_of(lake, url)[2]
        assert "split view" in state_of(lake, url)[1]


def test_two_that_catch_up_at_once_are_no_split_view(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The slower one submits an older checkpoint than the witness has seen."""
    real = witness_client.submit

    def slow(*given: object, **named: object) -> object:
        monkeypatch.setattr(witnessing, "submit", real)
        published(lake)
        return real(*given, **named)  # type: ignore[arg-type]

    with witness(tmp_path / "state") as url:
        monkeypatch.setenv("EVENKEEL_WITNESSES", line_of(url))
        monkeypatch.setattr(witnessing, "submit", slow)
        published(lake)
        assert state_of(lake, url) == (16, "", False)
    assert "split view" not in caplog.text


def test_states_that_cannot_be_read_are_forgotten(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path)
    for data in (b"[]", b"{", b'{"a": 7}', b'{"a": {"b": 1}}'):
        storage.put("witnesses", data)
        assert witness_states(storage) == {}
