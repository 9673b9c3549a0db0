"""Every error that Evenkeel raises on purpose.

A message says what is wrong, where (cluster, cycle, table, record, key), why, and what to do about it.
Whoever catches `EvenkeelError` shows its text to the operator and no stack trace.
"""

from __future__ import annotations


class EvenkeelError(Exception):
    """Root of all errors that Evenkeel raises itself; its text is fit for an operator's eyes."""


class SettingsError(EvenkeelError):
    """A setting is unknown, of the wrong type, out of range, or contradicts another one."""


class BadInput(EvenkeelError):
    """Input that cannot be read as what it claims to be: a name, a range, a record, a file."""


class HeatNotBuilt(BadInput):
    """Heat is asked for that was not built yet; the text says how it is."""


class NothingLanded(BadInput):
    """No snapshot was landed in a range of time; the text names the nearest, if there is one."""


class BadName(BadInput):
    """A topic, namespace, bundle or broker name that Pulsar itself would refuse."""


class BadRange(BadInput):
    """A bundle range or a list of boundaries or cuts that Pulsar itself would refuse."""


class LakeError(EvenkeelError):
    """A table is missing, damaged or was written in a way that must not be trusted."""


class NoLake(LakeError):
    """No lake stands where one was looked for, or nothing is on record in it yet."""


class NoSuchCycle(EvenkeelError):
    """A cycle, attempt or snapshot was asked for that is not on record; the message names the nearest."""


class NoSuchReplay(EvenkeelError):
    """A replay or simulation that is asked for is not on record."""


class Unreachable(EvenkeelError):
    """A cluster that cannot be observed: no broker answers, or what answers refuses or is not Pulsar."""


class LandingError(EvenkeelError):
    """A snapshot cannot be landed, or must not be: it is too late for it, or the place cannot be written."""


# What can go wrong with the transparency log.


class BadNote(BadInput):
    """A text that is not the signed note, checkpoint, proof, leaf or key that it should be."""


class BadSignature(BadNote):
    """A note that no known key has signed, or in which the signature of a known key is wrong."""


class BadStamp(BadInput):
    """A time stamp that is not over what it should be over, or not signed by whom it should be."""


class LogError(EvenkeelError):
    """The transparency log is missing, or what is asked of it cannot be."""


class LogBusy(LogError):
    """Another process appends to the transparency log, or holds the state of a witness."""


class DamagedLog(LogError):
    """A file of the transparency log is missing, cut or changed; the message names it."""


class InconsistentLog(LogError):
    """Two checkpoints of one log that no single growing tree has: a split view, or a log that was set back."""


class WitnessError(EvenkeelError):
    """A witness that cannot be reached, refuses a checkpoint, or gives an answer that is not one."""


# What can go wrong between Evenkeel and its engine.


class EngineError(EvenkeelError):
    """The engine (Java, jars, Connect server, session) cannot be had or does not answer."""


class JarError(EngineError):
    """A jar cannot be fetched, or is not the one that was pinned."""


class StaleCode(EngineError):
    """A Python worker of the server runs other code than this client."""


class DecideFailed(EngineError):
    """A decide function raised inside a worker; the text names the group and the first line of the error."""
