"""One request as it was sent, with what came back: the shape of a request in a recording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Hop:
    """One hop of a request.

    `broker` is the id of the broker asked, else host:port. `status` 0: no HTTP answer came, or the request was not
    sent, and `body` says why (`failures`). `at` is the moment of sending, ISO-8601 UTC with milliseconds; `location`
    the answer's header of that name; `sent` the body that went with the request. A token stands nowhere in it.
    """

    broker: str
    method: str
    path: str
    status: int
    at: str
    elapsed_ms: float
    location: str | None
    body: str
    sent: str | None = None

    @property
    def is_redirect(self) -> bool:
        """Whether the broker answered with a redirect."""
        return self.status in REDIRECTS

    @property
    def is_good(self) -> bool:
        """Whether the broker did, or told, what was asked."""
        return 200 <= self.status < 300

    def as_request(self) -> dict[str, Any]:
        """The members of a request in a recording; `sent` only where something was sent."""
        members = {
            "broker": self.broker,
            "method": self.method,
            "path": self.path,
            "status": self.status,
            "at": self.at,
            "elapsed_ms": self.elapsed_ms,
            "location": self.location,
            "body": self.body,
        }
        return members if self.sent is None else {**members, "sent": self.sent}
