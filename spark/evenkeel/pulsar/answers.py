"""Answers of Pulsar's admin API: their subject, the answer that counts, and the content of its text."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Literal
from urllib.parse import unquote

from evenkeel.json_text import DEPTH, NotJson, TooMuchJson, parse_json

REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Answer:
    """One request and its answer. `status` 0: no HTTP answer came, and `body` is the reason.

    `n` is the position in the snapshot. `body` is cut short if the text stays in its file (figures of topics), and
    `size` is the length of the whole, in bytes. `is_cut`: it is longer than an answer that is read in this process may
    be.
    """

    n: int
    broker: str
    path: str
    status: int
    body: str | None
    at: datetime | None = None
    location: str | None = None
    method: str = "GET"
    size: int = 0
    is_cut: bool = False

    @property
    def is_redirect(self) -> bool:
        """True if the broker answered with a redirect."""
        return self.status in REDIRECTS

    @property
    def rank(self) -> tuple[bool, bool, int]:
        """Rank among several answers to one question; the highest counts: one with content, then the last."""
        return (200 <= self.status < 300, not self.is_redirect, self.n)


class Answers:
    """The answers of one snapshot by their subject.

    A redirect that was followed leaves two answers; the final one counts. If the same question was repeated, at the
    same or at another broker, the last answer with content counts.
    """

    def __init__(self, answers: Iterable[Answer]) -> None:
        self._final: dict[AnswerSubject, Answer] = {}
        self._all = tuple(answers)
        for answer in self._all:
            if answer.method != "GET":
                continue
            subject = subject_of(answer.path)
            if subject.kind in BROKER_SCOPED:
                subject = AnswerSubject(subject.kind, answer.broker)
            known = self._final.get(subject)
            if known is None or answer.rank > known.rank:
                self._final[subject] = answer

    def about(self, kind: Kind, name: str = "") -> Answer | None:
        """Return the answer that counts for this subject, None if it was never requested."""
        return self._final.get(AnswerSubject(kind, name))

    def each(self, kind: Kind) -> Iterator[tuple[str, Answer]]:
        """Yield the answers that count of one kind, with their broker, namespace or cluster, by name."""
        answers = [(subject.name, answer) for subject, answer in self._final.items() if subject.kind == kind]
        yield from sorted(answers, key=lambda item: item[0])

    def every(self, kind: Kind) -> list[Answer]:
        """Return all answers of one kind, also those that do not count."""
        return [answer for answer in self._all if subject_of(answer.path).kind == kind]

    def answered(self, kind: Kind) -> bool:
        """Return True if any question of this kind was answered with success."""
        return any(answer.status == 200 for _, answer in self.each(kind))

    def times(self) -> Iterator[tuple[Answer, datetime]]:
        """Yield all requests with the time of sending, if that is known."""
        return ((answer, answer.at) for answer in self._all if answer.at is not None)

    def __len__(self) -> int:
        return len(self._all)


# Subjects of the paths of the admin API (Pulsar 4.0 and 4.2, `/admin/v2`).

PREFIX = "/admin/v2/"


class Kind(StrEnum):
    """Subject kinds of answers; the comment's colon is followed by what the name is."""

    BROKERS = "available brokers: cluster, or nothing for the own one"
    LEADER = "leader of the load manager"
    CLUSTERS = "clusters"
    LOAD_REPORT = "load report: broker asked"
    TOPIC_FIGURES = "figures of loaded topics: broker asked"
    METRICS = "metrics: broker asked"
    VERSION = "version: broker asked"
    METADATA = "a read of the metadata store: broker asked"
    CONFIGURATION = "effective configuration: broker asked"
    OWNED = "owned bundles: cluster and broker id"
    DOMAINS = "failure domains: cluster"
    ISOLATION = "isolation policies: cluster"
    NAMESPACES = "namespaces: tenant"
    POLICIES = "policies: namespace"
    BUNDLES = "bundle boundaries: namespace"
    GROUP = "anti-affinity group: namespace"
    TOPIC_LIST = "topics known: domain and namespace"
    QUOTA = "resource quota: bundle, or nothing for the default"
    OTHER = "anything else: path"


BROKER_SCOPED = frozenset(
    {Kind.LOAD_REPORT, Kind.TOPIC_FIGURES, Kind.METRICS, Kind.VERSION, Kind.METADATA, Kind.CONFIGURATION}
)
"""Kinds that describe only the broker that was asked."""

