"""The page about strategies: it names every one of them, and its keys with their real defaults and units."""

import re
from pathlib import Path

import pytest

from devtools.reference import _value
from evenkeel.settings import registry
from evenkeel.settings.compatibility import OLDER_RULES
from evenkeel.settings.keys.balancing import PLACEMENTS, SHEDDERS, SPLIT_ALGORITHMS

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"
PAGE = (REFERENCE / "strategies.md").read_text(encoding="utf-8")
ROWS = sorted(set(re.findall(r"^\|`(\w+)`\|(.*?)\|(.*?)\|(.*?)\|$", PAGE, re.MULTILINE)))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_key_is_shown_with_its_defaults_and_unit(row: tuple[str, str, str, str]) -> None:
    key = registry()[row[0]]
    assert row[1:] == (_value(key.default), _value(key.default_of("5.0")), key.unit)


@pytest.mark.parametrize("name", [*SHEDDERS, *PLACEMENTS, *SPLIT_ALGORITHMS])
def test_every_strategy_has_its_chapter_with_a_class_and_when_to_choose_it(name: str) -> None:
    chapters = re.split(r"^#+ ", PAGE, flags=re.MULTILINE)
    (chapter,) = (text for text in chapters if text.split("\n", 1)[0] == name)
    words = " ".join(chapter.split())
    assert re.search(r"[Cc]lass `[\w.]+`", words)
    assert "*Choose it*" in words


def test_every_default_that_differs_between_generations_is_on_the_page_or_among_the_settings() -> None:
    shown = {row[0] for row in ROWS}
    differing = {k.name for k in registry().values() if k.default != k.default_of("5.0")}
    assert differing - shown == {"defaultNumberOfNamespaceBundles", "evenkeelPulsarVersion"}


def test_every_older_rule_is_on_the_page() -> None:
    chapter = " ".join(PAGE.split("## Versions of Pulsar")[1].split("\n## ")[0].split())
    for name, (_, words) in OLDER_RULES.items():
        assert name in chapter
        assert words in chapter


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([\w.]+)\)", PAGE):
        assert (REFERENCE / target).exists()
