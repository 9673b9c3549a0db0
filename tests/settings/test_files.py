"""An operator's settings file: what is read, and what its errors say."""

from argparse import Namespace
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

from evenkeel.cli.options import overrides_of
from evenkeel.errors import EvenkeelError, SettingsError
from evenkeel.replay.variants import variants_of
from evenkeel.settings import read_overrides, registry


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
        ('minUnloadMessage = "many"', ["line 1", "minUnloadMessage cannot be read", "int"]),
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


SECRET = "eyJhbGciOiJub25lIn0.9f8e7d6c5b4a.signed-with-blood"
WAYS: dict[str, Callable[[Path, str], object]] = {
    "--set": lambda _, pair: overrides_of(Namespace(settings=None, set=[pair])),
    "a text in a file": lambda folder, pair: read_overrides(written(folder, "{} = '{}'".format(*pair.split("=", 1)))),
    "a list in a file": lambda folder, pair: read_overrides(written(folder, "{} = [1, '{}']".format(*pair.split("=")))),
    "--set of a replay": lambda _, pair: variants_of((), [pair]),
    "--variant": lambda _, pair: variants_of((), (), [f"mine:{pair}"]),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_secret_at_the_wrong_key_is_not_repeated(way: str, tmp_path: Path) -> None:
    texts = (SECRET, f"a,{SECRET}", f"[{SECRET}]", f"Optional[{SECRET}]", f" {SECRET} ")
    told: list[tuple[str, str]] = []
    for key, text in product([*registry(), "tokn"], texts):
        try:
            WAYS[way](tmp_path, f"{key}={text}")
        except EvenkeelError as error:
            told.append((key, str(error)))
    assert len(told) > 50 * len(texts), "most keys take no such text"
    assert [words for key, words in told if key not in words or "blood" in words] == []


@pytest.mark.parametrize("text", [SECRET, f"{SECRET}==", f"mine:{SECRET}"])
def test_a_secret_without_a_key_is_not_repeated(text: str) -> None:
    for way in ("--set", "--set of a replay", "--variant"):
        with pytest.raises(EvenkeelError, match=r"write (NAME:)?KEY=VALUE") as caught:
            WAYS[way](Path(), text)
        assert "blood" not in str(caught.value)
