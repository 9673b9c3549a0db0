"""An operator's settings file: what is read, and what its errors say."""

from pathlib import Path

import pytest

from evenkeel.errors import SettingsError
from evenkeel.settings import read_overrides


def written(folder: Path, text: str) -> Path:
    path = folder / "settings.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_plain_lines_are_typed_overrides(tmp_path: Path) -> None:
    text = """
    # fit to a small cluster
    loadBalancerBundleUnloadMinThroughputThreshold = 0.01   # MiB/s
    loadBalancerNamespaceBundleMaxTopics = 40
    loadBalancerSheddingExcludedNamespaces = ["t/b", "t/a"]
    failureDomainsEnabled = true
    """
    assert read_overrides(written(tmp_path, text)) == {
        "loadBalancerBundleUnloadMinThroughputThreshold": 0.01,
        "loadBalancerNamespaceBundleMaxTopics": 40,
        "loadBalancerSheddingExcludedNamespaces": frozenset({"t/a", "t/b"}),
        "failureDomainsEnabled": True,
    }
    assert read_overrides(written(tmp_path, "")) == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\nminUnloadMesage = 5", ["line 2", "minUnloadMesage", "'minUnloadMessage'"]),
        ("# minUnloadMessage = 1\nminUnloadMessage = -5", ["line 2", "minUnloadMessage = -5", "from 0"]),
        ('minUnloadMessage = "many"', ["line 1", "'many'", "int"]),
        ("minUnloadMessage = 5\n\n[shedding]\nx = 1", ["line 3", "[shedding] is a table"]),
        ("minUnloadMessage = = 5", ["not TOML", "line 1"]),
        ("minUnloadMessage = 1\nminUnloadMessage = 2", ["not TOML", "overwrite"]),
        ("minUnloadMessage = 2026-01-01", ["line 1", "cannot be read"]),
    ],
)
def test_an_error_names_file_line_and_what_is_wrong(tmp_path: Path, text: str, words: list[str]) -> None:
    path = written(tmp_path, text)
    with pytest.raises(SettingsError) as caught:
        read_overrides(path)
    for word in [str(path), *words]:
        assert word in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "missing.toml", tmp_path, binary):
        with pytest.raises(SettingsError, match="cannot be read"):
            read_overrides(path)
