"""Errors that Evenkeel raises on purpose.

A message says what is wrong, where (cluster, cycle, table, record, key), why, and what to do about it. A command that
catches `EvenkeelError` shows its text to the operator and no stack trace.
"""

from __future__ import annotations

import unicodedata


def visible(text: object) -> str:
    """Return the text with control, direction and surrogate characters written out as JSON does: `\\u202e`."""
    shown = str(text)
    return shown if shown.isprintable() else "".join(map(_visible, shown))


def _visible(sign: str) -> str:
    if sign.isprintable() or unicodedata.category(sign) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp"):
        return sign
    units = sign.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[place : place + 4]}" for place in range(0, len(units), 4))


def without_right(error: Exception, place: str = "") -> str:
    """Return what is wrong, and what to do, if this user has no right to a file or folder; `place`: where it is."""
    where = getattr(error, "filename", None) or place or error
    return f"this user has no right to it ({where}). Run the command as its owner, or change the rights"


class EvenkeelError(Exception):
    """Root of all errors that Evenkeel raises itself; its text is written for operators."""


class SettingsError(EvenkeelError):
    """A setting is unknown, of the wrong type, out of range, or contradicts another one."""


class BadInput(EvenkeelError):
    """Input that cannot be read as what it claims to be: a name, a range, a record, a file."""


class HeatNotBuilt(BadInput):
    """The requested heat is not built yet; the text says how to build it."""


class NothingLanded(BadInput):
    """No snapshot was landed in a range of time; the text names the nearest one, if any."""


class BadName(BadInput):
    """A topic, namespace, bundle or broker name that Pulsar itself would refuse."""


class BadRange(BadInput):
    """A bundle range or a list of boundaries or cuts that Pulsar itself would refuse."""


class LakeError(EvenkeelError):
    """A table is missing, damaged or was written in a way that must not be trusted."""


class NoLake(LakeError):
    """The address holds no lake, or the lake has no records yet."""


class NoSuchCycle(EvenkeelError):
    """The requested cycle, attempt or snapshot is not on record; the message names the nearest."""


class NoSuchReplay(EvenkeelError):
    """The requested replay or simulation is not on record."""


class Unreachable(EvenkeelError):
    """A cluster cannot be observed: no broker answers, or the server refuses or is not Pulsar."""


class LandingError(EvenkeelError):
    """A snapshot cannot be landed: it is too late for it, or the landing zone cannot be written."""


class BadNote(BadInput):
    """A text is not the signed note, checkpoint, proof, leaf or key that it should be."""


class BadSignature(BadNote):
    """A note has no signature by a known key, or the signature by a known key is wrong."""


class BadStamp(BadInput):
    """A time stamp covers other bytes than it should, or an unexpected key signed it."""


class LogError(EvenkeelError):
    """The transparency log is missing, or cannot do what was requested."""


class LogBusy(LogError):
    """Another process appends to the transparency log, or holds the state of a witness."""


class DamagedLog(LogError):
    """A file of the transparency log is missing, cut or changed; the message names it."""


class InconsistentLog(LogError):
    """Two checkpoints contradict each other: the log shows a split view, or was rolled back."""


class WitnessError(EvenkeelError):
    """A witness cannot be reached, refuses a checkpoint, or gives an invalid answer."""


class EngineError(EvenkeelError):
    """The engine (Java, jars, Connect server, session) cannot be started or does not answer."""


class JarError(EngineError):
    """A jar cannot be fetched, or its digest is not the pinned one."""


class StaleCode(EngineError):
    """A Python worker of the server runs other code than this client."""


class DecideFailed(EngineError):
    """A decide function raised in a worker; the text names the group and the first line of the error."""
