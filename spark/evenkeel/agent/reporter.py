"""What goes out: reports that are owed, and then the messages that are done with are deleted.

A message is deleted only after the report of its command is on the reports queue. So until then the command queue
remembers it too, should this machine and its ledger be lost.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from evenkeel.agent.ledger import Ledger
from evenkeel.agent.trouble import Trouble
from evenkeel.agent.work_queue import WorkQueue
from evenkeel.steering.queue.fifo import Fifo, Letter, QueueError, QueueUnreachable, report_group
from evenkeel.steering.queue.sending import send_all

MOST_AT_ONCE = 100


class Reporter:
    """Pays what is owed to both queues; called by one thread."""

    def __init__(
        self, ledger: Ledger, work_queue: WorkQueue, commands: Fifo, reports: Fifo, now: Callable[[], datetime]
    ) -> None:
        self._ledger = ledger
        self._work_queue = work_queue
        self._commands = commands
        self._reports = reports
        self._now = now
        self._to_delete: list[str] = []
        self._reporting = Trouble("reports queue")
        self._deleting = Trouble("deleting from the command queue")

    def round(self) -> float:
        """Pays what can be paid; gives the seconds until a next try makes sense, 0 where nothing is left."""
        return max(self._pay_reports(), self._delete_done())

    def _pay_reports(self) -> float:
        while owed := self._ledger.owed(MOST_AT_ONCE):
            letters = {Letter(one.body, report_group(one.command_id), one.token): one.number for one in owed}
            unsent = {one.letter: one.reason for one in send_all(self._reports, list(letters), tries=1)}
            self._ledger.paid([number for letter, number in letters.items() if letter not in unsent], self._now())
            if unsent:
                told = f"{len(unsent)} of {len(owed)} reports not sent: {next(iter(unsent.values()))}"
                return self._reporting.failed(QueueUnreachable(told))
            self._reporting.worked()
        return 0.0

    def _delete_done(self) -> float:
        self._to_delete += self._work_queue.take_discarded()
        done = [in_flight for in_flight in self._work_queue.finished() if not self._ledger.owes(in_flight.command_id)]
        receipts = [
            *self._to_delete,
            *(receipt for in_flight in done for receipt in self._work_queue.receipts_of(in_flight)),
        ]
        if not receipts and not done:
            return 0.0
        try:
            self._commands.delete(receipts)  # what is refused was given out again, and will be answered again
        except QueueError as error:
            return self._deleting.failed(error)
        self._deleting.worked()
        self._to_delete = []
        for in_flight in done:
            self._work_queue.forget(in_flight)
        return 0.0
