"""`tools/environment.py` replaces an environment that does not run, and installs a project of another version."""

from pathlib import Path

import pytest

import evenkeel
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


def test_the_version_is_that_of_the_code() -> None:
    assert environment.project_version() == evenkeel.__version__


@pytest.mark.parametrize(
    ("names", "is_installed"),
    [(["1.2.0"], True), (["1.1.0"], False), ([], False), (["1.1.0", "1.2.0"], False)],
)
def test_metadata_of_another_version_are_noticed(venv: Path, names: list[str], is_installed: bool) -> None:
    for name in names:
        (venv / "lib" / "python3.11" / "site-packages" / f"evenkeel-{name}.dist-info").mkdir(parents=True)
    assert environment.is_installed_as("1.2.0") is is_installed


@pytest.mark.parametrize("is_current", [True, False])
def test_a_new_version_is_installed_and_nothing_else(monkeypatch: pytest.MonkeyPatch, is_current: bool) -> None:
    runs: list[list[list[str]]] = []
    monkeypatch.setattr("sys.argv", ["environment.py"])
    for name in ("is_usable", "is_stamped"):
        monkeypatch.setattr(environment, name, lambda _: True)
    monkeypatch.setattr(environment, "fetch_jars", lambda: None)
    monkeypatch.setattr(environment, "is_installed_as", lambda version: is_current and version == evenkeel.__version__)
    monkeypatch.setattr(environment, "pip", lambda arguments, _count: runs.append(arguments))
    assert environment.main() == 0
    root = str(environment.ROOT)
    assert runs == ([] if is_current else [[["install", "--no-deps", "--no-compile", "-e", root]]])
