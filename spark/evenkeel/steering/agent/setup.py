"""Settings of one agent."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from evenkeel.errors import EvenkeelError
from evenkeel.steering.outcome import LONGEST_REQUEST_S
from evenkeel.steering.queue.signing import Signature

LONGEST_VISIBILITY_S = 43_200
"""SQS holds no message longer than twelve hours."""
MOST_IN_FLIGHT = 1_000


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Times in seconds.

    `signature`: this end of the cluster's queues; it names the cluster. `visibility_s`: for how long a message is held
    and, right before its request is sent, held again. `longest_request_s`: after that time neither an answer nor an
    effect of a request can come. `idle_s`: end after so long without work (0: once the queue gives nothing more); None:
    run until `stop`.
    """

    signature: Signature
    queue: str
    reports: str
    ledger: Path
    name: str
    paused_file: Path | None = None
    most_in_flight: int = 4
    per_second: float = 2.0
    visibility_s: int = 120
    longest_request_s: float = LONGEST_REQUEST_S
    poll_s: int = 5
    idle_s: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("rate", self.per_second), ("longest request", self.longest_request_s)):
            if not 0 < value < math.inf:
                raise AgentError(f"an agent's {name} is a number above 0, not {value}")
        if self.idle_s is not None and not 0 <= self.idle_s < math.inf:
            raise AgentError(f"an agent ends after a number of seconds without work, not after {self.idle_s}")
        if self.visibility_s > LONGEST_VISIBILITY_S or self.most_in_flight > MOST_IN_FLIGHT:
            raise AgentError(
                f"a queue holds a message for {LONGEST_VISIBILITY_S:,} s at most, and an agent has {MOST_IN_FLIGHT:,} "
                "commands in flight at most"
            )
        if self.visibility_s < 1.5 * self.longest_request_s:
            raise AgentError(
                f"messages held for {self.visibility_s} s could be given to another agent while a request of up to "
                f"{self.longest_request_s:g} s is under way: hold them for at least {1.5 * self.longest_request_s:g} s"
            )
        if self.most_in_flight < 1:
            raise AgentError("an agent needs room for at least one command in flight")

    @property
    def cluster(self) -> str:
        """The cluster whose commands the agent carries out."""
        return self.signature.cluster


class AgentError(EvenkeelError):
    """The agent cannot work, or must not go on."""


class LedgerError(AgentError):
    """The ledger is another agent's, another cluster's, damaged, or cannot be written; without it nothing is sent."""


# A command expires at a moment of the publisher's clock. An agent whose own clock is ten minutes behind would carry out
# expired commands, one that is ahead would refuse everything. The queue's answers have the right time.

LOG = logging.getLogger(__name__)
# An HTTP date has whole seconds, and an answer takes its time: less than this is not a difference.
TOLERATED = timedelta(seconds=5)
WORTH_SAYING = timedelta(seconds=30)


class QueueClock:
    """The agent's clock; `heard` gets the dates of the queue's answers."""

    def __init__(self, own_clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._own = own_clock
        self._lock = threading.Lock()
        self._ahead = timedelta(0)

    def now(self) -> datetime:
        """Return the moment by the queue's clock, as far as it is known."""
        return self._own() + self._ahead

    def heard(self, date: datetime, seconds: float) -> None:
        """Note that an answer that took so many seconds had this date, cut to the second."""
        if seconds > TOLERATED.total_seconds():
            return  # a long poll's date may be that of its end or of its beginning
        ahead = date + timedelta(milliseconds=500) - (self._own() - timedelta(seconds=seconds / 2))
        ahead = ahead if abs(ahead) > TOLERATED else timedelta(0)
        with self._lock:
            changed, self._ahead = abs(ahead - self._ahead), ahead
        if changed > WORTH_SAYING:
            LOG.warning("this machine's clock is %+.0f s off the queue's; the queue's counts", -ahead.total_seconds())


# A command that meets a pause is `withheld`, for good, and not given back to the queue. So its publisher gets the
# outcome at once, and after the pause the next cycle decides on figures of its own time.

MOST_CHARACTERS = 200


class PauseSwitch:
    """Pause switch, read before every command, so that a pause works in the middle of a publish."""

    def __init__(
        self, file: Path | None, marked: Callable[[], str | None], withdrawn: Callable[[str], str | None]
    ) -> None:
        """Take `file`: while it exists, the agent is paused; `marked`: the ledger's newest control; `withdrawn`: plans
        taken back."""
        self._file = file
        self._marked = marked
        self._withdrawn = withdrawn

    def reason(self, plan_id: str) -> str | None:
        """Return why no command of the plan may be sent now, or None."""
        return self._by_file() or self._marked() or self._withdrawn(plan_id)

    def _by_file(self) -> str | None:
        if self._file is None:
            return None
        try:
            with self._file.open(encoding="utf-8", errors="replace") as file:
                line = file.read(MOST_CHARACTERS).strip().partition("\n")[0].strip()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:  # it may exist: a stop switch that cannot be read is on
            return f"paused: the file {self._file} cannot be read ({type(error).__name__})"
        return f"paused by the file {self._file}" + (f": {line}" if line else "")
