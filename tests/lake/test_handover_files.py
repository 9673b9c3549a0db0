"""Hand-overs that are too large to travel themselves lie in the lake, and arrive as they were or not at all."""

import json
import os
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from evenkeel.errors import LakeError
from evenkeel.handover import ClusterCycle, DataFile, Handover, Run, Snapshot, Write
from evenkeel.lake import handover_files
from evenkeel.lake.handover_files import FOLDER, MOST_BYTES, clear, handed_on
from evenkeel.lake.schemas import OF_RECORD
from evenkeel.settings.lakes import ConfiguredLake, LakeMap

BEGIN = datetime(2026, 11, 21, tzinfo=UTC)
RUN = "backfill__../../etc é"


def taken(text: str, *lakes: Path) -> Handover:
    """The hand-over that is read from a text. `lakes`: those configured, by default the one that the text names."""
    named = [str(lake) for lake in lakes] or [json.loads(text)["lake"]]
    return handover_files.taken(text, LakeMap(tuple(ConfiguredLake(str(n), lake) for n, lake in enumerate(named))))


def day(lake: str, cycles: int) -> Handover:
    """A hand-over as it leaves `place`: every cycle has a write to each table, all in one file per table."""
    moments = [(BEGIN + timedelta(minutes=5 * n)).isoformat(timespec="microseconds") for n in range(cycles)]
    settings = json.dumps({"settings": {f"key{n}": n for n in range(400)}})
    opened = [
        ClusterCycle("lab", at, Snapshot(f"/landed/{at}", at), {}, settings=settings, settings_digest="d" * 64)
        for at in moments
    ]
    writes = [
        Write(*(table, f"{n:032x}", 7, 300, f"{n:064x}", "lab", (DataFile(f"{table}/part.parquet", 1, "e" * 64),), at))
        for table in sorted(OF_RECORD)[:17]
        for n, at in enumerate(moments)
    ]
    return Handover(lake, Run("rebalance", RUN), tuple(opened), tuple(writes))


def test_a_small_one_travels_itself(tmp_path: Path) -> None:
    given = day(str(tmp_path), 1)
    assert handed_on(given) == given.to_json()
    assert taken(given.to_json()) == given
    assert not (tmp_path / FOLDER).exists()


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_that_of_a_day_travels_as_a_reference_to_its_file(tmp_path: Path, scheme: str) -> None:
    given = day(f"{scheme}{tmp_path}", 288)
    text = handed_on(given)
    assert len(text) < 500
    assert taken(text) == given
    assert [write.files for write in taken(text).writes] == [write.files for write in given.writes]
    (file,) = (tmp_path / FOLDER).iterdir()
    assert MOST_BYTES < file.stat().st_size < 2_000_000
    assert file.read_text() == given.to_json()
    assert "etc" not in file.name
    assert handed_on(given) != text, "a file is never written twice"


def test_a_file_that_changed_or_is_gone_is_not_taken(tmp_path: Path) -> None:
    text = handed_on(day(str(tmp_path), 40))
    (file,) = (tmp_path / FOLDER).iterdir()
    file.write_text(file.read_text().replace('"open"', '"fine"'))
    with pytest.raises(LakeError, match="differs from what the task before wrote"):
        taken(text)
    file.unlink()
    with pytest.raises(LakeError, match="cannot be read"):
        taken(text)


@pytest.mark.parametrize("name", ["../cycles/secret.json", "/etc/passwd", "0" * 16 + "-" + "0" * 32 + ".json/..", ""])
def test_a_reference_leads_nowhere_but_to_hand_overs(tmp_path: Path, name: str) -> None:
    text = json.dumps({**json.loads(handed_on(day(str(tmp_path), 40))), "handover_file": name})
    with pytest.raises(LakeError, match="not a file of a configured lake"):
        taken(text)


def test_no_file_of_a_place_that_is_not_configured_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = handed_on(day(str(tmp_path / "elsewhere"), 40))
    monkeypatch.setattr(handover_files, "_files", lambda root: pytest.fail(f"{root} was asked for"))
    for lake in (json.loads(text)["lake"], "s3a://bucket-of-others/lake", "/etc", "a\0b", "", 7, None):
        forged = json.dumps({**json.loads(text), "lake": lake})
        with pytest.raises((LakeError, ValueError), match=r"nothing was read|null byte"):
            taken(forged, tmp_path / "lake", tmp_path / "other")
    with pytest.raises(LakeError, match="nothing was read"):
        handover_files.taken(text, LakeMap())


def test_sizes_and_depths_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = handed_on(day(str(tmp_path), 40))
    (file,) = (tmp_path / FOLDER).iterdir()
    size = file.stat().st_size
    known = LakeMap((ConfiguredLake("main", str(tmp_path)),))
    assert len(handover_files.taken(text, known, size).cycles) == 40
    with pytest.raises(LakeError, match="has more than"):
        handover_files.taken(text, known, size - 1)
    for forged in (f"{'[' * 20_000}{']' * 20_000}", f'{{"lake": {"[" * 9_000}{"]" * 9_000}}}', " " * MOST_BYTES + "{}"):
        with pytest.raises(ValueError, match=r"nested too deep|more than 48,000"):
            handover_files.taken(forged, known)
    monkeypatch.setattr(handover_files, "MOST_FILE_BYTES", size - 1)
    with pytest.raises(LakeError, match="take a shorter interval"):
        handed_on(day(str(tmp_path), 40))


def test_where_it_cannot_be_written_the_message_says_where(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("no folder")
    with pytest.raises(LakeError, match=r"cannot be written to .*_handovers"):
        handed_on(day(str(tmp_path), 40))


def test_old_ones_are_cleared_and_nothing_else(tmp_path: Path) -> None:
    old, new = handed_on(day(str(tmp_path), 40)), handed_on(day(str(tmp_path), 41))
    other = tmp_path / FOLDER / "notes.txt"
    other.touch()
    for path in (other, tmp_path / FOLDER / json.loads(old)["handover_file"]):
        os.utime(path, (BEGIN.timestamp(), BEGIN.timestamp()))
    assert clear(str(tmp_path), BEGIN) == 0
    assert clear(str(tmp_path), BEGIN + timedelta(seconds=1)) == 1
    assert clear(str(tmp_path), BEGIN + timedelta(seconds=1)) == 0
    assert stat.S_ISREG(other.stat().st_mode)
    assert len(taken(new).cycles) == 41
    assert clear(str(tmp_path / "nowhere"), BEGIN) == 0
