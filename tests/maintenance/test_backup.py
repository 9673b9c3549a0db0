"""Backups of lakes while others write, and lakes made of them."""

import json
import os
import shutil
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from deltalake import DeltaTable

from evenkeel.cli import main
from evenkeel.errors import BadInput, LakeError, NoLake
from evenkeel.maintenance import backup
from evenkeel.maintenance.backup import ABOUT, RESTORING, LakePlace, back_up, restore
from tests.lakes.plausible import plausible_lake

pytestmark = pytest.mark.slow

SOME = ("bundle_load", "unload_decisions", "cycles")
NOW = datetime(2026, 11, 27, 10, tzinfo=UTC)


@pytest.fixture(scope="module")
def plausible(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plausible_lake(tmp_path_factory.mktemp("kept") / "lake")


@pytest.fixture
def lake(plausible: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(plausible, tmp_path / "lake"))


def backed_up(lake: Path, to: Path, **more: bool) -> backup.Copied:
    return back_up(str(lake), str(to), now=lambda: NOW, **more)


def content(place: Path) -> dict[str, bytes]:
    files = (file for file in place.rglob("*") if file.is_file() and file.name not in (ABOUT, RESTORING))
    return {str(file.relative_to(place)): file.read_bytes() for file in files}


def append(lake: Path, table: str = "cycles") -> None:
    """A further commit, with the rows of the table once more."""
    from deltalake import write_deltalake

    path = str(lake / table)
    write_deltalake(path, DeltaTable(path).to_pyarrow_table(), mode="append")


def test_a_lake_that_is_lost_is_restored_file_by_file(lake: Path, tmp_path: Path) -> None:
    was = content(lake)
    copied = backed_up(lake, tmp_path / "kept")
    assert (copied.files, copied.kept, copied.size) == (len(was), 0, sum(map(len, was.values())))
    shutil.rmtree(lake)
    restored, as_of = restore(str(tmp_path / "kept"), str(lake))
    assert content(lake) == was
    assert (restored.tables, as_of) == (copied.tables, NOW)
    assert not (lake / RESTORING).exists()
    assert not (lake / ABOUT).exists()


def test_a_second_backup_copies_what_came_since_alone(lake: Path, tmp_path: Path) -> None:
    first = backed_up(lake, tmp_path / "kept")
    append(lake)
    second = backed_up(lake, tmp_path / "kept")
    assert (second.files, second.kept) == (2 + len(new_dates(lake)) - 1, first.files)
    assert second.tables == first.tables | {"cycles": first.tables["cycles"] + 1}
    assert content(tmp_path / "kept") == content(lake)


def new_dates(lake: Path) -> list[str]:
    """The data files of the newest commit."""
    log = sorted((lake / "cycles" / "_delta_log").glob("*.json"))[-1].read_text().splitlines()
    return [line for line in log if line.startswith('{"add"')]


def test_what_is_written_meanwhile_is_in_the_backup_whole_or_not_at_all(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows come into every table, their manifests into `cycles` last, between any two looks at tables."""
    looked = backup._look_at

    def look(source: LakePlace, name: str) -> backup._LookedAt:
        seen = looked(source, name)
        if name in ("bundle_load", "cycles", "settings"):
            for table in SOME:
                append(lake, table)
        return seen

    monkeypatch.setattr(backup, "_look_at", look)
    copied = backed_up(lake, tmp_path / "kept")
    kept = {name: DeltaTable(str(tmp_path / "kept" / name)) for name in copied.tables}
    assert {name: table.version() for name, table in kept.items()} == copied.tables
    behind = {name: DeltaTable(str(lake / name)).version() - copied.tables[name] for name in SOME}
    assert behind == {"bundle_load": 2, "unload_decisions": 0, "cycles": 3}
    for name in SOME:
        assert kept[name].to_pyarrow_table() == DeltaTable(str(lake / name), copied.tables[name]).to_pyarrow_table()


class Killed(BaseException):
    """As a kill: nobody catches it."""


@pytest.mark.parametrize("after", [0, 3, *(pytest.param(n, marks=pytest.mark.exhaustive) for n in (1, 5, 7))])
def test_killed_anywhere_the_copy_has_what_it_had_or_more_and_goes_on(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    kept = tmp_path / "kept"
    first = backed_up(lake, kept)
    for name in SOME:
        append(lake, name)
    take, count = LakePlace.take, iter(range(1_000))

    def killed(self: LakePlace, other: LakePlace, name: str) -> int | None:
        if next(count) >= after:
            raise Killed
        return take(self, other, name)

    with monkeypatch.context() as patched:
        patched.setattr(LakePlace, "take", killed)
        with pytest.raises(Killed):
            backed_up(lake, kept)
    for name in SOME:
        table = DeltaTable(str(kept / name))
        assert table.version() in (first.tables[name], first.tables[name] + 1)
        assert table.to_pyarrow_table() == DeltaTable(str(lake / name), table.version()).to_pyarrow_table()
    assert json.loads((kept / ABOUT).read_text())["tables"] == first.tables
    assert backed_up(lake, kept).tables == first.tables | {name: first.tables[name] + 1 for name in SOME}
    assert content(kept) == content(lake)


def test_a_first_backup_that_was_killed_is_none_until_it_is_run_again(
    lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(self: LakePlace, other: LakePlace, name: str) -> int | None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(LakePlace, "take", killed)
        with pytest.raises(Killed):
            backed_up(lake, tmp_path / "kept")
    with pytest.raises(BadInput, match="its first backup was never finished"):
        restore(str(tmp_path / "kept"), str(tmp_path / "new"))
    backed_up(lake, tmp_path / "kept")
    restore(str(tmp_path / "kept"), str(tmp_path / "new"))
    assert content(tmp_path / "new") == content(lake)


def test_a_restore_that_was_killed_is_run_again(lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backed_up(lake, tmp_path / "kept")
    take, count = LakePlace.take, iter(range(1_000))

    def killed(self: LakePlace, other: LakePlace, name: str) -> int | None:
        if next(count) >= 10:
            raise Killed
        return take(self, other, name)

    with monkeypatch.context() as patched:
        patched.setattr(LakePlace, "take", killed)
        with pytest.raises(Killed):
            restore(str(tmp_path / "kept"), str(tmp_path / "new"))
    assert not (tmp_path / "new" / "cycles").exists(), "nobody takes it for a lake"
    restore(str(tmp_path / "kept"), str(tmp_path / "new"))
    assert content(tmp_path / "new") == content(lake)


def test_pruned_it_has_no_file_that_the_lake_has_no_more(lake: Path, tmp_path: Path) -> None:
    backed_up(lake, tmp_path / "kept")
    table = DeltaTable(str(lake / "cycles"))
    table.optimize.compact()
    table.vacuum(0, dry_run=False, enforce_retention_duration=False)
    table.create_checkpoint()
    assert backed_up(lake, tmp_path / "kept").removed == 0
    pruned = backed_up(lake, tmp_path / "kept", prune=True)
    assert pruned.removed > 0
    assert pruned.files == 0
    assert content(tmp_path / "kept") == content(lake)
    assert DeltaTable(str(tmp_path / "kept" / "cycles")).to_pyarrow_table().num_rows


def test_parts_of_files_that_a_kill_has_left_go_after_a_day(lake: Path, tmp_path: Path) -> None:
    backed_up(lake, tmp_path / "kept")
    old, new = (tmp_path / "kept" / "cycles" / f".part-{name}" for name in ("old", "new"))
    for part in (old, new):
        part.write_bytes(b"PAR1")
    day_before_yesterday = time.time() - 2 * 86_400
    os.utime(old, (day_before_yesterday, day_before_yesterday))
    assert backed_up(lake, tmp_path / "kept").files == 0
    assert (old.exists(), new.exists()) == (False, True)
    assert {name for name, _ in LakePlace.at(str(tmp_path / "kept")).files().items()} == {*content(lake), ABOUT}


def test_a_lake_of_another_past_does_not_go_over_a_backup(lake: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(lake, tmp_path / "other"))
    append(lake)
    backed_up(lake, tmp_path / "kept")
    was = content(tmp_path / "kept")
    with pytest.raises(BadInput, match="another past of cycles"):
        backed_up(other, tmp_path / "kept")
    append(other)
    with pytest.raises(BadInput, match="another past of cycles"):
        backed_up(other, tmp_path / "kept")
    assert content(tmp_path / "kept") == was


def test_a_lake_that_has_lost_a_file_is_named_and_the_backup_keeps_it(lake: Path, tmp_path: Path) -> None:
    backed_up(lake, tmp_path / "kept")
    was = content(tmp_path / "kept")
    lost = min((lake / "settings").rglob("*.parquet"))
    lost.unlink()
    with pytest.raises(LakeError, match=rf"settings/.*{lost.name} is named by version \d+ of its table"):
        backed_up(lake, tmp_path / "kept")
    assert was.items() <= content(tmp_path / "kept").items()


def test_places_that_hold_something_else_are_left_alone(lake: Path, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "one").write_text("x")
    for place in (photos, lake / "below", lake):
        with pytest.raises(BadInput, match=r"holds something else|one is inside the other"):
            backed_up(lake, place)
    with pytest.raises(BadInput, match="not a whole backup"):
        restore(str(photos), str(tmp_path / "new"))
    backed_up(lake, tmp_path / "kept")
    with pytest.raises(BadInput, match="holds something else"):
        restore(str(tmp_path / "kept"), str(photos))
    with pytest.raises(NoLake):
        backed_up(tmp_path / "none", tmp_path / "kept2")
    (tmp_path / "kept" / ABOUT).write_text('{"format": 1')
    with pytest.raises(BadInput, match="cannot be read"):
        restore(str(tmp_path / "kept"), str(tmp_path / "new"))
    assert {file.name for file in photos.iterdir()} == {"one"}


def test_a_full_disk_is_one_line_that_says_to_go_on(lake: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    def full(self: LakePlace, other: LakePlace, name: str) -> int | None:
        raise OSError(28, "No space left on device", name)

    monkeypatch.setattr(LakePlace, "take", full)
    assert main(["backup", "--lake", str(lake), "--to", str(tmp_path / "kept")]) == 2
    said = capsys.readouterr().err
    assert "No space left on device. What was copied stays: run the same command again" in said
    assert said.count("\n") == 1


def test_both_commands_say_what_they_did_and_how_far_the_record_goes(lake: Path, tmp_path: Path, capsys) -> None:
    assert main(["backup", "--lake", str(lake), "--to", str(tmp_path / "kept")]) == 0
    said = capsys.readouterr().out
    assert "lab: its newest cycle on record is 2026-11-21T" in said
    assert main(["restore", "--from", str(tmp_path / "kept"), "--lake", str(tmp_path / "new")]) == 0
    said = capsys.readouterr().out
    assert "may be missing" in said
    assert f"`evenkeel verify --lake {tmp_path / 'new'}`" in said
    assert "transparency log" not in said
    assert main(["verify", "--lake", str(tmp_path / "new"), "--depth", "chain"]) == main(
        ["verify", "--lake", str(lake), "--depth", "chain"]
    )


@pytest.mark.parametrize("name", ["cycles/_delta_log/x", "bundle_load/cluster=x", "theirs", ABOUT])
@pytest.mark.parametrize("side", ["lake", "kept"])
def test_a_backup_follows_no_link_out_of_the_lake_or_of_its_place(
    lake: Path, tmp_path: Path, name: str, side: str
) -> None:
    backed_up(lake, tmp_path / "kept")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "secret").write_text("theirs")
    (tmp_path / side / name).unlink(missing_ok=True)
    (tmp_path / side / name).symlink_to(theirs / "secret" if name == ABOUT else theirs)
    append(lake)
    with pytest.raises(LakeError, match=rf"{name} is a symbolic link"):
        backed_up(lake, tmp_path / "kept")
    assert content(theirs) == {"secret": b"theirs"}
    assert not list((tmp_path / "kept").glob("**/secret"))


def test_a_file_that_became_a_link_after_the_look_is_neither_read_nor_written(lake: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("theirs")
    (lake / "linked").symlink_to(tmp_path)
    place, out = LakePlace.at(str(lake)), LakePlace.at(str(tmp_path / "out"))
    for name in ("linked/secret", "../secret"):
        for work in (lambda name=name: place.read(name), lambda name=name: out.take(place, name)):
            with pytest.raises(OSError, match="symbolic link"):
                work()
    with pytest.raises(OSError, match="symbolic link"):
        place.put("linked/new", b"ours")
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["secret"]
