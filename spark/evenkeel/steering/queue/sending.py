"""Sending many messages: each group in its order, whatever fails on the way.

Messages go out in waves: the first of every group, then the second of every group, and so on; so no batch holds two of
one group. Else one could fail while a later one of its group is on the queue already, before it for ever.
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
    """A letter that is not known to be on the queue. `possible`: it may be there all the same."""

    letter: Letter
    reason: str
    possible: bool = False


def send_all(queue: Fifo, letters: Sequence[Letter], *, tries: int = TRIES, sleep: Sleep = time.sleep) -> list[Unsent]:
    """Sends the letters and tries again what failed, with growing pauses; never raises for what the network does.

    Once a letter could not be sent, the later ones of its group are not sent either; once the queue as a whole does not
    answer or refuses, nothing more is.
    """
    unsent: list[Unsent] = []
    stopped: dict[str, str] = {}
    dead = ""
    for wave in waves(letters):
        held_back = [one for one in wave if dead or one.group in stopped]
        unsent += [Unsent(one, dead or f"an earlier one was not sent: {stopped[one.group]}") for one in held_back]
        for batch in batches([one for one in wave if one not in held_back]):
            trial = _Trial(queue, batch)
            if dead:
                unsent += [Unsent(one, dead) for one in batch]
            else:
                dead = trial.run(tries, sleep)
                unsent += trial.unsent
                stopped |= {one.letter.group: one.reason for one in trial.unsent}
    return unsent


def waves(letters: Iterable[Letter]) -> list[list[Letter]]:
    """The n-th letter of every group makes the n-th wave."""
    count: dict[str, int] = {}
    found: list[list[Letter]] = []
    for letter in letters:
        place = count.get(letter.group, 0)
        count[letter.group] = place + 1
        if place == len(found):
            found.append([])
        found[place].append(letter)
    return found


def batches(letters: Sequence[Letter]) -> Iterator[list[Letter]]:
    """Batches of as many letters as a request may hold, by number and by size in bytes (bodies are ASCII)."""
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
        self._unheard = False  # whether a request went out and no answer came
        self.unsent: list[Unsent] = []

    def run(self, tries: int, sleep: Sleep) -> str:
        """Says why nothing can be sent to this queue at all, if so."""
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
        failed = {letter: one for letter, one in zip(self._left, answers, strict=True) if one is not None}
        self.unsent += [Unsent(letter, one.reason, self._unheard) for letter, one in failed.items() if one.final]
        self._left = {letter: one.reason for letter, one in failed.items() if not one.final}
        return ""

    def _give_up(self) -> None:
        self.unsent += [Unsent(letter, reason, self._unheard) for letter, reason in self._left.items()]
        self._left = {}
