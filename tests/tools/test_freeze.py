"""`tools/freeze.py` names what differs, and takes the same sample of a recording every time."""

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tools.freeze import ROOT, differences, recordings_in, sample

CYCLE = "2026-11-21T08:35:07+00:00 attempt 1"
LATER = "2026-11-21T08:36:07+00:00 attempt 1"


def digests(whole: str, bare: str, rows: int = 3) -> dict[str, Any]:
    return {"rows": rows, "whole": whole, "without_sentences": bare}


def cycle(plan_id: str) -> dict[str, Any]:
    tables = {"bundle_load": digests("a1", "a2"), "unload_decisions": digests("b1", "b2")}
    manifest = {"plan_id": plan_id, "settings_digest": "s", "unloads": 1, "reason": None}
    return {"manifest": manifest, "tables": tables, "reads": {"strategy_state": digests("c1", "c2")}}


BEFORE: dict[str, Any] = {
    "golden": {"hash-001": {"answer": "g1", "without_sentences": "g2"}},
    "recordings": {"lost": {CYCLE: cycle("p1"), LATER: cycle("p2")}, "own": {CYCLE: cycle("p3")}},
}


@pytest.fixture
def after() -> dict[str, Any]:
    return copy.deepcopy(BEFORE)


def test_equal_fingerprints_have_no_difference(after: dict[str, Any]) -> None:
    assert differences(BEFORE, after) == []


def test_a_changed_digest_and_number_of_rows_are_named_with_their_table(after: dict[str, Any]) -> None:
    after["recordings"]["lost"][LATER]["tables"]["unload_decisions"] = digests("b1", "other", rows=4)
    where = f"lost {LATER}: table unload_decisions"
    assert differences(BEFORE, after) == [
        f"{where}: rows 3, then 4",
        f"{where}: digest (without_sentences) b2, then other",
    ]


def test_a_changed_figure_of_the_manifest_is_named(after: dict[str, Any]) -> None:
    after["recordings"]["own"][CYCLE]["manifest"] |= {"plan_id": "p4", "unloads": None}
    assert differences(BEFORE, after) == [
        f'own {CYCLE}: plan_id: "p3", then "p4"',
        f"own {CYCLE}: unloads: 1, then null",
    ]


def test_what_one_side_lacks_is_named(after: dict[str, Any]) -> None:
    del after["recordings"]["lost"][CYCLE]["tables"]["bundle_load"]
    del after["recordings"]["lost"][CYCLE]["reads"]["strategy_state"]
    del after["recordings"]["lost"][CYCLE]["manifest"]["reason"]
    del after["recordings"]["lost"][LATER]
    del after["recordings"]["own"]
    after["golden"] = {"hash-002": {"answer": "g1", "without_sentences": "g2"}}
    assert differences(BEFORE, after) == [
        "golden case hash-001: missing in the second file",
        "golden case hash-002: only in the second file",
        f"lost {CYCLE}: reason: missing in the second file",
        f"lost {CYCLE}: table bundle_load: missing in the second file",
        f"lost {CYCLE}: rows read of strategy_state: missing in the second file",
        f"lost {LATER}: cycle missing in the second file",
        "recording own: missing in the second file",
    ]
    assert len(differences(after, BEFORE)) == 7


def test_wording_alone_is_a_difference_only_with_sentences(after: dict[str, Any]) -> None:
    after["recordings"]["lost"][CYCLE]["tables"]["unload_decisions"]["whole"] = "reworded"
    after["recordings"]["lost"][LATER]["reads"]["strategy_state"]["whole"] = "reworded"
    after["golden"]["hash-001"]["answer"] = "reworded"
    assert len(differences(BEFORE, after)) == 3
    assert differences(BEFORE, after, with_sentences=False) == []
    after["golden"]["hash-001"]["without_sentences"] = "decided otherwise"
    (line,) = differences(BEFORE, after, with_sentences=False)
    assert line == "golden case hash-001: fingerprint (without_sentences) g2, then decided otherwise"


def test_the_command_exits_1_where_anything_differs(after: dict[str, Any], tmp_path: Path) -> None:
    after["recordings"]["own"][CYCLE]["manifest"]["plan_id"] = "p4"
    files = [tmp_path / "before.json", tmp_path / "after.json"]
    for file, content in zip(files, (BEFORE, after), strict=True):
        file.write_text(json.dumps(content))
    command = [sys.executable, str(ROOT / "tools" / "freeze.py"), "compare", "--without-sentences"]
    differing = subprocess.run([*command, *files], capture_output=True, text=True, check=False)
    assert (differing.returncode, differing.stdout.splitlines()) == (
        1,
        [f'own {CYCLE}: plan_id: "p3", then "p4"', "1 golden cases and 3 cycles compared: 1 differences"],
    )
    equal = subprocess.run([*command, files[0], files[0]], capture_output=True, text=True, check=False)
    assert equal.returncode == 0


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    folder = tmp_path / "recordings" / "lost"
    folder.mkdir(parents=True)
    for number in range(12):
        (folder / f"{number:04}.json.gz").touch()
    for other in ("events.jsonl", "scenario.json"):
        (folder / other).touch()
    return folder


@pytest.mark.parametrize(
    ("every", "numbers"),
    [(1, list(range(12))), (3, [0, 5, 6, 7]), (6, [0, 6]), (100, [0, 6])],
    ids=["all", "a third", "a sixth", "two at least"],
)
def test_a_sample_is_the_first_snapshot_and_consecutive_ones(recording: Path, every: int, numbers: list[int]) -> None:
    assert [int(one.name[:4]) for one in sample(recording, every)] == numbers


def test_a_recording_is_found_by_its_folder_or_the_folder_around_it(recording: Path, tmp_path: Path) -> None:
    assert recordings_in([recording]) == recordings_in([recording.parent]) == {"lost": recording}
    other = tmp_path / "others" / "lost"
    other.mkdir(parents=True)
    (other / "0000.json").touch()
    with pytest.raises(SystemExit, match="two recordings are called lost"):
        recordings_in([recording, other])


def test_it_runs_from_anywhere_with_the_tools_of_its_checkout(tmp_path: Path) -> None:
    first = f"import runpy; print(next(runpy.run_path({str(ROOT / 'tools' / 'freeze.py')!r})['golden_cases']())[0])"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PYTHONPATH"] = str(ROOT / "spark")
    command = [sys.executable, "-c", first]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
