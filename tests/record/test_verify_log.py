"""`evenkeel verify` of a lake with a log: whatever was cut, set back or rewritten is named with cluster and cycle."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from evenkeel.cli import main
from evenkeel.lake.schemas import TABLES
from evenkeel.lake_log.catch_up import begin, catch_up
from evenkeel.lake_log.leaves import manifest_leaf
from evenkeel.lake_log.publishing import log_manifests
from evenkeel.record.read import Record
from evenkeel.transparency.leaf import TableRoot
from evenkeel.transparency.log import TransparencyLog
from evenkeel.transparency.storage import FolderStorage
from tests.lake_log.lakes import (
    LOG_KEY,
    ORIGIN,
    OTHER_KEY,
    add_upkeep,
    copied,
    decide_once_more,
    kept_lake,
    linked,
    publish_more,
    rewrite,
    rows_of,
    set_back,
)
from tests.lake_log.telling import Told, teller
from tests.lake_log.witnesses_here import line_of, witness
from tests.record.small_lake import arrow_schema, completed

pytestmark = pytest.mark.slow

VKEY = LOG_KEY.verifier.text
NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)
Row = dict[str, Any]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake with a log over 11 old manifests, and two further cycles of `lab`; 16 leaves."""
    lake = kept_lake(tmp_path_factory.mktemp("kept"))
    begin(str(lake), [LOG_KEY])
    publish_more(lake, "lab", 2)
    catch_up(str(lake), [LOG_KEY])
    return lake


