"""What a named connection to a store holds. Nothing of boto3 is loaded with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from evenkeel.pulsar.admin.secret import Secret


@dataclass(frozen=True, slots=True)
class S3Connection:
    """What a named connection tells; None leaves a part to boto3's own search."""

    access_key: str | None = None
    secret_key: Secret | None = None
    session_token: Secret | None = None
    region: str | None = None
    endpoint: str | None = None


Resolver = Callable[[str], S3Connection | None]
"""From the name of a connection to what it tells; None where it is not known."""
