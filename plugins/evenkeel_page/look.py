"""The appearance of the desk: its files, its policy, its layout, and short pages that need no table.

It imports nothing of the lake, so that the API server stays light.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from fastapi.responses import Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

import evenkeel

HERE = Path(__file__).resolve().parent
TEMPLATES = HERE / "templates"
REPORT_TEMPLATES = Path(evenkeel.__file__).resolve().parent / "report" / "templates"
_KINDS = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""No eval, nothing inline, nothing from other hosts, and no embedding in frames."""
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
FIRST_STEPS = (
    "Set `EVENKEEL_LAKE` in the environment of Airflow's API server, or the Airflow Variable `evenkeel_lake`, to the "
    "folder or object-store address of the lake.",
    "Trigger the DAG `rebalance`, or wait for its next run: the first cycle creates the tables.",
)
LAKE_IS_GONE = (
    "Runs of the DAG `rebalance` have ended well, so cycles were on record.",
    "See that the lake's disk or bucket is there, and that `EVENKEEL_LAKE`, the configuration or the Airflow Variable "
    "`evenkeel_lake` names its place.",
    "If the lake is to begin here, wait for the next run of `rebalance`.",
)
AGAIN = ("Load this page again.", "If it happens again, Airflow's API server has the reason in its log.")
PAGES = (
    ("./", "Clusters", "clusters"),
    ("heat", "Heat map", "heat"),
    ("cycles", "Cycles", "cycles"),
    ("what-if", "What if", "what-if"),
    ("settings", "Settings", "settings"),
    ("proof", "Proof", "proof"),
)
"""Links of the header: address, name, and the key by which a page marks itself as current."""


@dataclass(frozen=True)
class LookFile:
    """`version`: begins the digest of the content."""

    content: bytes
    kind: str
    version: str


@lru_cache(maxsize=1)
def files() -> dict[str, LookFile]:
    """The files that pages load, by name."""
    files_by_name = {}
    for path in (REPORT_TEMPLATES / "page.css", *(HERE / "static").iterdir()):
        content = path.read_bytes()
        files_by_name[path.name] = LookFile(content, _KINDS[path.suffix], hashlib.sha256(content).hexdigest()[:16])
    return files_by_name


def file_address(name: str) -> str:
    """The address of a file, from any page of the desk."""
    return f"static/{name}?v={files()[name].version}"


def layout_context(here: str = "", crumbs: Sequence[tuple[str, str]] = (), up: str = "") -> dict[str, Any]:
    """Return the context of the layout.

    `here`: the current one of PAGES; `crumbs`: (name, address) of the pages above; `up`: the way to the desk's own
    addresses, `../` for a page one step below them.
    """
    return {
        "layout": "desk.html.j2",
        "up": up,
        "pages": PAGES,
        "here": here,
        "crumbs": tuple(crumbs),
        "lakes": (),
        "address": file_address,
    }


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def sentence(text: str) -> str:
    """An error's text, as a sentence begins."""
    return text[:1].upper() + text[1:]


def notice(title: str, text: str, advice: Sequence[str] = (), up: str = "") -> str:
    """Return a page of the desk with a sentence on why it is empty, and what to do; `up` as in `layout_context`."""
    template = _environment().get_template("desk_notice.html.j2")
    return template.render(title=title, text=sentence(text), advice=tuple(advice), **layout_context(up=up))


def refusal(title: str, text: str, advice: Sequence[str] = ()) -> str:
    """Return the error for a script without data, as JSON: a sentence, with what to do."""
    return json.dumps({"title": title, "text": sentence(text), "advice": [*advice]})


def closed(status: int, title: str, text: str, *, login: str = "", home: bool = False) -> Response:
    """Return a page for users who may not load the desk's files: one file, with its style in it."""
    style = (TEMPLATES / "closed.css").read_text(encoding="utf-8").strip()
    body = (
        _environment()
        .get_template("closed.html.j2")
        .render(title=title, text=text, login=login, home=home, style=Markup(style))
    )
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; frame-ancestors 'none'"
    headers = {**HEADERS, "Content-Security-Policy": policy, "Cache-Control": "no-store"}
    return Response(body, status_code=status, media_type="text/html; charset=utf-8", headers=headers)
