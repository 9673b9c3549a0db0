"""Which load manager runs: per broker by what it answers, and for the cluster as a whole; which Pulsar generation."""

from __future__ import annotations

from collections.abc import Iterable

from evenkeel.pulsar.answers import Answer

MODULAR = "modular"
EXTENSIBLE = "extensible"
MIXED = "mixed"
UNKNOWN = "unknown"

CLASSES = {MODULAR: "ModularLoadManagerImpl", EXTENSIBLE: "ExtensibleLoadManagerImpl"}
_MANAGERS = {name: manager for manager, name in CLASSES.items()}


def manager_of_class(name: object) -> str:
    """The manager of a `loadManagerClassName`, full or simple; unknown for any other class."""
    return _MANAGERS.get(name.rpartition(".")[2], UNKNOWN) if isinstance(name, str) else UNKNOWN


def refuses_load_reports(answer: Answer | None) -> bool:
    """Whether this is the extensible manager's answer to a load report: 500, UnsupportedOperationException."""
    return answer is not None and answer.status == 500 and "UnsupportedOperationException" in (answer.body or "")


def manager_of_cluster(managers: Iterable[str]) -> str:
    """One manager that all known brokers run; mixed where they differ (a migration under way), else unknown."""
    known = {manager for manager in managers if manager != UNKNOWN}
    if len(known) > 1:
        return MIXED
    return known.pop() if known else UNKNOWN


def generation_of(versions: Iterable[str | None]) -> str:
    """ "5.0" where every broker that named its version runs 5 or later, else "4.x" (also where none did)."""
    majors = [int(head) for head in (str(version).split(".")[0] for version in versions if version) if head.isdigit()]
    return "5.0" if majors and min(majors) >= 5 else "4.x"
