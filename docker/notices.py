"""Writes the licences of all that an image has beside Evenkeel: `python notices.py FILE`, by the image's own Python.

The file lists each package with its version and licence, then the texts of licences and notices that the packages
bring. Jars in `EVENKEEL_CACHE` are listed by name; they hold their own texts.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

NAMES = ("license", "licence", "copying", "notice", "authors")
RULE = "=" * 100


def notices(distributions: list[metadata.Distribution], jars: list[Path]) -> Iterator[str]:
    """Lines of the file: the list of packages and jars first, then the texts."""
    ours = "evenkeel"
    packages = sorted((each for each in distributions if each.name != ours), key=lambda each: each.name.lower())
    yield f"{len(packages)} Python packages and {len(jars)} jars come with this image, under their own licences."
    yield ""
    yield from (f"{each.name} {each.version}: {licence_of(each)}" for each in packages)
    yield from (jar.name for jar in jars)
    for each in packages:
        for file in sorted(each.files or (), key=str):
            text = text_of(each, file) if file.name.lower().startswith(NAMES) and ".dist-info" in str(file) else ""
            if text:
                yield from ("", RULE, f"{each.name} {each.version}: {file.name}", RULE, text)


def licence_of(package: metadata.Distribution) -> str:
    """The licence in the words of the package's metadata, in one line."""
    about = package.metadata
    classified = [
        line.rpartition(" :: ")[2] for line in about.get_all("Classifier") or () if line.startswith("License")
    ]
    said = about["License-Expression"] or ", ".join(classified) or about["License"] or "see its text"
    return str(said).strip().splitlines()[0]


def text_of(package: metadata.Distribution, file: metadata.PackagePath) -> str:
    """The text of a licence file, "" if it is none."""
    place = Path(str(package.locate_file(file)))
    return place.read_text(encoding="utf-8", errors="replace").rstrip() if place.is_file() else ""


if __name__ == "__main__":
    cache = Path(os.environ.get("EVENKEEL_CACHE", "/nonexistent"), "jars")
    lines = notices([*metadata.distributions()], sorted(cache.glob("*.jar")))
    Path(sys.argv[1]).write_text("\n".join(lines) + "\n", encoding="utf-8")
