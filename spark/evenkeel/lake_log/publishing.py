"""What a publish does for the log: its manifests become leaves, the checkpoint goes to the witnesses.

Nothing that goes wrong here undoes or stops a publish: manifests are on record, and the next catch-up takes them in.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from evenkeel.errors import EvenkeelError
from evenkeel.lake_log import KEY_PLACES, WITNESSES
from evenkeel.settings.operation import ENVIRONMENT

if TYPE_CHECKING:
    from evenkeel.lake_log.private_keys import KeyResolver

log = logging.getLogger(__name__)

_LATER = "All manifests are on record; the next publish, or `evenkeel log catch-up`, takes into the log what it lacks"


_resolve: KeyResolver | None = None


def resolve_keys_by(resolve: KeyResolver) -> None:
    """Says how the connection that EVENKEEL_LOG_CONNECTION names is looked up in this process."""
    global _resolve
    _resolve = resolve


def log_commits(lake: str, commits: object, *, to_witnesses: bool = True) -> None:
    log_manifests(lake, to_witnesses=to_witnesses)


def log_manifests(lake: str, *, to_witnesses: bool = True, environment: Mapping[str, str] = ENVIRONMENT) -> None:
    """Takes all that has no leaf into the log of a lake, manifests and rows beside them, and with `to_witnesses` tells
    the witnesses.

    Without a key it does nothing and loads nothing. Never raises: what went wrong is logged, with what to do.
    """
    try:
        if not any(environment.get(name) for name in KEY_PLACES):
            return
        from evenkeel.lake_log.catch_up import catch_up, open_log, storage_of
        from evenkeel.lake_log.private_keys import signers_from_environment

        signers = signers_from_environment(environment, _resolve)
        found = catch_up(lake, signers)
        if found.rotation is not None:
            log.warning("transparency log: its keys have changed: %s", found.rotation.words)
        for problem in found.problems:
            log.error("transparency log: %s", problem)
        if to_witnesses and environment.get(WITNESSES):
            from evenkeel.lake_log.witness_lines import witnesses_from_environment
            from evenkeel.lake_log.witnessing import tell_witnesses

            storage = storage_of(lake)
            tell_witnesses(storage, open_log(storage, signers), witnesses_from_environment(environment))
    except EvenkeelError as error:
        log.error("transparency log: %s. %s", error, _LATER)
    except Exception:
        log.exception("transparency log: an error that nobody foresaw. %s", _LATER)
