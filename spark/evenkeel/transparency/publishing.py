"""The log's share of a publish and an upkeep: their commits become leaves, the checkpoint goes to the witnesses.

A fault of the log neither undoes nor stops them: their rows are on record.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from evenkeel.errors import EvenkeelError
from evenkeel.settings.operation import ENVIRONMENT
from evenkeel.transparency import KEY_PLACES, WITNESSES

if TYPE_CHECKING:
    from evenkeel.handover import Commit
    from evenkeel.transparency.keys import KeyResolver

log = logging.getLogger(__name__)

_LATER = "All rows are on record. Run the task again, or take its commits in with `evenkeel log catch-up --adopt`"


_resolve: KeyResolver | None = None


def resolve_keys_by(resolve: KeyResolver) -> None:
    """Set how the connection that EVENKEEL_LOG_CONNECTION names is looked up in this process."""
    global _resolve
    _resolve = resolve


def log_commits(
    lake: str,
    commits: Iterable[Commit],
    *,
    to_witnesses: bool = True,
    environment: Mapping[str, str] = ENVIRONMENT,
) -> None:
    """Append leaves of the commits that have none yet, and with `to_witnesses` give the checkpoint to the witnesses.

    `commits` is not read without a key; then nothing is done and nothing is loaded. Never raises: errors are logged,
    with what to do.
    """
    try:
        if not any(environment.get(name) for name in KEY_PLACES):
            return
        from evenkeel.lake.pending_commits import pending, take_away
        from evenkeel.transparency.keys import signers_from_environment
        from evenkeel.transparency.lake_log import append_commits, open_log, storage_of

        signers = signers_from_environment(environment, _resolve)
        new_commits = [*commits]
        versions = {(commit.table, commit.version) for commit in new_commits}
        others = [(commit, by) for commit, by in pending(lake) if (commit.table, commit.version) not in versions]
        new_commits += [commit for commit, _ in others]
        grown = append_commits(
            lake, signers, new_commits, by={(commit.table, commit.version): by for commit, by in others}
        )
        take_away(lake, new_commits)
        if grown.rotation is not None:
            log.warning("transparency log: its keys have changed: %s", grown.rotation.words)
        for problem in grown.problems:
            log.error("transparency log: %s", problem)
        if to_witnesses and environment.get(WITNESSES):
            from evenkeel.transparency.witnesses import tell_witnesses, witnesses_from_environment

            storage = storage_of(lake)
            tell_witnesses(storage, open_log(storage, signers), witnesses_from_environment(environment))
    except EvenkeelError as error:
        log.error("transparency log: %s. %s", error, _LATER)
    except Exception:
        log.exception("transparency log: an unforeseen error. %s", _LATER)
