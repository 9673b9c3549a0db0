"""Counts messages: which were sent, acknowledged by the broker, received, and how often.

Every topic has one producer that numbers its messages from 0, so a message is known by topic and number.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

MOST_NAMED = 10


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of the messages of a run.

    `lost` were acknowledged to their producer and never received. `duplicates` is the number of repeated deliveries,
    which Pulsar allows when a bundle moves (at least once). `failed` sends were refused or timed out. `unanswered` had
    no answer when the run ended. `lost_examples` are `topic#number`. `producer_reconnects` and `consumer_reconnects`
    are connections after each client's first one. `longest_pause_seconds` is the longest time in which a consumer, that
    of `longest_pause_topic`, received nothing while messages were sent.
    """

    sent: int = 0
    acknowledged: int = 0
    failed: int = 0
    unanswered: int = 0
    received: int = 0
    lost: int = 0
    duplicates: int = 0
    producer_reconnects: int = 0
    consumer_reconnects: int = 0
    longest_pause_seconds: float = 0.0
    longest_pause_topic: str = ""
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    state: str = "connecting"
    failures: Mapping[str, int] = field(default_factory=dict)
    lost_examples: Sequence[str] = ()

    @property
    def reconnects(self) -> int:
        """Return the reconnections of producers and consumers together."""
        return self.producer_reconnects + self.consumer_reconnects

    def write(self, path: Path) -> None:
        part = path.with_suffix(".part")
        part.write_text(json.dumps(asdict(self)))
        part.replace(path)

    @classmethod
    def read(cls, path: Path) -> Tally:
        fields: dict[str, Any] = json.loads(path.read_text())
        return cls(**fields)


class Counts:
    """Sent, acknowledged and received numbers of every topic.

    A topic's numbers are written by one thread each: sends by the sender, acknowledgements and receipts by one thread
    of the client. Only failures come from two.
    """

    def __init__(self, topics: Sequence[str]) -> None:
        self._topics = topics
        self._next = [0] * len(topics)
        self._acknowledged = [bytearray() for _ in topics]
        self._received = [bytearray() for _ in topics]
        self._failures: dict[str, int] = {}
        self._failing = threading.Lock()
        self._deliveries = 0

    def next_number(self, topic: int) -> int:
        """The number of the next message of a topic, which counts as sent."""
        number = self._next[topic]
        self._next[topic] = number + 1
        return number

    def acknowledged(self, topic: int, number: int) -> None:
        _mark(self._acknowledged[topic], number)

    def failed(self, why: str) -> None:
        with self._failing:
            self._failures[why] = self._failures.get(why, 0) + 1

    def received(self, topic: int, number: int) -> None:
        _mark(self._received[topic], number)
        self._deliveries += 1

    def settled(self) -> bool:
        """Return True if every send has its answer and every acknowledged message was received."""
        answered = _marked(self._acknowledged) + sum(self._failures.values())
        return answered >= sum(self._next) and not any(map(self._lost, range(len(self._topics))))

    def tally(self, *, final: bool, **more: Any) -> Tally:
        """Return the sums so far; losses are known at the end only."""
        acknowledged, received = _marked(self._acknowledged), _marked(self._received)
        failed = sum(self._failures.values())
        ended = enumerate(self._topics) if final else ()
        lost = [f"{name}#{number}" for topic, name in ended for number in self._lost(topic)]
        return Tally(
            sent=sum(self._next),
            acknowledged=acknowledged,
            failed=failed,
            unanswered=sum(self._next) - acknowledged - failed,
            received=received,
            lost=len(lost),
            duplicates=self._deliveries - received,
            failures=dict(self._failures),
            lost_examples=lost[:MOST_NAMED],
            **more,
        )

    def _lost(self, topic: int) -> list[int]:
        acknowledged, received = self._acknowledged[topic], self._received[topic]
        if received.startswith(acknowledged):
            return []
        seen = len(received)
        return [
            number for number, known in enumerate(acknowledged) if known and not (number < seen and received[number])
        ]


class Pauses:
    """The longest time between two messages of each topic, seconds; moments are of a clock that only goes on.

    A topic's moments are written by one thread.
    """

    def __init__(self, topics: Sequence[str], begin: float) -> None:
        self._topics = topics
        self._last = [begin] * len(topics)
        self._longest = [0.0] * len(topics)

    def begin(self, at: float) -> None:
        """Begin to count; nothing before this moment counts."""
        self._last = [at] * len(self._topics)
        self._longest = [0.0] * len(self._topics)

    def received(self, topic: int, at: float) -> None:
        """A message of the topic has arrived."""
        self._longest[topic] = max(self._longest[topic], at - self._last[topic])
        self._last[topic] = at

    def longest(self, until: float) -> tuple[float, str]:
        """The longest pause up to this moment, one that lasts included, and its topic."""
        pauses = [max(past, until - last) for past, last in zip(self._longest, self._last, strict=True)]
        seconds = max(pauses, default=0.0)
        return seconds, self._topics[pauses.index(seconds)] if pauses else ""


def _mark(marks: bytearray, number: int) -> None:
    if number >= len(marks):
        marks.extend(bytes(number + 1 - len(marks)))
    marks[number] = 1


def _marked(marks: Iterable[bytearray]) -> int:
    return sum(len(each) - each.count(0) for each in marks)
