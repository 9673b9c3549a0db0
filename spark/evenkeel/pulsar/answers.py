"""Answers of Pulsar's admin API, and which of several answers to the same question counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from evenkeel.pulsar.paths import BROKER_SCOPED, Kind, Subject, subject_of

REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Answer:
    """One request and what came back. `status` 0: no HTTP answer came, and `body` says why.

    `n` is the position in the snapshot. `body` is cut short where the text is left where it is (figures of topics), and
    `size` is the length of the whole.
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

    @property
    def is_redirect(self) -> bool:
        """Whether the broker answered with a redirect."""
        return self.status in REDIRECTS

    @property
    def rank(self) -> tuple[bool, bool, int]:
        """Of several answers to one question the highest counts: one that says something, then the last."""
        return (200 <= self.status < 300, not self.is_redirect, self.n)


class Answers:
    """The answers of one snapshot by what they are about.

    A redirect that was followed leaves two answers; the final one counts. The same question asked again, at the same
    or at another broker, is answered by the last one that says something.
    """

    def __init__(self, answers: Iterable[Answer]) -> None:
        self._final: dict[Subject, Answer] = {}
        self._all = tuple(answers)
        for answer in self._all:
            if answer.method != "GET":
                continue
            subject = _asked(answer)
            known = self._final.get(subject)
            if known is None or answer.rank > known.rank:
                self._final[subject] = answer

    def about(self, kind: Kind, name: str = "") -> Answer | None:
        """The answer that counts for this subject, or None if it was never asked."""
        return self._final.get(Subject(kind, name))

    def each(self, kind: Kind) -> Iterator[tuple[str, Answer]]:
        """The answers that count of one kind, with the broker, namespace or cluster they are about, by name."""
        found = [(subject.name, answer) for subject, answer in self._final.items() if subject.kind == kind]
        yield from sorted(found, key=lambda item: item[0])

    def every(self, kind: Kind) -> list[Answer]:
        """All answers of one kind, also those that do not count."""
        return [answer for answer in self._all if subject_of(answer.path).kind == kind]

    def answered(self, kind: Kind) -> bool:
        """Whether any question of this kind was answered with success."""
        return any(answer.status == 200 for _, answer in self.each(kind))

    def times(self) -> Iterator[tuple[Answer, datetime]]:
        """All requests with the time at which they were sent, where that is known."""
        return ((answer, answer.at) for answer in self._all if answer.at is not None)

    def __len__(self) -> int:
        return len(self._all)


def _asked(answer: Answer) -> Subject:
    subject = subject_of(answer.path)
    return Subject(subject.kind, answer.broker) if subject.kind in BROKER_SCOPED else subject
