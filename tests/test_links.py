"""Links in the pages lead somewhere, to a heading too, and so do the names of modules in their text and commands.

Names in backticks are looked up by `test_names_in_docs.py`.
"""

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
MODULE = re.compile(r"(?<![\w/.@-])((?:evenkeel|devtools)(?:\.[a-z_]\w*)+)\b")


def pages() -> list[Path]:
    """The pages of the project; the changelog tells of names as they once were."""
    found = [
        *(CHECKOUT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
        *(
            page
            for folder in ("docs", "adr", "benchmarks", "devtools")
            for page in sorted((CHECKOUT / folder).rglob("*.md"))
        ),
    ]
    return [*found, *sorted((CHECKOUT / "tests").rglob("*.md")), CHECKOUT / "docker" / "README.md"]


def faults_in(page: Path, text: str) -> Iterator[str]:
    """What of the text leads nowhere, a line each."""
    for target, anchor in LINK.findall(text):
        place = page.parent / target if target else page
        if "://" in target:
            continue
        if not place.exists():
            yield f"links to {target}"
        elif anchor and place.suffix == ".md" and anchor not in anchors_of(place.read_text()):
            yield f"links to {target}#{anchor}"
    for name in MODULE.findall(text):
        if name != "evenkeel.toml" and not is_known(name):
            yield f"names {name}"


def anchors_of(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), re.M)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def is_known(name: str) -> bool:
    """Whether the name is a module of ours, or something in one (`evenkeel.lake.record.Record`)."""
    parts = name.split(".")
    for length in (len(parts), len(parts) - 1):
        if length == 1:
            continue  # too little to go by
        try:
            if find_spec(".".join(parts[:length])) is not None:
                return True
        except ModuleNotFoundError:
            continue
    return False


def test_pages_lead_somewhere() -> None:
    faults = [
        f"{page.relative_to(CHECKOUT)} {fault}" for page in pages() for fault in faults_in(page, page.read_text())
    ]
    assert faults == []


def test_the_list_of_pages_is_whole() -> None:
    docs = CHECKOUT / "docs"
    listed = {target for target, _ in LINK.findall((docs / "README.md").read_text())}
    names = {path.relative_to(docs).as_posix() for path in docs.rglob("*.md")}
    assert names - listed == {"README.md"}


def test_what_leads_nowhere_is_named() -> None:
    text = "[a](nowhere.md) evenkeel.nobody.there [b](README.md) evenkeel.shed.round.decide"
    text += " [c](README.md#no-such-heading)"
    assert list(faults_in(CHECKOUT / "page.md", text)) == [
        "links to nowhere.md",
        "links to README.md#no-such-heading",
        "names evenkeel.nobody.there",
    ]
