"""Configuration files, settings and limits that are wrong in one entry, as TOML."""

from collections.abc import Iterator

from evenkeel.pulsar.limits import Limits
from evenkeel.settings import registry
from tests.bad_input.values import WRONG_TOML

_TEXTS = {"text", "name-of-10000"}
_NUMBERS = {"integer", "float", "digits-400"}
_ABOVE_0 = {"integer", "float"}

LIVE = 'admin = ["http://b1:8080"]\n'
ZONE = 's3 = "s3://bucket/x"\n'
# Entry -> what it needs beside it, and which of the values are right.
ENTRIES: dict[str, tuple[str, set[str]]] = {
    "recording": ("", _TEXTS),
    "settings": ('recording = "x"\n', set()),
    "limits": ('recording = "x"\n', set()),
    "admin": ("", set()),
    "connection": (LIVE, _TEXTS),
    "ca_file": (LIVE, _TEXTS),
    "check_hostname": (LIVE, {"true"}),
    "broker_url": (LIVE, set()),
    "landing": (LIVE, _TEXTS),
    "landing_days": (LIVE, _ABOVE_0),
    "full_every": (LIVE, {"integer", "digits-400"}),
    "silent_seconds": (LIVE, _ABOVE_0),
    "s3": ("", set()),
    "s3_connection": (ZONE, _TEXTS),
    "queue": (ZONE + 'reports = "https://q/r.fifo"\n', _TEXTS),
    "reports": (ZONE + 'queue = "https://q/c.fifo"\n', _TEXTS),
    "queue_keys": (ZONE + 'queue = "https://q/c.fifo"\nreports = "https://q/r.fifo"\n', _TEXTS),
    "recordin": ('recording = "x"\n', set()),
}

FILES = {
    "empty": b"",
    "not-toml": b"= 15\n",
    "not-utf-8": b'[clusters.lab]\nrecording = "\xff"\n',
    "utf-16": '[clusters.lab]\nrecording = "x"\n'.encode("utf-16"),
    "nul": b"\0",
    "byte-order-mark": b'\xef\xbb\xbf[clusters.lab]\nrecording = "x"\n',
    "twice": b'[clusters.lab]\nrecording = "x"\n[clusters.lab]\nrecording = "y"\n',
    "same-key-twice": b'[clusters.lab]\nrecording = "x"\nrecording = "y"\n',
    "deep": b"a = " + b"[" * 5_000 + b"]" * 5_000,
    "deep-tables": b"a = " + b"{a=" * 5_000 + b"1" + b"}" * 5_000,
    "digits-5000": b"[clusters.lab]\nlanding_days = " + b"9" * 5_000,
    "impossible-date": b"[clusters.lab]\nrecording = 2026-13-41\n",
    "surrogate": b'[clusters.lab]\nrecording = "\\ud800"\n',
    "control-sign": b'[clusters.lab]\nrecording = "a\x1bb"\n',
    "no-clusters": b"[settings]\n",
    "clusters-number": b"clusters = 1\n",
    "clusters-list": b"[[clusters]]\nrecording = 'x'\n",
    "cluster-number": b"[clusters]\nlab = 5\n",
    "unknown-table": b"[cluster.lab]\nrecording = 'x'\n",
    "settings-text": b"settings = 'x'\n[clusters.lab]\nrecording = 'x'\n",
    "settings-list": b"settings = [1]\n[clusters.lab]\nrecording = 'x'\n",
    "limits-number": b"limits = 1\n[clusters.lab]\nrecording = 'x'\n",
    "json": b'{"clusters": {}}',
    "page": b"<html></html>",
}


def configurations() -> Iterator[tuple[str, bytes]]:
    """Id and content of each file."""
    for name, content in FILES.items():
        yield f"file {name}", content
    for entry, (beside, right) in ENTRIES.items():
        for name, value in WRONG_TOML.items():
            if name not in right and (entry, name) not in _RIGHT:
                yield f"{entry} {name}", f"[clusters.lab]\n{beside}{entry} = {value}\n".encode()
    for limit in Limits.__dataclass_fields__:
        for name, value in WRONG_TOML.items():
            if name not in {"integer", "digits-400"}:
                yield f"limits.{limit} {name}", f'[clusters.lab]\nrecording="x"\n[limits]\n{limit} = {value}\n'.encode()


_RIGHT = {("admin", "name-of-10000")}


def overrides() -> Iterator[tuple[str, str, str]]:
    """Id, key and value, as TOML, of settings that no key of that kind can have."""
    wrong = {
        "bool": {"text", "integer", "float", "nan", "list", "table", "date", "digits-400", "nul"},
        "int": {"text", "float", "true", "nan", "infinite", "list", "table", "date", "digits-400", "nul"},
        "float": {"text", "true", "nan", "infinite", "list", "table", "date", "digits-400", "nul"},
        "optional float": {"text", "true", "nan", "infinite", "list", "table", "date", "digits-400", "nul"},
    }
    for name, key in sorted(registry().items()):
        for value in sorted(wrong.get(key.kind, {"integer", "float", "true", "table", "date"})):
            yield f"{name} {value}", name, WRONG_TOML[value]
        yield f"{name}x unknown", f"{name}x", "1"
