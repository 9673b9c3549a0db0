"""The routes of the desk: path, the required right, and the handler. All of them only read.

The reader (`pages`) makes the answers, except for static files, which the API server sends itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from fastapi import Depends, HTTPException, Query, Request
from fastapi.responses import RedirectResponse, Response

from evenkeel.errors import EvenkeelError, NoLake
from evenkeel_page import airflow_side, look
from evenkeel_page.lake_choice import WORD
from evenkeel_page.reader import HTML, JSON
from evenkeel_page.rights import APPROVE, READ, WHAT_IF, Right

_FOR_SCRIPTS = frozenset({"heat_picture"})
"""Pages that are JSON."""


@dataclass(frozen=True)
class Route:
    """`path` below the desk's own, the `right` that it needs, and the function that answers."""

    path: str
    right: Right
    answer: Callable[..., Response]
    methods: tuple[str, ...] = ("GET",)


def page_response(
    request: Request, body: str, status: int = 200, more: dict[str, str] | None = None, kind: str = HTML
) -> Response:
    """Return a page under the desk's policy, not cached; a client that has it (`If-None-Match`) gets 304."""
    content = body.encode()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    headers = {**look.HEADERS, "Cache-Control": "no-store", "ETag": tag, **(more or {})}
    if status == 200 and tag in _tags_of(request):
        return Response(status_code=304, headers=headers)
    return Response(content, status_code=status, media_type=kind, headers=headers)


def notice_response(
    request: Request, status: int, title: str, text: str, advice: Sequence[str] = (), more: dict[str, str] | None = None
) -> Response:
    """Return a page with a sentence on why it is empty, and what to do."""
    path = getattr(request.scope.get("route"), "path", "/")
    return page_response(request, look.notice(title, text, advice, "../" * (path.count("/") - 1)), status, more)


def _tags_of(request: Request) -> list[str]:
    return [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]


def _read(request: Request, page: str, **arguments: Any) -> Response:
    """The page that the reader makes."""
    try:
        job = airflow_side.job_for(page, arguments, request.query_params.get(WORD, ""))
    except NoLake as error:
        return _no_lake(request, page, 200, "No cycles yet", str(error), look.FIRST_STEPS)
    except EvenkeelError as error:
        return _no_lake(request, page, 500, "The lake cannot be reached", str(error))
    answer = request.app.state.reader.ask(job)
    if answer.missing and airflow_side.has_decided():
        return _no_lake(request, page, 503, "The lake is gone", answer.missing, look.LAKE_IS_GONE)
    if answer.location:
        return RedirectResponse(answer.location, status_code=answer.status, headers=look.HEADERS)
    if answer.file:
        kept = {
            **look.HEADERS,
            "Cache-Control": "no-store",
            "Content-Disposition": f'attachment; filename="{answer.file}"',
        }
        return Response(answer.body, media_type="text/plain; charset=utf-8", headers=kept)
    return page_response(request, answer.body, answer.status, kind=answer.kind)


def _no_lake(request: Request, page: str, status: int, title: str, text: str, advice: tuple[str, ...] = ()) -> Response:
    """Return the answer without a lake: a page, or JSON for a script."""
    if page in _FOR_SCRIPTS:
        return page_response(request, look.refusal(title, text, advice), max(status, 404), kind=JSON)
    return notice_response(request, status, title, text, advice)


def show_clusters(request: Request) -> Response:
    """All clusters, a line each, the most urgent first."""
    return _read(request, "clusters")


def show_cycles(request: Request, cluster: str | None = None, before: str | None = None) -> Response:
    """The newest cycles, or the newest `before` a moment; of one cluster, or of all."""
    return _read(request, "cycles", cluster=cluster, before=before)


def show_cycle(request: Request, cluster: str, at: str) -> Response:
    """The report of one cluster's cycle."""
    return _read(request, "cycle", cluster=cluster, at=at, answers_as=APPROVE.holder(request))


def show_cycle_commands(request: Request, cluster: str, at: str) -> Response:
    """Show the commands of one cluster's cycle with their outcomes."""
    return _read(request, "cycle_commands", cluster=cluster, at=at)


def show_run(request: Request, dag_id: str, run_id: str) -> Response:
    """Show the cycles of an Airflow run: the report of a single one, else their list."""
    handed_on = sorted(airflow_side.cycles_of_run(dag_id, run_id))
    return _read(request, "run", dag_id=dag_id, run_id=run_id, handed_on=handed_on)


# Some names in addresses are not valid names in Python: `from` is one of them.
_From = Annotated[str | None, Query(alias="from")]


def _heat_words(
    cluster: str | None = None, metric: str | None = None, last: str | None = None, first: _From = None,
    to: str | None = None, within: str | None = None,
) -> dict[str, str]:  # fmt: skip
    words = {"cluster": cluster, "metric": metric, "last": last, "first": first, "to": to, "within": within}
    return {name: word for name, word in words.items() if word}


_HeatWords = Annotated[dict[str, str], Depends(_heat_words)]


