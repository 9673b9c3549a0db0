"""How one agent is set up."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from evenkeel.agent.errors import AgentError
from evenkeel.sinks import LONGEST_REQUEST_S


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """Times in seconds.

    `visibility_s`: for how long a message is held and, right before its request goes out, held anew.
    `longest_request_s`: after so long neither an answer nor an effect of a request can come any more.
    `idle_s`: end after so long without work (0: once the queue gives nothing more); None: run until told to end.
    """

    cluster: str
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
        if self.visibility_s < 1.5 * self.longest_request_s:
            raise AgentError(
                f"messages held for {self.visibility_s} s could be given to another agent while a request of up to "
                f"{self.longest_request_s:g} s is under way: hold them for at least {1.5 * self.longest_request_s:g} s"
            )
        if self.most_in_flight < 1 or self.per_second <= 0:
            raise AgentError("an agent needs room for at least one command in flight, and a rate above 0")

    @property
    def longest_request(self) -> timedelta:
        """The longest time that a request to a broker may take."""
        return timedelta(seconds=self.longest_request_s)
