"""`evenkeel prove`: what comes out is checked by `tools/check_proof.py` in a process of its own, with keys alone."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from deltalake import DeltaTable

from evenkeel.cli import main
from evenkeel.transparency.lake_log import begin
from evenkeel.transparency.publishing import log_commits
from tests.transparency.http_witness import line_of, witness
from tests.transparency.lakes import (
    BUNDLE,
    commit_file,
    copied,
    grow,
    newest_commits,
    publish_more,
    published,
    rows_of,
    small_lake,
)
from tests.transparency.logs import LOG_KEY, OTHER_KEY, WITNESS_KEY

CHECK = Path(__file__).resolve().parents[2] / "tools" / "check_proof.py"
LOG, WITNESS = ("--log-key", LOG_KEY.verifier.text), ("--witness-key", WITNESS_KEY.verifier.text)
DECISION = ("lab", "latest", "--decision", BUNDLE, "--number", "1")


@pytest.fixture(scope="module")
def with_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lake = small_lake(tmp_path_factory.mktemp("kept"))
    begin(str(lake), [LOG_KEY])
    published(lake)
    return lake


@pytest.fixture
def lake(with_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("EVENKEEL_WITNESSES", raising=False)
    return copied(with_log, tmp_path / "lake")


def proved(lake: Path, *words: str) -> tuple[str, str]:
    """The proof, and its data file."""
    out = lake.parent / "proof.tlog"
    assert main(["prove", *words, "--lake", str(lake), "--out", str(out)]) == 0
    return str(out), f"{out}.parquet"


def checked(*words: str) -> tuple[int, str]:
    """Exit code and text of the verifier that knows nothing of Evenkeel."""
    done = subprocess.run([sys.executable, "-I", str(CHECK), *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def refused(lake: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The message where no proof can be made."""
    out = lake.parent / "none.tlog"
    capsys.readouterr()
    assert main(["prove", *words, "--lake", str(lake), "--out", str(out)]) == 2
    assert not out.exists()
    return capsys.readouterr().err


def test_a_decision_is_proven_to_a_stranger_by_the_command_that_is_printed(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    proof, file = proved(lake, *DECISION)
    command = capsys.readouterr().out.splitlines()[-1].split()
    assert command[:4] == ["python", "tools/check_proof.py", proof, file]
    code, text = checked(*command[2:])
    assert (code, text.splitlines()[0]) == (0, "PROVEN.")
    assert '    table: "unload_decisions"\n' in text
    assert "2 of its rows have these values:\n" in text
    assert f'"sentence": "{BUNDLE} leaves 0."' in text
    assert len(Path(proof).read_bytes()) < 5_000
    assert checked(proof, file, "--log-key", OTHER_KEY.verifier.text)[0] == 1
    Path(file).write_bytes(Path(file).read_bytes() + b"x")
    code, text = checked(proof, file, *LOG)
    assert (code, "is not the file of the list" in text) == (1, True)


def test_the_manifest_of_every_cluster_is_proven(lake: Path) -> None:
    for cluster in ("lab", "modular", "silent"):
        digest = rows_of(lake, cluster)[-1]["manifest_digest"]
        code, text = checked(*proved(lake, cluster, "latest"), *LOG, "--where", f"manifest_digest={digest}")
        assert code == 0
        assert '    table: "cycles"\n' in text
        assert "1 of its rows have these values:" in text
        assert '"status": "closed"' in text


def test_without_the_file_its_digest_is_proven(lake: Path) -> None:
    code, text = checked(proved(lake, "lab", "latest")[0], *LOG)
    assert code == 0
    assert "The file below, which was not given" in text


def test_a_witness_vouches_in_the_proof(
    lake: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with witness({}) as url:
        monkeypatch.setenv("EVENKEEL_WITNESSES", line_of(url))
        own = {"EVENKEEL_LOG_KEY": LOG_KEY.secret().reveal(), "EVENKEEL_WITNESSES": line_of(url)}
        log_commits(str(lake), [], environment=own)
    proof = proved(lake, "lab", "latest")
    code, text = checked(*capsys.readouterr().out.splitlines()[-1].split()[2:])
    assert (code, "cosigned by the witness 'witness.example/1'" in text) == (0, True)
    assert checked(*proof, *LOG, *WITNESS)[0] == 0


def test_without_a_witness_a_proof_says_so_and_does_not_pass_for_one_with(lake: Path) -> None:
    proof = proved(lake, "lab", "latest")
    assert "No witness vouches for it" in checked(*proof, *LOG)[1]
    assert checked(*proof, *LOG, *WITNESS)[0] == 1


def test_what_is_ambiguous_or_missing_is_told_with_what_there_is(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = refused(lake, capsys, "lab", "latest", "--decision", BUNDLE)
    assert f"2 decisions are about '{BUNDLE}': choose one (--number)" in text
    assert f"1 unload_decisions: {BUNDLE}, unload; 2 unload_decisions: " in text
    assert f"Did you mean '{BUNDLE}'?" in refused(lake, capsys, "lab", "latest", "--decision", BUNDLE[:-1])
    assert "--number 99: 2 decisions" in refused(lake, capsys, *DECISION[:-1], "99")
    assert "no cycle at 2001" in refused(lake, capsys, "lab", "2001-01-01")
    assert "go with --decision" in refused(lake, capsys, "lab", "latest", "--number", "1")
    assert "decisions stand in" in refused(lake, capsys, *DECISION, "--table", "settings")


def test_rows_that_upkeep_has_put_together_are_found_too(lake: Path) -> None:
    for table in ("unload_decisions", "cycles"):
        first = DeltaTable(str(lake / table)).version() + 1
        opened = DeltaTable(str(lake / table))
        assert opened.optimize.compact()["numFilesAdded"] > 0
        opened.vacuum(0, dry_run=False, enforce_retention_duration=False)
        grow(lake, newest_commits(lake, table, DeltaTable(str(lake / table)).version() + 1 - first))
    for words in (DECISION, ("lab", "latest")):
        assert checked(*proved(lake, *words), *LOG)[0] == 0


def test_a_file_that_was_changed_is_not_proven(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (commit,) = newest_commits(lake, "unload_decisions")
    file = lake / "unload_decisions" / commit.files[0].path
    data = file.read_bytes()
    file.write_bytes(data.replace(b"leaves 0.", b"leaves 7."))
    assert "is not as it was logged: it was changed" in refused(lake, capsys, *DECISION)


def test_a_commit_without_a_leaf_is_told(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    commits = publish_more(lake, "lab")
    text = refused(lake, capsys, "lab", "latest")
    assert "version 6 of cycles has no leaf in the log" in text
    grow(lake, commits)
    assert checked(*proved(lake, "lab", "latest"), *LOG)[0] == 0
    commit_file(lake, "unload_decisions", 6).unlink()  # as its log retention does
    assert checked(*proved(lake, *DECISION), *LOG)[0] == 0, "the manifest lists its files"
    commit_file(lake, "cycles", 6).unlink()
    shutil.rmtree(lake / "_log")
    assert "there is no transparency log" in refused(lake, capsys, *DECISION)


def test_the_result_is_a_document_for_programs(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["prove", *DECISION, "--lake", str(lake), "--out", str(lake.parent / "p"), "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    assert [found[name] for name in ("version", "table", "commit", "leaf", "leaves")] == [
        1,
        "unload_decisions",
        5,
        13,
        14,
    ]
    assert found["row"]["subject"] == BUNDLE