def show_heat(request: Request, words: _HeatWords) -> Response:
    """The heat of a cluster's bundles over time: a map for its script, and a table of the hottest cells."""
    return _read(request, "heat", **words)


def show_heat_picture(request: Request, words: _HeatWords) -> Response:
    """The picture behind the heat map, as JSON."""
    return _read(request, "heat_picture", **words)


def show_heat_why(
    request: Request, cluster: str, namespace: str, lower: int, upper: int, first: Annotated[int, Query(alias="from")],
    to: int, last_namespace: str | None = None, at: int | None = None,
) -> Response:  # fmt: skip
    """Show the explanation of a cell of the heat map: a page, whose middle the map shows beside itself."""
    return _read(
        request, "heat_why", cluster=cluster, namespace=namespace, lower=lower, upper=upper, first=first, to=to,
        last_namespace=last_namespace, at=at,
    )  # fmt: skip


def _subject_words(
    cluster: str, name: str, at: str | None = None, first: _From = None, to: str | None = None, last: str | None = None
) -> dict[str, str]:
    words = {"at": at, "first": first, "to": to, "last": last}
    return {"cluster": cluster, "name": name} | {key: word for key, word in words.items() if word}


_SubjectWords = Annotated[dict[str, str], Depends(_subject_words)]


def show_bundle(request: Request, words: _SubjectWords) -> Response:
    """Show a bundle, or the one of a topic: its state with reasons at a moment, its course, inputs and dependents."""
    return _read(request, "bundle", **words)


def show_broker(request: Request, words: _SubjectWords) -> Response:
    """A broker: as a bundle, with the bundles that it owned."""
    return _read(request, "broker", **words)


def show_what_if(request: Request, cluster: str | None = None) -> Response:
    """Show the recorded replays and simulations, and those under way."""
    under_way = [asdict(run) for run in airflow_side.replays_under_way()]
    may_start = bool(WHAT_IF.holder(request))
    return _read(request, "what_if", cluster=cluster or None, under_way=under_way, may_start=may_start)


def show_what_if_run(request: Request, ids: Annotated[list[str] | None, Query(alias="id")] = None) -> Response:
    """Replays side by side."""
    return _read(request, "what_if_run", ids=ids or [], may_start=bool(WHAT_IF.holder(request)))


def show_what_if_new(request: Request) -> Response:
    """Show the form that starts a replay or simulation, with the faults of its fields."""
    fields = {name: request.query_params.getlist(name) for name in request.query_params}
    return _read(request, "what_if_new", fields=fields)


def show_what_if_started(request: Request, run_id: str) -> Response:
    """Show the state of a run of `replay`, and its result once it has ended."""
    run = airflow_side.replay_run(run_id)
    words, may_start = None if run is None else asdict(run), bool(WHAT_IF.holder(request))
    return _read(request, "what_if_started", run_id=run_id, run=words, may_start=may_start)


def show_settings(request: Request, cluster: str | None = None, show: str = "changed") -> Response:
    """The settings of the last decisions: those not at their defaults, those in which clusters differ, or all."""
    return _read(request, "settings", cluster=cluster, show=show)


def show_proof(request: Request) -> Response:
    """The heads of all chains, the transparency log's newest checkpoint, and where to get a proof."""
    return _read(request, "proof")


def show_proof_file(
    request: Request, cluster: str, at: str, decision: str | None = None, table: str | None = None
) -> Response:
    """A proof of a cycle, or of a decision of it, as a file to keep."""
    return _read(request, "proof_file", cluster=cluster, at=at, decision=decision or None, table=table or None)


def show_file(request: Request, name: str) -> Response:
    """A file of the look. Its address carries its digest, so that a browser may keep it for a year."""
    content = look.files().get(name)
    if content is None:
        raise HTTPException(404)
    asked = request.query_params.get("v")
    kept = "private, max-age=31536000, immutable" if asked == content.version else "private, no-cache"
    headers = {"ETag": f'"{content.version}"', "Cache-Control": kept, "X-Content-Type-Options": "nosniff"}
    if headers["ETag"] in _tags_of(request):
        return Response(status_code=304, headers=headers)
    return Response(content.content, media_type=content.kind, headers=headers)


ROUTES = (
    Route("/", READ, show_clusters),
    Route("/cycles", READ, show_cycles),
    Route("/cycle", READ, show_cycle),
    Route("/cycle-commands", READ, show_cycle_commands),
    Route("/run", READ, show_run),
    Route("/heat", READ, show_heat),
    Route("/heat/picture", READ, show_heat_picture),
    Route("/heat/why", READ, show_heat_why),
    Route("/bundle", READ, show_bundle),
    Route("/broker", READ, show_broker),
    Route("/what-if", READ, show_what_if),
    Route("/what-if/run", READ, show_what_if_run),
    Route("/what-if/new", WHAT_IF, show_what_if_new),
    Route("/what-if/started", READ, show_what_if_started),
    Route("/settings", READ, show_settings),
    Route("/proof", READ, show_proof),
    Route("/proof-file", READ, show_proof_file),
    Route("/static/{name}", READ, show_file),
)
