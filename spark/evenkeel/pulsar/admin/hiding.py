"""Secrets that Pulsar itself tells: they are hidden before anything keeps the answer.

A broker's runtime configuration shows the token that it talks to others with (`brokerClientAuthenticationParameters`)
and the passwords of its key stores, all in plain text to any super user; a namespace's policies show the keys of its
offload store (`offload_policies`), a cluster's data the same as a broker's.
"""

from __future__ import annotations

import re

from evenkeel.pulsar.admin.quoting import PREFIX
from evenkeel.pulsar.admin.secret import HIDDEN

_TOLD_BY = tuple(f"{PREFIX}/{part}" for part in ("brokers/configuration", "clusters/", "namespaces/"))
_NAMES = "password|secret|credential|token|privatekey|parameters|params"
_MEMBER = re.compile(rf'("[^"\\]*(?:{_NAMES})[^"\\]*"\s*:\s*)"(?:[^"\\]|\\.)+"', re.IGNORECASE)


def is_hidden(name: str) -> bool:
    """Whether a setting of this name may hold a secret."""
    return re.search(_NAMES, name, re.IGNORECASE) is not None


def without_secrets(path: str, body: str) -> str:
    """The body with the texts of such settings hidden; all else stays as it came."""
    return _MEMBER.sub(rf'\1"{HIDDEN}"', body) if path.startswith(_TOLD_BY) else body
