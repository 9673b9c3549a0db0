"""One cluster's snapshot as its shapes need it: the answers, whose they are, and what they can be read as."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from evenkeel.pulsar.answers import Answer, Answers
from evenkeel.pulsar.paths import Kind
from evenkeel.pulsar.reading import Reading, Rejection, read_json, rejection

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class View:
    """`own` are the snapshot's answers, `lent` those of the earlier snapshot that holds the configuration.

    `cluster` is the cluster's name in Pulsar; `rejections` collects what had to be set aside while reading.
    """

    cluster: str
    file: str
    started_at: datetime | None
    finished_at: datetime
    own: Answers
    lent: Answers
    lent_age_seconds: float | None
    rejections: list[Rejection] = field(default_factory=list)

    def json(self, answer: Answer | None, expected: type, table: str, *, nothing_at: tuple[int, ...] = ()) -> Reading:
        """The JSON of an answer; text that is at fault is set aside as a record meant for `table`."""
        return self.noted(read_json(answer, expected, nothing_at=nothing_at), answer, table)

    def noted(self, reading: Reading, answer: Answer | None, table: str) -> Reading:
        """The reading, after a record at fault was set aside."""
        found = rejection(reading, answer, table) if answer is not None else None
        if found is not None:
            self.rejections.append(found)
        return reading

    def configuration_source(self) -> tuple[Answers, float | None]:
        """The answers that hold the configuration, and their age against the snapshot in seconds."""
        if self.own.answered(Kind.CONFIGURATION):
            return self.own, 0.0
        return self.lent, self.lent_age_seconds

    def topic_list_source(self) -> tuple[Answers, float | None]:
        """The answers that hold the topic lists, and their age against the snapshot in seconds."""
        if self.own.answered(Kind.TOPIC_LIST):
            return self.own, 0.0
        return self.lent, self.lent_age_seconds
