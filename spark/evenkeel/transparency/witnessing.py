"""Checkpoints given to the witnesses of a lake, and the state of each: how far it is behind, and since when.

A witness that cannot be reached stops nothing: it gets the newest checkpoint the next time. One that has seen another
tree reports it, and that is recorded beside the log until it cosigns again.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

from evenkeel.errors import EvenkeelError, InconsistentLog, LogError
from evenkeel.json_text import NotJson, parse_json
from evenkeel.model.amounts import plural
from evenkeel.times import utc_seconds
from evenkeel.transparency.checkpoint import SignedCheckpoint
from evenkeel.transparency.keys import NoteSignature
from evenkeel.transparency.log import TransparencyLog
from evenkeel.transparency.stamps import stamp
from evenkeel.transparency.storage import LogStorage
from evenkeel.transparency.witness_client import submit
from evenkeel.transparency.witness_file import WitnessFile
from evenkeel.transparency.witness_lines import LakeWitness

STATES = "witnesses"
"""The file with the states of the witnesses; one of Evenkeel's, outside tlog-tiles."""
_TRIES = 3  # the log may grow meanwhile
_TIMEOUT_SECONDS = 5.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WitnessState:
    """State of a witness.

    `size`: of the newest checkpoint that it took, and `at` when it did (seconds since 1970; 0: never). `since`: when it
    first failed to take a newer one, 0 if it does not fail; `fault` says why. `is_inconsistent`: it has seen another
    tree, so some readers get another past. `tried`: when a time stamp authority was last asked.
    """

    name: str
    size: int = 0
    at: int = 0
    since: int = 0
    fault: str = ""
    is_inconsistent: bool = False
    tried: int = 0

    def words(self, size: int) -> str:
        """Return one line on the witness of a log with `size` leaves."""
        if self.is_inconsistent:
            return f"{self.name}: INCONSISTENT since {_moment(self.since)}: {self.fault}"
        behind = size - self.size
        if not self.fault and behind <= 0:
            return f"{self.name}: has seen all {plural(size, 'leaf', 'leaves')} ({_moment(self.at)})"
        since = f" since {_moment(self.since)}: {self.fault}" if self.fault else ""
        return f"{self.name}: {plural(max(behind, 0), 'leaf', 'leaves')} behind{since}"


def witness_states(storage: LogStorage) -> dict[str, WitnessState]:
    """Return the states of the witnesses, by name; none if the file cannot be read."""
    try:
        body = parse_json(storage.get(STATES) or b"{}", depth=3)
        return {name: WitnessState(**state) for name, state in body.items()}
    except (NotJson, TypeError, AttributeError):
        return {}


def tell_witnesses(
    storage: LogStorage,
    opened: TransparencyLog,
    witnesses: Sequence[LakeWitness],
    clock: Callable[[], float] = time.time,
    timeout_seconds: float = _TIMEOUT_SECONDS,
) -> list[WitnessState]:
    """Give the newest checkpoint to each witness that has not taken it, and note the results.

    `timeout_seconds`: for each of at most four exchanges with a witness; all are asked in parallel. Never raises for a
    witness. Their answers are logged.
    """
    before = witness_states(storage)
    known = [before.get(witness.name, WitnessState(witness.name)) for witness in witnesses]
    size = opened.checkpoint().checkpoint.size
    due = [
        (witness, state)
        for witness, state in zip(witnesses, known, strict=True)
        if (state.size != size or state.fault) and _may_be_asked(witness, state, clock())
    ]
    if not due:
        return known
    for witness, _ in due:
        witness.load_libraries()
    with ThreadPoolExecutor(len(due)) as pool:
        states = pool.map(lambda pair: _told(storage, opened, pair[0], pair[1], clock, timeout_seconds), due)
        after = {state.name: state for state in states}
    all_states = [after.get(state.name, state) for state in known]
    storage.put(STATES, json.dumps({state.name: asdict(state) for state in all_states}, indent=1).encode())
    return all_states


def _may_be_asked(witness: LakeWitness, state: WitnessState, now: float) -> bool:
    """Return True if a witness is asked now; a time stamp authority is asked once in a while."""
    return witness.authority is None or witness.authority.is_due(state.at, state.tried, now)


def _told(
    storage: LogStorage,
    opened: TransparencyLog,
    witness: LakeWitness,
    state: WitnessState,
    clock: Callable[[], float],
    timeout_seconds: float,
) -> WitnessState:
    since = state.since or int(clock())
    state = replace(state, tried=int(clock()))
    try:
        if witness.authority is None:
            newest = _taken(opened, witness, state.size, timeout_seconds)
        else:
            newest = opened.checkpoint()
            stamp(storage, witness.authority, newest, timeout_seconds=timeout_seconds)
    except InconsistentLog as error:
        log.error("%s. Some readers get another past: stop, and compare with `evenkeel verify --against`", error)
        return replace(state, since=since, fault=str(error), is_inconsistent=True)
    except EvenkeelError as error:
        behind = opened.checkpoint().checkpoint.size - state.size
        log.warning("%s. It is %s behind, and is asked again the next time", error, plural(behind, "leaf", "leaves"))
        return replace(state, since=since, fault=str(error), is_inconsistent=False)
    return WitnessState(witness.name, newest.checkpoint.size, int(clock()), tried=state.tried)


def _taken(opened: TransparencyLog, witness: LakeWitness, known: int, timeout_seconds: float) -> SignedCheckpoint:
    """Return the checkpoint that the witness took, the newest when it did."""
    for left in reversed(range(_TRIES)):
        newest = opened.checkpoint()
        try:
            signatures = _signatures(opened, witness, newest, known, timeout_seconds)
        except InconsistentLog:
            # Another process may have given it a newer one meanwhile.
            if not left or opened.checkpoint().checkpoint.size == newest.checkpoint.size:
                raise
            continue
        if witness.address is not None:
            opened.add_cosignatures(newest, signatures, witness.address.keys)
        return newest
    raise LogError(f"the log {opened.origin} grows too fast to be witnessed")


def _signatures(
    opened: TransparencyLog, witness: LakeWitness, newest: SignedCheckpoint, known: int, timeout_seconds: float
) -> Sequence[NoteSignature]:
    prove = opened.tree(newest.checkpoint).consistency
    if witness.bucket is not None:
        bucket = witness.bucket_of(opened.origin, opened.all_keys, timeout_seconds=timeout_seconds)
        bucket.put(newest, prove, known)
        return ()
    if witness.address is None:
        assert witness.path is not None
        WitnessFile(witness.path, opened.origin, opened.all_keys).append(newest, prove)
        return ()
    given = submit(witness.address, newest, opened.all_keys, prove, known=known, timeout_seconds=timeout_seconds)
    if given.old < known <= newest.checkpoint.size:
        log.warning(
            "the witness %s had cosigned %d leaves and now knew %d: it has lost what it saw, or is another one",
            witness.name, known, given.old,
        )  # fmt: skip
    return given.signatures


def _moment(at: int) -> str:
    return utc_seconds(datetime.fromtimestamp(at, UTC))
