"""An issuer of OAuth2 access tokens on loopback, and brokers that accept some of them."""

import json
import ssl
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import parse_qs

from tests.pulsar.admin.simulated import UNAUTHORIZED, Answer, Asked, Book, SimulatedCluster, listing

WELL_KNOWN = "/.well-known/openid-configuration"
CLIENT_ID, CLIENT_SECRET = "evenkeel-client", "s3cr3t-of-the-client"


class Issuer(SimulatedCluster):
    """Issues the access tokens `access-token-1`, `access-token-2`, …; `answer` is what it says beside each."""

    def __init__(self, *, tls: ssl.SSLContext | None = None, **answer: Any) -> None:
        self.issued: list[str] = []
        self.said = {"token_type": "Bearer", "expires_in": 3600, **answer}
        super().__init__(self._answering, 1, tls=tls)

    def _answering(self, _: Sequence[str]) -> Book:
        def answer(asked: Asked) -> Answer | None:
            if asked.path == WELL_KNOWN:
                return Answer(200, json.dumps({"token_endpoint": f"{self.url}/oauth/token"}))
            return self._token_answer(asked) if asked.path == "/oauth/token" else None

        return answer

    def _token_answer(self, asked: Asked) -> Answer:
        form = {name: values[0] for name, values in parse_qs(asked.body).items()}
        if (form.get("client_id"), form.get("client_secret")) != (CLIENT_ID, CLIENT_SECRET):
            error = {"error": "invalid_client", "error_description": f"no client has {form.get('client_secret')}"}
            return Answer(401, json.dumps(error))
        self.issued.append(f"access-token-{len(self.issued) + 1}")
        return Answer(200, json.dumps({"access_token": self.issued[-1], **self.said}))


def accepting(cluster: SimulatedCluster, *tokens: str) -> Callable[..., None]:
    """The brokers take these tokens alone from now on; the returned function changes which."""
    accepted = {f"Bearer {token}" for token in tokens}
    answer = listing(cluster.ids)

    def judge(asked: Asked) -> Answer:
        return (answer(asked) or Answer(404)) if asked.authorization in accepted else Answer(401, UNAUTHORIZED)

    def accept(*others: str) -> None:
        accepted.clear()
        accepted.update(f"Bearer {token}" for token in others)

    cluster.fault("", judge)
    return accept