_FIXED = {
    "brokers": Kind.BROKERS,
    "brokers/leaderBroker": Kind.LEADER,
    "brokers/version": Kind.VERSION,
    "brokers/configuration/runtime": Kind.CONFIGURATION,
    "broker-stats/load-report": Kind.LOAD_REPORT,
    "broker-stats/topics": Kind.TOPIC_FIGURES,
    "broker-stats/metrics": Kind.METRICS,
    "clusters": Kind.CLUSTERS,
    "resource-quotas": Kind.QUOTA,
}
NO_TOPIC = "evenkeel-no-topic-"
"""Prefix of the names of missing topics that `metadata_read` reads."""
_NO_CLUSTER = frozenset({"health", "ready", "configuration", "internal-configuration", "backlog-quota-check"})
_OF_CLUSTER = {"failureDomains": Kind.DOMAINS, "namespaceIsolationPolicies": Kind.ISOLATION}
_OF_NAMESPACE = {"bundles": Kind.BUNDLES, "antiAffinity": Kind.GROUP}


@dataclass(frozen=True, slots=True)
class AnswerSubject:
    """Subject of a question: its kind and, if there can be several of the kind, a name."""

    kind: Kind
    name: str = ""


def subject_of(path: str) -> AnswerSubject:
    """Return the subject of `path`. Segments are percent-decoded; an unknown path has the kind OTHER."""
    plain, _, query = path.partition("?")
    below_prefix = plain.removeprefix(PREFIX).rstrip("/")
    if below_prefix in _FIXED:
        return AnswerSubject(_FIXED[below_prefix])
    parts = [unquote(part) for part in below_prefix.split("/")]
    return _of_parts(parts, query) or AnswerSubject(Kind.OTHER, path)


def owned_by(cluster: str, broker: str) -> str:
    """Return the name of the OWNED subject of a broker."""
    return f"{cluster} {broker}"


def _of_parts(parts: list[str], query: str) -> AnswerSubject | None:
    match parts:
        case ["brokers", cluster] if cluster not in _NO_CLUSTER:
            return AnswerSubject(Kind.BROKERS, cluster)
        case ["brokers", cluster, broker, "ownedNamespaces"]:
            return AnswerSubject(Kind.OWNED, owned_by(cluster, broker))
        case ["clusters", cluster, what] if what in _OF_CLUSTER:
            return AnswerSubject(_OF_CLUSTER[what], cluster)
        case ["namespaces", tenant]:
            return AnswerSubject(Kind.NAMESPACES, tenant)
        case ["namespaces", tenant, namespace]:
            return AnswerSubject(Kind.POLICIES, f"{tenant}/{namespace}")
        # With a query it is the list of a group's namespaces, and the first segment is a cluster.
        case ["namespaces", tenant, namespace, leaf] if leaf in _OF_NAMESPACE and not query:
            return AnswerSubject(_OF_NAMESPACE[leaf], f"{tenant}/{namespace}")
        case ["persistent", "pulsar", "system", topic, "partitions"] if topic.startswith(NO_TOPIC):
            return AnswerSubject(Kind.METADATA)
        case ["persistent" | "non-persistent" as domain, tenant, namespace]:
            return AnswerSubject(Kind.TOPIC_LIST, f"{domain}://{tenant}/{namespace}")
        case ["resource-quotas", tenant, namespace, bundle_range]:
            return AnswerSubject(Kind.QUOTA, f"{tenant}/{namespace}/{bundle_range}")
    return None


Outcome = Literal["read", "nothing", "no_answer", "unreadable"]

RECORD_CHARACTERS = 2_000
TIMED_OUT = "no answer in time"
"""Beginning of the body of a request of Evenkeel that was not answered in time."""
HTML_PAGE = "html_page"
UNREADABLE_JSON = "unreadable_json"
BEYOND_LIMIT = "beyond_limit"
"""Beginning of the body if the answer, or the snapshot, is beyond a limit (`limits`)."""

MOST_REJECTIONS = 10_000
_SENTENCE_CHARACTERS = 4_000
_REASON_CHARACTERS = 300
_PAGE_STARTS = ("<!doctype", "<html", "<?xml")


@dataclass(frozen=True, slots=True)
class Rejection:
    """A rejected record: the table it was meant for, its place in the snapshot, the rule, the reason, and the
    record."""

    rejected_from: str
    place: str
    rule: str
    reason: str
    record: str | None

    def __post_init__(self) -> None:
        # A name may be as long as an answer, and is part of both.
        for name in ("place", "reason"):
            object.__setattr__(self, name, getattr(self, name)[:_SENTENCE_CHARACTERS])


