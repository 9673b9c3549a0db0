"""The documentation as a site: `make site` writes `build/site/docs/README.html`. Warnings are errors.

The source is the whole checkout, so that pages may link to decisions, benchmarks and files beside `docs/`.
"""

import re

from sphinx.application import Sphinx

project = "Evenkeel"
extensions = ["myst_parser"]
root_doc = "docs/README"
include_patterns = [
    *("*.md", "docs/*.md", "docs/*/*.md", "adr/*.md", "benchmarks/*.md", "docker/README.md"),
    *("devtools/tampering.md", "tests/faults.md", "demo/generated/README.md"),
]
exclude_patterns = [".*", "build", "spark", "plugins", "tests/*/**"]
suppress_warnings = ["toc.not_included"]
"""Pages outside of `docs/` are reached by links; a test compares the map with the pages in `docs/`."""
html_theme = "furo"
html_title = project
myst_heading_anchors = 6
SECTION = re.compile(r"^## (.+)$", re.M)
LINKED = re.compile(r"^\| .+? \| \[([^\]]+)\]\(((?!\.\./)[^)#]+)\.md\)", re.M)


def setup(app: Sphinx) -> None:
    """Have the map of the pages fill the side bar."""
    app.connect("source-read", add_side_bar)


def add_side_bar(app: Sphinx, document: str, source: list[str]) -> None:
    """Append a hidden table of contents per section to the map: the first page that each row names."""
    if document != root_doc:
        return
    _, *parts = SECTION.split(source[0])
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        entries = [f"{name} <{place}>" for name, place in LINKED.findall(text)]
        if entries:
            lines = ["", "```{toctree}", ":hidden:", f":caption: {title}", "", *entries, "```", ""]
            source[0] += "\n".join(lines)
