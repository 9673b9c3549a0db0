"""Sending many messages: each group in its order, whatever fails.

Messages are sent in waves: the first of every group, then the second of every group, and so on; so no batch holds two
of one group. Otherwise one could fail while a later one of its group is on the queue already, and stay behind it for
ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from evenkeel.retrying import Doubling, retry
from evenkeel.steering.queue.fifo import MOST_BYTES, MOST_IN_BATCH, Fifo, Letter, QueueRefused, QueueUnreachable

TRIES = 4
PAUSE = Doubling(first_s=0.2, longest_s=60.0, least=0.5, most=1.5)
Sleep = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Unsent:
    """A letter that is not known to be on the queue. `possible`: it may still be on it."""

    letter: Letter
    reason: str
    possible: bool = False


def send_all(queue: Fifo, letters: Sequence[Letter], *, tries: int = TRIES, sleep: Sleep = time.sleep) -> list[Unsent]:
    """Send the letters and repeat failed ones, with growing pauses; never raises for faults of the network.

    Once a letter could not be sent, the later ones of its group are not sent either. Once the queue as a whole does not
    answer or refuses, nothing more is sent.
    """
    unsent: list[Unsent] = []
    stopped: dict[str, str] = {}
    dead = ""
    for wave in waves(letters):
        held_back = [letter for letter in wave if dead or letter.group in stopped]
        unsent += [
            Unsent(letter, dead or f"an earlier one was not sent: {stopped[letter.group]}") for letter in held_back
        ]
        for batch in batches([letter for letter in wave if letter not in held_back]):
            trial = _Trial(queue, batch)
            if dead:
                unsent += [Unsent(letter, dead) for letter in batch]
            else:
                dead = trial.run(tries, sleep)
                unsent += trial.unsent
                stopped |= {letter.letter.group: letter.reason for letter in trial.unsent}
    return unsent


def waves(letters: Iterable[Letter]) -> list[list[Letter]]:
    """Return the waves: the n-th consists of the n-th letter of every group."""
    count: dict[str, int] = {}
    result: list[list[Letter]] = []
    for letter in letters:
        place = count.get(letter.group, 0)
        count[letter.group] = place + 1
        if place == len(result):
            result.append([])
        result[place].append(letter)
    return result


def batches(letters: Sequence[Letter]) -> Iterator[list[Letter]]:
    """Yield batches of as many letters as a request may hold, by number and by size in bytes (bodies are ASCII)."""
    batch: list[Letter] = []
    size = 0
    for letter in letters:
        if batch and (len(batch) == MOST_IN_BATCH or size + len(letter.body) > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(letter)
        size += len(letter.body)
    if batch:
        yield batch


class _Trial:
    """One batch, until every letter of it is on the queue or given up."""

    def __init__(self, queue: Fifo, batch: Sequence[Letter]) -> None:
        self._queue = queue
        self._left = dict.fromkeys(batch, "")  # letter: why it is not sent yet
        self._unheard = False  # a request was sent and no answer came
        self.unsent: list[Unsent] = []

    def run(self, tries: int, sleep: Sleep) -> str:
        """Send the batch; return why nothing can be sent to this queue at all, if so."""
        dead = retry(self._once, tries=tries, pause=PAUSE, if_returned=lambda _: bool(self._left), sleep=sleep)
        self._give_up()
        return dead

    def _once(self) -> str:
        try:
            answers = self._queue.send(list(self._left))
        except QueueUnreachable as error:
            self._unheard = True
            self._left = dict.fromkeys(self._left, str(error))
            return str(error)
        except QueueRefused as error:
            self._left = dict.fromkeys(self._left, str(error))
            self._give_up()
            return str(error)
        failed = {letter: failure for letter, failure in zip(self._left, answers, strict=True) if failure is not None}
        self.unsent += [
            Unsent(letter, failure.reason, self._unheard) for letter, failure in failed.items() if failure.final
        ]
        self._left = {letter: failure.reason for letter, failure in failed.items() if not failure.final}
        return ""

    def _give_up(self) -> None:
        self.unsent += [Unsent(letter, reason, self._unheard) for letter, reason in self._left.items()]
        self._left = {}
