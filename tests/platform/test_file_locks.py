import subprocess
import sys
from pathlib import Path

import pytest

from evenkeel.locks import acquired, held


def holder(path: Path) -> subprocess.Popen[str]:
    """A process that has the lock and keeps it until it is killed."""
    code = (
        "import sys; from pathlib import Path; from evenkeel.locks import acquired\n"
        "lock = acquired(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    started = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "held\n"
    return started


def test_a_lock_has_one_holder_and_a_killed_holder_gives_it_up(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with holder(path) as other:
        assert acquired(path) is None
        with held(path, wait_seconds=0.3) as is_held:
            assert not is_held
        other.kill()
    with held(path) as is_held:
        assert is_held
        assert acquired(path) is None
    assert path.exists()


def test_who_holds_a_lock_can_be_read_by_those_who_wait(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("somebody else, long gone")

    def sign(descriptor: int) -> None:
        with open(descriptor, "r+b", closefd=False) as file:
            file.truncate(0)
            file.write(b"me")

    mine = acquired(path, on_acquired=sign)
    assert mine is not None
    assert acquired(path) is None
    assert path.read_text() == "me"
    mine.release()


def test_a_new_lock_file_has_the_permissions_that_were_asked_for(tmp_path: Path) -> None:
    mine = acquired(tmp_path / "lock", mode=0o600)
    assert mine is not None
    assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
    mine.release()
    with pytest.raises(FileExistsError):
        acquired(tmp_path / "lock" / "below")
