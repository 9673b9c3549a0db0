"""A configuration or a file of settings that is wrong in one entry is refused by name, whatever stands in it."""

from pathlib import Path

import pytest

from evenkeel.errors import SettingsError
from evenkeel.settings import read_overrides
from evenkeel.settings.configuration_file import faults_in
from evenkeel.sources.configuration import read_configuration
from tests.bad_input.configurations import configurations, overrides
from tests.bad_input.values import by_place

FILES = dict(configurations())
OVERRIDES = {name: (key, value) for name, key, value in overrides()}


@pytest.mark.parametrize("names", by_place(FILES))
def test_a_configuration_with_one_wrong_entry_is_refused_by_name(
    names: list[str], subtests: pytest.Subtests, tmp_path: Path
) -> None:
    file = tmp_path / "evenkeel.toml"
    for name in names:
        with subtests.test(name):
            file.write_bytes(FILES[name])
            with pytest.raises(SettingsError) as error:
                read_configuration(file)
            assert str(file) in str(error.value)
            assert name.startswith("file ") or name.split()[0] in str(error.value)


@pytest.mark.parametrize("names", by_place(OVERRIDES))
def test_a_setting_with_a_value_of_another_kind_is_refused_with_its_key_and_line(
    names: list[str], subtests: pytest.Subtests, tmp_path: Path
) -> None:
    file = tmp_path / "settings.toml"
    for name in names:
        key, value = OVERRIDES[name]
        with subtests.test(name):
            file.write_text(f"# a comment\n{key} = {value}\n", encoding="utf-8")
            with pytest.raises(SettingsError) as error:
                read_overrides(file)
            assert str(file) in str(error.value)
            assert "line 2" in str(error.value)
            assert key in str(error.value)


@pytest.mark.parametrize("names", by_place(OVERRIDES))
def test_a_setting_of_a_configuration_with_a_value_of_another_kind_is_its_only_fault(
    names: list[str], subtests: pytest.Subtests, tmp_path: Path
) -> None:
    file = tmp_path / "evenkeel.toml"
    for name in names:
        key, value = OVERRIDES[name]
        with subtests.test(name):
            file.write_text(f'[clusters.x]\nrecording = "x"\nsettings.{key} = {value}\n', encoding="utf-8")
            (fault,) = faults_in(file)
            assert (fault.entry, fault.line) == (f"clusters.x.settings.{key}", 3)


def test_a_path_that_no_file_can_have_is_told() -> None:
    for path in ("a\0b", "n" * 10_000):
        with pytest.raises(SettingsError, match="cannot be read"):
            read_configuration(path)
        with pytest.raises(SettingsError, match="cannot be read"):
            read_overrides(path)
