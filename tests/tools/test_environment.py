"""`tools/environment.py` makes an environment anew in the place of one that does not run."""

from pathlib import Path

import pytest

from tools import environment


@pytest.fixture
def venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the environment is to be; making it only makes its folder."""
    place = tmp_path / "checkout" / ".venv"
    place.parent.mkdir()
    monkeypatch.setattr(environment, "VENV", place)
    monkeypatch.setattr(environment, "run", lambda command, _failure: Path(command[-1]).mkdir())
    return place


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_is_removed_and_what_it_leads_to_is_left_alone(venv: Path, tmp_path: Path, is_there: bool) -> None:
    other = tmp_path / "other"
    if is_there:
        (other / "bin").mkdir(parents=True)
    venv.symlink_to(other)
    assert not environment.is_usable(venv)
    environment.create_venv()
    assert venv.is_dir()
    assert not venv.is_symlink()
    assert (other / "bin").is_dir() == is_there


def test_a_folder_that_does_not_run_is_removed_with_all_that_is_in_it(venv: Path) -> None:
    (venv / "bin").mkdir(parents=True)
    environment.create_venv()
    assert [*venv.iterdir()] == []


def test_where_there_is_none_one_is_made(venv: Path) -> None:
    environment.create_venv()
    assert venv.is_dir()