@pytest.fixture
def lake(published: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("EVENKEEL_WITNESSES", raising=False)
    return copied(published, tmp_path / "lake")


@pytest.fixture
def told(lake: Path, capsys: pytest.CaptureFixture[str]) -> Told:
    return teller(lake, capsys)


def without(*gone: tuple[str, int]) -> Callable[[list[Row]], list[Row]]:
    """All rows but these: cluster and sequence."""
    return lambda rows: [row for row in rows if (row["cluster"], row["sequence"]) not in gone]


def of_the_log(found: dict[str, Any]) -> list[tuple[str, str | None, str]]:
    """Cluster, cycle and place of the faults that the log shows."""
    faults = [fault for fault in found["faults"] if fault["kind"] == "log"]
    return [(fault["cluster"], fault["cycle_at"], fault["place"]) for fault in faults]


def words_of(found: dict[str, Any]) -> str:
    return "\n".join(fault["words"] for fault in found["faults"])


def at(row: Row) -> str:
    """The time of a row's cycle as a leaf has it."""
    moment = row["cycle_at"]
    return (moment - timedelta(microseconds=moment.microsecond % 1000)).isoformat()


def test_a_record_that_is_as_it_was_has_the_log_beside_it(lake: Path, told: Told) -> None:
    found = told()
    assert found["sound"]
    log = found["log"]
    assert (log["signed"], log["leaves"], log["manifests_before"], log["keys"]) == (True, 16, 11, [VKEY])
    assert log["checkpoint"] == (lake / "_log" / "checkpoint").read_text()
    assert log["keys_as_the_log_names_them"]
    assert not told("--log-key", VKEY)["log"]["keys_as_the_log_names_them"]
    assert told("--cluster", "modular")["sound"]


def test_the_text_shows_heads_and_the_checkpoint_whole(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--lake", str(lake), "--depth", "chain"]) == 0
    text = capsys.readouterr().out
    for cluster in ("extensible", "lab", "modular", "silent"):
        assert f"head {rows_of(lake, cluster)[-1]['manifest_digest']}\n" in text
    for line in (lake / "_log" / "checkpoint").read_text().splitlines():
        assert f"    {line}\n" in text
    assert f"key {VKEY} (as the log itself names it" in text
    assert "11 manifests from before the log began, which nothing had witnessed then" in text


def test_a_lake_without_a_log_is_unsigned_and_sound(lake: Path, told: Told, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(lake / "_log")
    found = told()
    assert (found["sound"], found["log"]["signed"]) == (True, False)
    assert main(["verify", "--lake", str(lake), "--depth", "chain"]) == 0
    assert "\nunsigned: the lake has no transparency log" in capsys.readouterr().out


def test_a_log_that_was_taken_away_is_missed_by_whoever_has_its_key(lake: Path, told: Told) -> None:
    shutil.rmtree(lake / "_log")
    found = told("--log-key", VKEY)
    assert not found["sound"]
    assert "has no checkpoint: it was never begun, or the file was removed" in words_of(found)


def test_a_cut_end_is_named_with_cluster_and_cycle(lake: Path, told: Told) -> None:
    chain = rows_of(lake, "lab")
    rewrite(
        lake, lambda rows: [row for row in rows if (row["cluster"], row["sequence"]) not in [("lab", 5), ("lab", 6)]]
    )
    found = told()
    assert of_the_log(found) == [("lab", at(row), f"row {row['sequence']}") for row in chain[4:]]
    assert "the end of the chain was cut off, or `cycles` was set back to an earlier version" in words_of(found)
    assert of_the_log(told("--cluster", "lab")) == of_the_log(found)
    assert of_the_log(told("--cluster", "modular")) == []


def test_a_table_that_was_set_back_is_named_though_its_own_log_shows_nothing(lake: Path, told: Told) -> None:
    chain = rows_of(lake, "lab")
    set_back(lake)
    found = told()
    assert {fault["kind"] for fault in found["faults"]} == {"log"}
    assert of_the_log(found) == [("lab", at(row), f"row {row['sequence']}") for row in chain[2:]]


def test_a_cluster_that_is_gone_and_a_record_that_is_empty_are_named(lake: Path, told: Told) -> None:
    rewrite(lake, lambda rows: [row for row in rows if row["cluster"] != "silent"])
    assert [one[0] for one in of_the_log(told())] == ["silent"]
    assert [one[0] for one in of_the_log(told("--cluster", "silent"))] == ["silent"]
    DeltaTable(str(lake / "cycles")).delete()
    found = told()
    assert len(of_the_log(found)) == 15
    assert {one[0] for one in of_the_log(found)} == {"extensible", "lab", "modular", "silent"}


def test_a_past_that_was_rewritten_whole_is_named_row_by_row(lake: Path, told: Told) -> None:
    def other(rows: list[Row]) -> list[Row]:
        own = [row for row in rows if row["cluster"] == "lab"]
        own = [{**row, "reason": "another past"} if row["sequence"] > 2 else row for row in own]
        head = own[1]["manifest_digest"]
        return [*(row for row in rows if row["cluster"] != "lab"), *own[:2], *linked(own[2:], head, 2)]

    rewrite(lake, other)
    found = told()
    rows = rows_of(lake, "lab")[2:]
    assert of_the_log(found) == [("lab", row["cycle_at"].isoformat(), f"row {row['sequence']}") for row in rows]
    assert "the past was rewritten" in words_of(found)


def test_a_digest_that_is_not_one_is_named(lake: Path, told: Told) -> None:
    def odd(rows: list[Row]) -> list[Row]:
        is_fifth = [(row["cluster"], row["sequence"]) == ("lab", 5) for row in rows]
        return [{**row, "manifest_digest": "none"} if odd else row for row, odd in zip(rows, is_fifth, strict=True)]

    rewrite(lake, odd)
    assert [place for _, _, place in of_the_log(told())] == ["row 5"]


def test_a_row_that_was_removed_from_the_middle_is_named_with_its_own_cycle(lake: Path, told: Told) -> None:
    gone = rows_of(lake, "lab")[2]
    rewrite(lake, without(("lab", 3)))
    assert of_the_log(told()) == [("lab", at(gone), "row 3")]
    assert "it was removed from the middle of the chain" in words_of(told())


def test_many_rows_that_are_gone_are_counted(lake: Path, told: Told) -> None:
    publish_more(lake, "lab", 30)
    catch_up(str(lake), [LOG_KEY])
    set_back(lake)
    found = told()
    assert len(of_the_log(found)) == 21
    assert "40 further rows up to row 66 are gone too, and the log holds them" in words_of(found)


def test_a_log_that_was_set_back_lacks_leaves(lake: Path, told: Told, tmp_path: Path) -> None:
    before = copied(lake / "_log", tmp_path / "before")
    rows = publish_more(lake, "modular", 12)
    catch_up(str(lake), [LOG_KEY])
    late = (lake / "_log" / "checkpoint").read_bytes()
    assert told()["sound"]
    shutil.rmtree(lake / "_log")
    copied(before, lake / "_log")
    found = told()
    named = [("modular", row["cycle_at"].isoformat(), f"row {row['sequence']}") for row in rows[:20]]
    assert of_the_log(found) == [*named, ("modular", None, "the log")]
    assert "4 further rows have no leaf either" in words_of(found)
    assert "the log was set back, or a publish has not come to it yet" in words_of(found)
    kept = tmp_path / "late"
    kept.write_bytes(late)
    assert "was set back: it has size 16" in words_of(told("--checkpoint", str(kept)))


def test_a_log_begun_anew_over_another_past_is_shown_by_any_checkpoint_of_the_first(
    lake: Path, told: Told, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody who has the key, too: nothing in the lake can show it."""
    kept = tmp_path / "kept"
    shutil.copy(lake / "_log" / "checkpoint", kept)
    proof = tmp_path / "proof"
    assert main(["prove", "lab", "latest", "--lake", str(lake), "--out", str(proof)]) == 0
    capsys.readouterr()
    found = told("--checkpoint", str(kept), "--checkpoint", str(proof))
    assert found["sound"]
    assert len(found["log"]["agreed"]) == 2
    set_back(lake)
    publish_more(lake, "lab", 2, reason="another past")
    shutil.rmtree(lake / "_log")
    begin(str(lake), [LOG_KEY])
    assert told()["sound"]
    for one in (kept, proof):
        found = told("--checkpoint", str(one))
        assert not found["sound"]
        assert "shows another past: a kept checkpoint has size 16" in words_of(found)


def test_a_witness_is_asked_what_it_has_seen(
    lake: Path, told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = str(tmp_path / "kept.jsonl")
    with witness(tmp_path / "state") as url:
        line = line_of(url)
        own = {"EVENKEEL_LOG_KEY": LOG_KEY.secret().reveal(), "EVENKEEL_WITNESSES": f"{line}\n{kept}"}
        log_manifests(str(lake), environment=own)
        published = f"{url}/{hashlib.sha256(ORIGIN.encode()).hexdigest()}/checkpoint"
        found = told("--against", line, "--against", kept, "--checkpoint", kept, "--checkpoint", published)
        assert found["sound"]
        assert len(found["log"]["agreed"]) == 4
        assert len(found["log"]["witnesses"]) == 2
        with monkeypatch.context() as patch:
            patch.setenv("EVENKEEL_WITNESSES", line)
            assert told("--against", url)["sound"]
        words = ["verify", "--lake", str(lake), "--depth", "chain", "--checkpoint", f"{url}/elsewhere"]
        assert main(words) == 2
        publish_more(lake, "modular")
        catch_up(str(lake), [LOG_KEY])
        assert told("--against", line, "--against", kept)["sound"], "it has grown from what they have seen"
        shutil.rmtree(lake / "_log")
        begin(str(lake), [LOG_KEY])
        assert told()["sound"], "nothing in the lake shows that the log was begun anew"
        assert len(of_the_log(told("--against", line, "--against", kept))) == 2
        log_manifests(str(lake), environment=own)
        assert "a witness has seen another tree: split view" in words_of(told())
    assert "does not say what it has seen" in words_of(told("--against", line))


def test_a_head_that_was_noted_is_looked_for(lake: Path, told: Told, capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(lake, "lab")
    newest, older = rows[-1]["manifest_digest"], rows[1]["manifest_digest"]
    assert told("--expect-head", newest, "--expect-head", f"lab={older}")["sound"]
    assert not told("--expect-head", f"modular={newest}")["sound"]
    shutil.rmtree(lake / "_log")
    assert told("--expect-head", newest)["sound"]
    set_back(lake)
    found = told("--expect-head", newest)
    assert [fault["place"] for fault in found["faults"]] == ["--expect-head"]
    assert main(["verify", "--lake", str(lake), "--expect-head", newest[:16]]) == 2
    assert "a head is 64 hex digits" in capsys.readouterr().err


def test_a_leaf_over_other_tables_than_its_manifest_lists_is_named(lake: Path, told: Told) -> None:
    """Without this check the holder of the key could prove rows that nobody wrote."""
    row = {**decide_once_more(lake, "extensible"), "cluster": "extensible"}
    forged = manifest_leaf({**row, "roots": [{"table": "settings", "rows": 1, "root": "ab" * 32}]})
    assert forged.tables == {"settings": TableRoot(1, "ab" * 32)}
    log = TransparencyLog(FolderStorage(lake / "_log"), ORIGIN, [LOG_KEY])
    log.append([forged.text])
    catch_up(str(lake), [LOG_KEY])
    found = told()
    assert of_the_log(found) == [("extensible", row["cycle_at"].isoformat(), "row 5")]
    assert "names its digest, and other tables or figures than the row has" in words_of(found)


def test_a_row_that_was_logged_twice_or_left_out_is_named(lake: Path, told: Told) -> None:
    log = TransparencyLog(FolderStorage(lake / "_log"), ORIGIN, [LOG_KEY])
    log.append([manifest_leaf({**row, "cluster": "lab"}).text for row in rows_of(lake, "lab")[2:3]])
    assert [place for _, _, place in of_the_log(told())] == ["leaf 16"]
    assert "a row was logged twice, or one was left out" in words_of(told())


def test_a_record_with_a_gap_joins_as_it_stands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = kept_lake(tmp_path)
    rewrite(lake, without(("extensible", 2)))
    begin(str(lake), [LOG_KEY])
    publish_more(lake, "extensible")
    catch_up(str(lake), [LOG_KEY])
    assert main(["verify", "--lake", str(lake), "--depth", "chain", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert of_the_log(found) == [("extensible", at(rows_of(lake, "extensible")[1]), "leaf 2")]
    assert "leaf 2 of the log is of row 3, and the leaf before it of row 1" in words_of(found)


def test_a_log_that_somebody_else_signs_or_that_was_damaged_is_told(lake: Path, told: Told, tmp_path: Path) -> None:
    assert "no known key has signed" in words_of(told("--log-key", OTHER_KEY.verifier.text))
    (bundle,) = (lake / "_log" / "tile" / "entries" / "000.p").glob("16")
    bundle.write_bytes(bundle.read_bytes().replace(b'"status":"closed"', b'"status":"cl0sed"', 1))
    found = told()
    assert "was changed; restore the file; without it nothing shows a cut end or another past" in words_of(found)


def test_what_is_published_while_it_is_read_is_no_fault(
    lake: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = Record.links

    def late(self: Record, cluster: str) -> Any:
        if cluster == "lab":
            publish_more(lake, "lab")
            catch_up(str(lake), [LOG_KEY])
            self._opened.clear()
            self._datasets.clear()
        return links(self, cluster)

    monkeypatch.setattr(Record, "links", late)
    assert told()["faults"] == []


def test_a_file_that_is_no_checkpoint_is_a_wrong_question(
    lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for data in (b"", b"nonsense", b"{}\n", b"example.com/other\n1\nAAAA\n\n"):
        (tmp_path / "file").write_bytes(data)
        words = ["verify", "--lake", str(lake), "--depth", "chain", "--checkpoint", str(tmp_path / "file")]
        assert main(words) == 2, data
        assert capsys.readouterr().err.startswith("evenkeel: ")
    assert main([*words[:-1], str(tmp_path / "absent")]) == 2


def test_rows_that_expired_are_behind_an_anchor_that_the_log_bears_out(lake: Path, told: Told) -> None:
    first = rows_of(lake, "lab")[1]
    rewrite(lake, without(("lab", 1), ("lab", 2)))
    _anchor(lake, first["sequence"], first["manifest_digest"])
    assert "which is not past the periods of the upkeeps in the log, of which there is none" in words_of(told())
    add_upkeep(lake, first["cycle_at"] + timedelta(days=4), 2)
    assert "which keep all from 2025-10-21 on: the anchor was forged" in words_of(told()), "its periods are not logged"
    catch_up(str(lake), [LOG_KEY])
    assert of_the_log(told()) == []
    _anchor(lake, first["sequence"], "ab" * 32, mode="overwrite")
    assert "the anchor was forged" in words_of(told())


def test_no_anchor_stands_for_a_whole_chain(lake: Path, told: Told) -> None:
    chain = rows_of(lake, "lab")
    add_upkeep(lake, chain[-1]["cycle_at"] + timedelta(days=4), 2)
    catch_up(str(lake), [LOG_KEY])
    rewrite(lake, without(*(("lab", row["sequence"]) for row in chain)))
    for number, row in enumerate(chain):
        _anchor(lake, row["sequence"], row["manifest_digest"], mode="append" if number else "overwrite")
    assert of_the_log(told()) == [("lab", at(chain[-1]), "row 6")]


def _anchor(lake: Path, sequence: int, digest: str, mode: Literal["append", "overwrite"] = "append") -> None:
    table = TABLES["anchors"]
    moments = {column.name: NOON for column in table.columns if column.type == "timestamp"}
    row = completed(table, {**moments, "cluster": "lab", "sequence": sequence, "manifest_digest": digest})
    body = pa.Table.from_pylist([row], arrow_schema(table))
    write_deltalake(str(lake / table.name), body, mode=mode, partition_by=[*table.partition])


@pytest.mark.parametrize("version", [3, 4])
def test_an_older_lake_joins_as_it_stands(version: int, tmp_path: Path) -> None:
    lake = kept_lake(tmp_path, version)
    begin(str(lake), [LOG_KEY])
    assert main(["verify", "--lake", str(lake), "--depth", "chain", "--log-key", VKEY]) == 0
