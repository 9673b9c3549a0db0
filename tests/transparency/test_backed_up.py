"""A backup of a lake with a transparency log, taken while both grow."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from evenkeel.cli import main
from evenkeel.maintenance import backup
from evenkeel.maintenance.backup import LakePlace, back_up, restore
from evenkeel.transparency.lake_log import append_commits, begin, open_log, storage_of
from tests.transparency.lakes import approve, grow, publish_more, published, rows_of, small_lake
from tests.transparency.logs import LOG_KEY

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]


def kept(lake: Path, to: Path) -> backup.Copied:
    return back_up(str(lake), str(to), now=lambda: datetime(2026, 11, 27, tzinfo=UTC))


def leaves(lake: Path) -> int:
    """The size of the tree, every entry of which leads to its root."""
    tree = open_log(storage_of(str(lake))).tree()
    assert len([*tree.entries(0, tree.size)]) == tree.size
    return tree.size


def test_its_log_is_whole_and_says_no_more_than_its_manifests_whatever_is_published_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = small_lake(tmp_path)
    begin(str(lake), [LOG_KEY])
    before = leaves(lake)
    read, look = LakePlace.read, backup._look_at

    def publish() -> None:
        grow(lake, [*publish_more(lake, "lab"), *(one for _ in range(125) for one in approve(lake))])

    def reading(self: LakePlace, name: str) -> bytes | None:
        data = read(self, name)
        if name == "_log/checkpoint" and self.address == str(lake):
            publish()  # the tiles that it stands on become full ones
        return data

    def looking(source: LakePlace, name: str) -> backup._LookedAt:
        seen = look(source, name)
        if name == "cycles":
            publish()
        return seen

    with monkeypatch.context() as patched:
        patched.setattr(LakePlace, "read", reading)
        patched.setattr(backup, "_look_at", looking)
        kept(lake, tmp_path / "kept")
    assert leaves(tmp_path / "kept") == before
    manifests = len(rows_of(tmp_path / "kept", "lab"))
    assert manifests == len(rows_of(lake, "lab")) - 2
    restore(str(tmp_path / "kept"), str(tmp_path / "new"))
    append_commits(str(tmp_path / "new"), [LOG_KEY], adopt_by="alice")  # what was committed meanwhile
    assert main(["verify", "--lake", str(tmp_path / "new"), "--depth", "chain"]) == 0
    kept(lake, tmp_path / "kept")
    assert leaves(tmp_path / "kept") == leaves(lake) > 256
    assert main(["verify", "--lake", str(tmp_path / "kept"), "--depth", "chain"]) == 0


def test_restored_it_goes_on_where_the_backup_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lake = small_lake(tmp_path)
    begin(str(lake), [LOG_KEY])
    kept(lake, tmp_path / "kept")
    published(lake, "lab")
    lost = leaves(lake)
    shutil.rmtree(lake)
    assert main(["restore", "--from", str(tmp_path / "kept"), "--lake", str(lake)]) == 0
    assert "a witness that has seen more of it refuses it" in capsys.readouterr().out
    assert leaves(lake) == lost - 2
    published(lake, "lab")
    assert leaves(lake) == lost
    assert main(["verify", "--lake", str(lake), "--depth", "chain"]) == 0
