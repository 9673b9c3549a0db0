"""`evenkeel prove`: what comes out is checked by `tools/check_proof.py` in a process of its own, with keys alone."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from evenkeel.cli import main
from evenkeel.lake_log.catch_up import begin, catch_up
from evenkeel.lake_log.publishing import log_manifests
from tests.lake_log.lakes import LOG_KEY, OTHER_KEY, WITNESS_KEY, copied, decide_once_more, kept_lake, rows_of
from tests.lake_log.witnesses_here import line_of, witness

CHECK = Path(__file__).resolve().parents[2] / "tools" / "check_proof.py"
AT = "2026-11-21T08:27:23Z"
BUNDLE = "acme/ns1/0x80000000_0x90000000"
LOG, WITNESS = ("--log-key", LOG_KEY.verifier.text), ("--witness-key", WITNESS_KEY.verifier.text)


@pytest.fixture(scope="module")
def with_roots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with a log; the last cycle of `extensible` has a manifest with roots."""
    lake = kept_lake(tmp_path_factory.mktemp("kept"))
    decide_once_more(lake, "extensible")
    begin(str(lake), [LOG_KEY])
    return lake


@pytest.fixture
def lake(with_roots: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("EVENKEEL_WITNESSES", raising=False)
    return copied(with_roots, tmp_path / "lake")


def proved(lake: Path, *words: str) -> Path:
    """The proof of a cycle of `lake`, beside it."""
    out = lake.parent / "proof.tlog"
    assert main(["prove", *words, "--lake", str(lake), "--out", str(out)]) == 0
    return out


def checked(proof: Path, *words: str) -> tuple[int, str]:
    """Exit code and text of the verifier that knows nothing of Evenkeel."""
    command = [sys.executable, "-I", str(CHECK), str(proof), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_a_decision_is_proven_to_a_stranger(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proof = proved(lake, "extensible", AT, "--decision", BUNDLE, "--table", "unload_decisions")
    assert "with the row of unload_decisions" in capsys.readouterr().out
    code, text = checked(proof, *LOG)
    assert (code, text.splitlines()[0]) == (0, "PROVEN.")
    assert "of the table 'unload_decisions'" in text
    assert "with it 70.2 KiB/s leave of the 650.0 KiB/s wanted" in text
    digest = rows_of(lake, "extensible")[-1]["manifest_digest"]
    assert f'digest: "{digest}"' in text
    assert 'status: "closed"' in text
    assert len(proof.read_bytes()) < 5_000
    assert checked(proof, "--log-key", OTHER_KEY.verifier.text)[0] == 1
    changed = proof.read_bytes().replace(b"extra ", b"extra A", 1)
    proof.write_bytes(changed)
    assert checked(proof, *LOG)[0] == 1


def test_a_cycle_is_proven_of_every_cluster_and_schema_version(lake: Path) -> None:
    for cluster, status in (("lab", "closed"), ("modular", "closed"), ("silent", "skipped")):
        code, text = checked(proved(lake, cluster, "latest"), *LOG)
        assert code == 0
        assert f'cluster: "{cluster}"' in text
        assert f'status: "{status}"' in text


def test_a_witness_vouches_in_the_proof(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with witness(tmp_path / "state") as url:
        monkeypatch.setenv("EVENKEEL_WITNESSES", line_of(url))
        log_manifests(
            str(lake), environment={"EVENKEEL_LOG_KEY": LOG_KEY.secret().reveal(), "EVENKEEL_WITNESSES": line_of(url)}
        )
    proof = proved(lake, "lab", "latest")
    command = capsys.readouterr().out.splitlines()[-1].split()
    assert command[:2] == ["python", "tools/check_proof.py"]
    code, text = checked(Path(command[2]), *command[3:])
    assert (code, "cosigned by the witness 'witness.example/1'" in text) == (0, True)
    assert checked(proof, *LOG, *WITNESS)[0] == 0


def test_without_a_witness_a_proof_says_so_and_does_not_pass_for_one_with(lake: Path) -> None:
    proof = proved(lake, "lab", "latest")
    assert "No witness vouches for it" in checked(proof, *LOG)[1]
    assert checked(proof, *LOG, *WITNESS)[0] == 1


def refused(lake: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What is said where no proof can be made."""
    out = lake.parent / "none.tlog"
    assert main(["prove", *words, "--lake", str(lake), "--out", str(out)]) == 2
    assert not out.exists()
    return capsys.readouterr().err


def test_what_is_ambiguous_or_missing_is_told_with_what_there_is(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = refused(lake, capsys, "extensible", AT, "--decision", BUNDLE)
    assert "decisions are about" in text
    assert "unload_decisions: " in text
    assert "placement_decisions: " in text
    text = refused(lake, capsys, "extensible", AT, "--decision", BUNDLE[:-1])
    assert f"Did you mean '{BUNDLE}'?" in text
    assert "decision" in refused(lake, capsys, "extensible", AT, "--decision", BUNDLE, "--number", "99")
    assert "schema version 5, which listed no Merkle roots" in refused(
        lake, capsys, "modular", "latest", "--decision", "any"
    )
    assert "no cycle at 2001" in refused(lake, capsys, "extensible", "2001-01-01")
    assert "go with --decision" in refused(lake, capsys, "extensible", AT, "--number", "1")
    assert "decisions stand in" in refused(lake, capsys, "extensible", AT, "--decision", "x", "--table", "settings")


def test_every_decision_that_is_listed_can_be_proven_by_its_number(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = refused(lake, capsys, "extensible", AT, "--decision", BUNDLE)
    seen = set()
    for number in range(1, listed.count(BUNDLE)):
        proof = proved(lake, "extensible", AT, "--decision", BUNDLE, "--number", str(number))
        code, text = checked(proof, *LOG)
        assert code == 0
        seen.add(json.loads(text.splitlines()[2].strip())["sentence"])
    assert len(seen) == listed.count(BUNDLE) - 1 >= 2


def test_rows_that_upkeep_has_put_together_are_found_too(lake: Path) -> None:
    assert DeltaTable(str(lake / "unload_decisions")).optimize.compact()["numFilesAdded"] > 0
    DeltaTable(str(lake / "unload_decisions")).vacuum(0, dry_run=False, enforce_retention_duration=False)
    proof = proved(lake, "extensible", AT, "--decision", BUNDLE, "--table", "unload_decisions")
    assert checked(proof, *LOG)[0] == 0


def test_a_row_that_was_changed_is_not_proven(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file in (lake / "unload_decisions" / "cluster=extensible").rglob("*.parquet"):
        rows = pq.ParquetFile(file).read()
        place = rows.schema.get_field_index("sentence")
        other = pa.array([f"{text} Or so." for text in rows.column("sentence").to_pylist()])
        pq.write_table(rows.set_column(place, "sentence", other), file)
    words = ("extensible", AT, "--decision", BUNDLE, "--table", "unload_decisions")
    assert "are not the" in refused(lake, capsys, *words)


def test_a_manifest_without_a_leaf_is_told(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    decide_once_more(lake, "lab")
    assert "has no leaf in the log: `evenkeel log catch-up`" in refused(lake, capsys, "lab", "latest")
    catch_up(str(lake), [LOG_KEY])
    assert checked(proved(lake, "lab", "latest"), *LOG)[0] == 0
    shutil.rmtree(lake / "_log")
    assert "there is no transparency log" in refused(lake, capsys, "lab", "latest")
