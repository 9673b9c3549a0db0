"""The lake of version 1.0: every later version reads it, explains it and decides it again.

It is unpacked for each run of the tests and never written anew.
"""

from __future__ import annotations

import html
import json
import re
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from evenkeel.cli import main
from evenkeel.lake.record import read_cycles, read_table

if TYPE_CHECKING:
    from evenkeel.spark.server import Engine

HERE = Path(__file__).resolve().parent
NO_SPARK = "sc://127.0.0.1:1"
CYCLES = {
    ("extensible", "2026-11-21T08:25:48+00:00", "closed", "dry_run", "extensible"),
    ("extensible", "2026-11-21T08:27:23+00:00", "closed", "dry_run", "extensible"),
    ("lab", "2026-11-21T08:28:23+00:00", "closed", "auto", "modular"),
    ("modular", "2026-11-21T08:35:07+00:00", "closed", "dry_run", "modular"),
    ("modular", "2026-11-21T08:35:41+00:00", "closed", "dry_run", "modular"),
    ("silent", "2026-11-21T08:37:00+00:00", "skipped", "dry_run", None),
}
WISH = (
    "1a4aa5ef2a2a  2026-11-21T08:35:41.110000+00:00  operator  modular  "
    "unload acme/ns0/0x20000000_0x40000000  2026-11-21T08:35:41.110000+00:00"
)
UNLOADED = [
    (
        "lab",
        "acme/ns0/0xe0000000_0xffffffff",
        "acme/ns0/0xe0000000_0xffffffff (331.3 KiB/s) leaves 127.0.0.1:38343: number 1 by throughput, "
        "with 0 byte/s of 215.5 KiB/s taken before it.",
    ),
    (
        "extensible",
        "acme/ns1/0x80000000_0x90000000",
        "acme/ns1/0x80000000_0x90000000 (70.2 KiB/s) goes from 127.0.0.3:22080 to 127.0.0.2:22080: "
        "with it 70.2 KiB/s leave of the 650.0 KiB/s wanted.",
    ),
]


@pytest.fixture(scope="module")
def schema_1(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The lake of schema version 1; nobody writes to this copy."""
    folder = tmp_path_factory.mktemp("schema_1")
    with tarfile.open(HERE / "schema_1.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "lake"


def test_every_kept_lake_is_small_and_has_its_tests_here() -> None:
    kept = {file.name: file.stat().st_size for file in HERE.glob("*.tar.gz")}
    assert set(kept) == {"schema_1.tar.gz"}
    assert max(kept.values()) <= 1_000_000


def test_the_cycles_of_schema_1_are_listed(schema_1: Path) -> None:
    found = {
        (one.cluster, one.cycle_at.isoformat(timespec="seconds"), one.status, row["mode"], row["manager"])
        for one in read_cycles(schema_1)
        for row in [one.planned]
    }
    assert found == CYCLES


def test_the_commands_that_were_sent_are_read_with_their_outcomes(schema_1: Path) -> None:
    sent = {row["command_id"]: row["kind"] for row in read_table(schema_1, "commands") if row["cluster"] == "lab"}
    outcomes = {
        row["command_id"]: row["outcome"] for row in read_table(schema_1, "outcomes") if row["cluster"] == "lab"
    }
    assert sorted(sent.values()) == ["split", "unload", "unload", "unload"]
    assert outcomes == dict.fromkeys(sent, "done")


def test_the_manual_wish_is_read_with_the_cycle_that_took_it(
    schema_1: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["wish", "list", "--lake", str(schema_1), "--cluster", "modular"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert line == WISH


@pytest.mark.parametrize(("cluster", "subject", "sentence"), UNLOADED, ids=[cluster for cluster, _, _ in UNLOADED])
def test_a_bundle_that_was_unloaded_is_explained_in_the_words_of_then(
    schema_1: Path, cluster: str, subject: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", subject, "--lake", str(schema_1), "--cluster", cluster, "--json"]) == 0
    assert sentence in json.dumps(json.loads(capsys.readouterr().out), ensure_ascii=False)


def test_an_unload_is_traced_to_its_writes_and_to_the_cycle_before(
    schema_1: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster, subject, _ = UNLOADED[1]
    assert main(["trace", subject, "--lake", str(schema_1), "--cluster", cluster, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert ("unload", subject) in {(one["act"], one["bundle"]) for one in found["decisions"]}
    assert {"topic_stats", "bundle_load", "unload_decisions"} <= {one["table"] for one in found["writes"]}
    assert {"bundle_load", "strategy_state"} <= {one["table"] for one in found["reads"]}
    assert found["code_digest"].startswith("d2:")


@pytest.mark.parametrize("cluster", ["extensible", "lab"])
def test_the_report_is_built(schema_1: Path, cluster: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert main(["report", "--lake", str(schema_1), "--cluster", cluster, "--out", str(page)]) == 0
    sentence = next(told for name, _, told in UNLOADED if name == cluster)
    words = html.unescape(re.sub(r"<[^>]+>", "", page.read_text()))
    assert sentence in " ".join(words.split())


def verified_from_loads(lake: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What `evenkeel verify` tells of a lake that it finds sound."""
    assert main(["verify", "--lake", str(lake), "--depth", "bundles", "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_record_is_whole_and_is_decided_again_from_its_loads(
    schema_1: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_SPARK", NO_SPARK)
    found = verified_from_loads(schema_1, capsys)
    assert (found["faults"], found["attempts"], found["reproduced"], found["writes_by_rows"]) == ([], 6, 5, 0)
    assert (found["sound"], found["wording_only"]) == (True, 0)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.exhaustive
def test_every_row_is_as_it_was_and_is_decided_again_from_its_topics(
    schema_1: Path, engine: Engine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_SPARK", engine.url)
    assert main(["verify", "--lake", str(schema_1), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["faults"], found["attempts"], found["reproduced"], found["writes_by_rows"]) == ([], 6, 5, 0)
