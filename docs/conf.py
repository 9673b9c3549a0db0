"""The documentation as a site: `make site` writes `build/site/docs/README.html`. Warnings are errors.

The source is the whole checkout, so that pages may link to decisions, benchmarks and files beside `docs/`.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx

project = "Evenkeel"
extensions = ["myst_parser"]
root_doc = "docs/README"
include_patterns = [
    *("*.md", "docs/*.md", "docs/*/*.md", "adr/*.md", "benchmarks/*.md", "docker/README.md"),
    *("devtools/tampering.md", "tests/faults.md", "demo/*/README.md"),
]
exclude_patterns = [".*", "build", "spark", "plugins", "tests/*/**"]
suppress_warnings = ["toc.not_included"]
"""Pages outside of `docs/` are reached by links; a test compares the map with the pages in `docs/`."""
html_theme = "furo"
html_title = project
myst_heading_anchors = 6
SECTION = re.compile(r"^## (.+)$", re.M)
LINKED = re.compile(r"^\| .+? \| \[([^\]]+)\]\(((?!\.\./)[^)#]+)\.md\)", re.M)
LINK = re.compile(r"\[([^\]]*)\]\(([^)#\s:]+)\)")


def setup(app: Sphinx) -> None:
    """Change the sources as they are read."""
    app.connect("source-read", without_links_to_folders)
    app.connect("source-read", with_side_bar)


def without_links_to_folders(app: Sphinx, document: str, source: list[str]) -> None:
    """Keep only the words of links to folders, which a site cannot show."""
    folder = Path(app.srcdir, document).parent
    source[0] = LINK.sub(lambda link: link[1] if (folder / link[2]).is_dir() else link[0], source[0])


def with_side_bar(_app: Sphinx, document: str, source: list[str]) -> None:
    """Append a hidden table of contents per section to the map: the first page that each row names."""
    if document != root_doc:
        return
    _, *parts = SECTION.split(source[0])
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        entries = [f"{name} <{place}>" for name, place in LINKED.findall(text)]
        if entries:
            lines = ["", "```{toctree}", ":hidden:", f":caption: {title}", "", *entries, "```", ""]
            source[0] += "\n".join(lines)