class Rejections(list[Rejection]):
    """The rejected records of one snapshot: up to 10,000, and the number of further ones."""

    def __init__(self) -> None:
        super().__init__()
        self.further = 0

    def append(self, item: Rejection) -> None:
        """Add a record; beyond 10,000 it is only counted."""
        if len(self) < MOST_REJECTIONS:
            super().append(item)
        else:
            self.further += 1

    def summed(self) -> tuple[Rejection, ...]:
        """Return each record once; the last one gives the number of further ones."""
        records = tuple(dict.fromkeys(self))
        if not self.further:
            return records
        reason = f"{self.further:,} more records are set aside; the first {MOST_REJECTIONS:,} are on record"
        return (*records, Rejection("raw_answers", "snapshot", BEYOND_LIMIT, reason, None))


@dataclass(frozen=True, slots=True)
class Reading:
    """Content of an answer: `read` with a value, `nothing` (Pulsar says that there is none), `no_answer`, `unreadable`.

    `rule` names the fault of the text itself, if it is to be rejected.
    """

    outcome: Outcome
    value: Any = None
    reason: str | None = None
    rule: str | None = None

    @property
    def is_read(self) -> bool:
        """True if the answer was read and has a value."""
        return self.outcome == "read"


def read_json(
    answer: Answer | None, expected: type, *, nothing_at: tuple[int, ...] = (), depth: int = DEPTH
) -> Reading:
    """Read the JSON of an answer, of the expected type; statuses in `nothing_at` and 204 mean that there is none.

    JSON that is nested deeper than `depth` is not read.
    """
    refused = _refused(answer, nothing_at)
    if refused is not None or answer is None:
        return refused or not_asked()
    try:
        value = parse_json(answer.body or "", depth=depth)
    except TooMuchJson as error:
        return Reading("unreadable", reason=error.msg, rule=BEYOND_LIMIT)
    except NotJson as error:
        reason = f"it is not JSON or ends too early ({error.msg})"
        return Reading("unreadable", reason=reason, rule=UNREADABLE_JSON)
    if not isinstance(value, expected):
        reason = f"it is a JSON {_word(type(value))} where {_word(expected)} is due"
        return Reading("unreadable", reason=reason, rule=UNREADABLE_JSON)
    return Reading("read", value)


def read_text(answer: Answer | None) -> Reading:
    """Read the plain text of an answer, unchanged (quotes around it belong to it); an empty one means that there is
    none."""
    refused = _refused(answer, (), is_text=True)
    if refused is not None or answer is None:
        return refused or not_asked()
    return Reading("read", answer.body) if answer.body else Reading("nothing")


def not_asked() -> Reading:
    """Return the reading of a question that the snapshot does not contain."""
    return Reading("no_answer", reason="it was not asked")


def rejection(reading: Reading, answer: Answer, table: str) -> Rejection | None:
    """Return the record to reject if the text itself is at fault; None if there is no answer."""
    if reading.rule is None:
        return None
    reason = f"{place_of(answer)}: {reading.reason}; its figures are unknown in this cycle"
    return Rejection(table, place_of(answer), reading.rule, reason, excerpt(answer.body))


def place_of(answer: Answer) -> str:
    """Return broker and path: the place of an answer in the snapshot."""
    return f"{answer.broker} {answer.path}"


def excerpt(text: str | None) -> str | None:
    """Return the first 2,000 characters."""
    return None if text is None else text[:RECORD_CHARACTERS]


def _refused(answer: Answer | None, nothing_at: tuple[int, ...], *, is_text: bool = False) -> Reading | None:
    if answer is None:
        return not_asked()
    if answer.status == 0:
        return Reading("no_answer", reason=f"no HTTP answer ({_first_line(answer.body)})")
    if answer.is_redirect:
        return Reading("no_answer", reason=f"redirected to {answer.location}, which did not answer")
    if _is_page(answer.body or "", is_text=is_text):
        return Reading("no_answer", reason=f"answered {answer.status} with an HTML page", rule=HTML_PAGE)
    if answer.status == 204 or answer.status in nothing_at:
        return Reading("nothing")
    if answer.is_cut:
        reason = f"it has {answer.size:,} bytes, beyond the limit of its kind (`small_answer_mib`)"
        return Reading("unreadable", reason=reason, rule=BEYOND_LIMIT)
    if not 200 <= answer.status < 300:
        return Reading("no_answer", reason=f"answered {answer.status}: {server_reason(answer.body)}")
    return None


def _is_page(body: str, *, is_text: bool) -> bool:
    """Return True if the body is a web page: no JSON starts with `<`; a name may, but not as a page does."""
    start = body.lstrip()[:20].lower()
    return start.startswith(_PAGE_STARTS if is_text else "<")


