"""A real publish with a key: its manifests are in the log, before anything is sent, and a decision of it is proven."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from evenkeel.cli import main
from evenkeel.publish import task
from evenkeel.publish.gate import put_out
from evenkeel.record.read import read_rows
from evenkeel.transparency.lake_log import begin, open_log, storage_of
from evenkeel.transparency.leaves import parse_manifest_leaf
from tests.publish.acting import Case
from tests.transparency.lakes import LOG_KEY

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CHECK = Path(__file__).resolve().parents[2] / "tools" / "check_proof.py"


def leaves(lake: Path) -> list[str]:
    """The statuses of the manifests in the log, in their order."""
    tree = open_log(storage_of(str(lake))).tree()
    found = [parse_manifest_leaf(entry) for entry in tree.entries(0, tree.size)]
    return [leaf.status for leaf in found if leaf is not None]


def test_a_plan_is_in_the_log_before_it_is_carried_out_and_a_decision_is_proven(
    case: Case, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = str(case.lake)
    begin(lake, [LOG_KEY])
    monkeypatch.setenv("EVENKEEL_LOG_KEY", LOG_KEY.secret().reveal())
    monkeypatch.delenv("EVENKEEL_WITNESSES", raising=False)
    seen: list[list[str]] = []

    def watched(*given: object, **named: object) -> object:
        seen.append(leaves(case.lake))
        return put_out(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(task, "put_out", watched)
    case.publish()
    assert seen == [["planned"]]
    assert leaves(case.lake) == ["planned", "closed"]
    assert case.sent()
    assert main(["verify", "--lake", lake, "--depth", "chain", "--log-key", LOG_KEY.verifier.text]) == 0
    (subject, *_) = [row["subject"] for row in read_rows(case.lake, case.attempt(), "unload_decisions")]
    out = case.lake.parent / "proof"
    words = ("--decision", subject, "--table", "unload_decisions", "--number", "1")
    assert main(["prove", case.cluster, "latest", *words, "--lake", lake, "--out", str(out)]) == 0
    command = capsys.readouterr().out.splitlines()[-1].split()
    done = subprocess.run([sys.executable, "-I", str(CHECK), *command[2:]], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("PROVEN.")
    assert subject in done.stdout


@pytest.mark.exhaustive
def test_a_publish_without_its_log_goes_on_and_the_next_one_mends_it(
    case: Case, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("EVENKEEL_LOG_KEY", LOG_KEY.secret().reveal())
    case.publish()
    assert case.attempt().status == "closed"
    assert "has no transparency log" in caplog.text or "there is no transparency log" in caplog.text
    begin(str(case.lake), [LOG_KEY])
    assert leaves(case.lake) == ["planned", "closed"]
