"""A minimal admin client: one request at a time, redirects followed, on loopback only.

The lab has a separate client, so that the tested code never tests itself.
"""

from __future__ import annotations

import http.client
import ipaddress
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

from devtools.lab.errors import LabError

TIMEOUT_SECONDS = 65.0  # a broker gives up an unload after 60 s
MOST_HOPS = 6


@dataclass(frozen=True, slots=True)
class Answer:
    """Status and text of an answer, and the broker (host:port) that gave it. Status 0: no answer; the text has the
    reason."""

    status: int
    text: str
    broker: str = ""

    @property
    def fine(self) -> bool:
        return 200 <= self.status < 300

    def json(self) -> Any:
        return json.loads(self.text)


@dataclass(frozen=True, slots=True)
class Admin:
    """Asks brokers; `token` goes along to wherever a redirect leads."""

    urls: tuple[str, ...]
    token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for url in self.urls:
            if not ipaddress.ip_address(urlsplit(url).hostname or "").is_loopback:
                raise LabError(f"{url} is not on loopback; the lab changes nothing elsewhere.")

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        url: str | None = None,
        timeout_s: float = TIMEOUT_SECONDS,
    ) -> Answer:
        """Send a request for `path` below the root. A text body is sent unchanged, any other as JSON. Raises
        nothing."""
        sent = body if isinstance(body, str) else None if body is None else json.dumps(body)
        target = urljoin(url or self.urls[0], path)
        try:
            for _ in range(MOST_HOPS):
                status, text, location = self._hop(method, target, sent, timeout_s)
                if status not in (302, 307) or location is None:
                    return Answer(status, text, urlsplit(target).netloc)
                target = urljoin(target, location)
        except (OSError, http.client.HTTPException) as error:
            return Answer(0, f"{target}: {error}")
        return Answer(0, f"{target}: more than {MOST_HOPS} redirects")

    def _hop(self, method: str, url: str, body: str | None, timeout_s: float) -> tuple[int, str, str | None]:
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.netloc, timeout=timeout_s)
        headers = {"Content-Type": "application/json"} | (
            {"Authorization": f"Bearer {self.token}"} if self.token else {}
        )
        try:
            target = parts._replace(scheme="", netloc="").geturl()
            connection.request(method, target, None if body is None else body.encode(), headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode(errors="replace"), answer.getheader("Location")
        finally:
            connection.close()

    def get(self, path: str, *, url: str | None = None) -> Any:
        """The JSON of an answer that must be fine; LabError otherwise."""
        answer = self.demand("GET", path, url=url)
        return answer.json()

    def demand(
        self, method: str, path: str, body: object = None, *, also: Iterable[int] = (), url: str | None = None
    ) -> Answer:
        """Return an answer that must be fine (or one of `also`); otherwise raise LabError with the answer's text."""
        answer = self.ask(method, path, body, url=url)
        if not answer.fine and answer.status not in set(also):
            raise LabError(f"{method} {path}: {answer.status} {answer.text[:300]}")
        return answer


def segments(*names: str) -> str:
    """Return names as parts of a path, percent-encoded one by one."""
    return "/".join(quote(name, safe="") for name in names)