def server_reason(body: str | None) -> str:
    """Return Pulsar's reason for an error, without its stack trace."""
    try:
        reason = parse_json(body or "")["reason"]
    except (NotJson, KeyError, TypeError):
        return _first_line(body)
    lines = [line.strip() for line in str(reason).splitlines() if line.strip()]
    messages = [line.removeprefix("Message:").strip() for line in lines if line.startswith("Message:")]
    return _short(messages[0] if messages else " ".join(lines[:1]))


def _first_line(text: str | None) -> str:
    lines = (text or "").strip().splitlines()
    return _short(lines[0]) if lines else "no text"


def _short(text: str) -> str:
    return text if len(text) <= _REASON_CHARACTERS else text[: _REASON_CHARACTERS - 1] + "…"


def _word(kind: type) -> str:
    words = {
        dict: "an object",
        list: "an array",
        str: "a text",
        int: "a number",
        float: "a number",
        bool: "a truth value",
    }
    return words.get(kind, "null")


# Members of a JSON object by type: a figure is read, missing, or rejected; it never becomes 0.

UNREADABLE_FIGURE = "unreadable_figure"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONG = 2**63


class Members:
    """Typed access to the members of `body`; a member of another type is NULL and goes into `rejections`.

    Pulsar's JSON writes NaN and infinities as text: such a figure is no number. Negative numbers are kept.
    """

    def __init__(self, body: Mapping[str, Any], table: str, place: str, rejections: list[Rejection]) -> None:
        self._body, self._table, self._place, self._rejections = body, table, place, rejections
        self.used: set[str] = set()

    def inside(self, name: str) -> Members:
        """Return the members of the object `name`; no members if it is missing or not an object."""
        value = self._take(name)
        if value is not None and not isinstance(value, dict):
            self._set_aside(name, value, "an object")
        inner = value if isinstance(value, dict) else {}
        return Members(inner, self._table, f"{self._place} {name}", self._rejections)

    def number(self, name: str) -> float | None:
        """Return a finite number; None if it is missing or anything else."""
        value = self._take(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            with suppress(OverflowError):
                if math.isfinite(figure := float(value)):
                    return figure
        self._refuse(name, value, "a finite number")
        return None

    def count(self, name: str) -> int | None:
        """Return a whole number of 64 bits; None if it is missing or of another type."""
        value = self._take(name)
        if isinstance(value, int) and not isinstance(value, bool) and -_LONG <= value < _LONG:
            return value
        self._refuse(name, value, "a whole number of 64 bits")
        return None

    def flag(self, name: str) -> bool | None:
        """Return a boolean; None if it is missing or of another type."""
        value = self._take(name)
        if isinstance(value, bool):
            return value
        self._refuse(name, value, "true or false")
        return None

    def text(self, name: str) -> str | None:
        """Return a text; None if it is missing or of another type."""
        value = self._take(name)
        if isinstance(value, str):
            return value
        self._refuse(name, value, "a text")
        return None

    def names(self, name: str) -> list[str] | None:
        """Return a list of texts, sorted, each once."""
        value = self._take(name)
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return sorted(set(value))
        self._refuse(name, value, "a list of texts")
        return None

    def moment(self, name: str) -> datetime | None:
        """Return a moment, given in milliseconds since 1970, in UTC."""
        value = self._take(name)
        if isinstance(value, int) and not isinstance(value, bool):
            try:
                return _EPOCH + timedelta(milliseconds=value)
            except OverflowError:
                pass
        self._refuse(name, value, "a time in milliseconds")
        return None

    def names_inside(self) -> frozenset[str]:
        """Return the names of all members."""
        return frozenset(self._body)

    def rest(self) -> str | None:
        """Return the JSON of the members that were not read; None if there are none."""
        left = {name: value for name, value in self._body.items() if name not in self.used}
        return json.dumps(left, ensure_ascii=False, sort_keys=True, separators=(",", ":")) if left else None

    def _take(self, name: str) -> Any:
        self.used.add(name)
        return self._body.get(name)

    def _refuse(self, name: str, value: Any, due: str) -> None:
        if value is not None:
            self._set_aside(name, value, due)

    def _set_aside(self, name: str, value: Any, due: str) -> None:
        text = json.dumps(value, ensure_ascii=False)
        self._rejections.append(
            Rejection(
                self._table,
                f"{self._place} {name}",
                UNREADABLE_FIGURE,
                f"{self._place}: member {name} is {text[:60]} where {due} is due; the figure is unknown in this cycle",
                excerpt(text),
            )
        )
