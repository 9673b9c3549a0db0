"""Tokens for a cluster that asks for them: JSON web tokens, signed with a secret key of the cluster's own."""

from __future__ import annotations

import base64
import secrets
from dataclasses import dataclass, field

import jwt

ADMIN = "admin"  # the super user


@dataclass(frozen=True, slots=True)
class Tokens:
    """The key of one cluster; only the brokers' own files contain it."""

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def of(self, role: str) -> str:
        """A token that makes its bearer `role`: `admin` is the super user, any other has the rights it was given."""
        return jwt.encode({"sub": role}, self.key, algorithm="HS256")

    def secret_key_url(self) -> str:
        """The key as broker setting `tokenSecretKey`."""
        return f"data:;base64,{base64.b64encode(self.key).decode()}"
