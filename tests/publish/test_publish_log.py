"""A real publish with a key: its manifests are in the log, before anything is sent, and a decision of it is proven."""

import subprocess
import sys
from pathlib import Path

import pytest

from evenkeel.cli import main
from evenkeel.lake.record import read_rows
from evenkeel.publish import task
from evenkeel.publish.gate import put_out
from evenkeel.transparency.lake_log import begin
from tests.publish.acting import Case
from tests.transparency.lakes import leaves
from tests.transparency.logs import LOG_KEY

pytestmark = [pytest.mark.spark, pytest.mark.slow]

CHECK = Path(__file__).resolve().parents[2] / "tools" / "check_proof.py"


def of_cycles(lake: Path) -> int:
    """The number of commits of `cycles` in the log."""
    return sum(leaf.table == "cycles" for leaf in leaves(lake))


def test_a_plan_is_in_the_log_before_it_is_carried_out_and_a_decision_is_proven(
    case: Case, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = str(case.lake)
    begin(lake, [LOG_KEY])
    before = of_cycles(case.lake)
    monkeypatch.setenv("EVENKEEL_LOG_KEY", LOG_KEY.secret().reveal())
    monkeypatch.delenv("EVENKEEL_WITNESSES", raising=False)
    seen: list[int] = []

    def watched(*given: object, **named: object) -> object:
        seen.append(of_cycles(case.lake) - before)
        return put_out(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(task, "put_out", watched)
    case.publish()
    assert seen == [1]
    assert of_cycles(case.lake) - before == 2
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
def test_a_publish_without_its_log_goes_on_and_a_log_that_is_begun_has_it(
    case: Case, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("EVENKEEL_LOG_KEY", LOG_KEY.secret().reveal())
    case.publish()
    assert case.attempt().status == "closed"
    assert "has no transparency log" in caplog.text or "there is no transparency log" in caplog.text
    begin(str(case.lake), [LOG_KEY])
    assert of_cycles(case.lake) == 3, "the commit that made the table, and those of the planned and the closed manifest"
