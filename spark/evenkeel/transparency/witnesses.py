"""The witnesses of a lake's log, as an operator names them, and the state of each: how far behind, since when.

A witness that cannot be reached stops nothing: it gets the newest checkpoint the next time. One that has seen another
tree reports it, and that is recorded beside the log until it cosigns again.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from evenkeel.errors import BadInput, BadNote, EvenkeelError, InconsistentLog, LogError, SettingsError
from evenkeel.json_text import NotJson, parse_json
from evenkeel.model.amounts import plural
from evenkeel.object_store import SCHEME, access, load_client
from evenkeel.secret import content_of
from evenkeel.settings.operation import ENVIRONMENT
from evenkeel.times import utc_seconds
from evenkeel.transparency import WITNESSES
from evenkeel.transparency.kept_checkpoints import BucketPlace, WitnessBucket, WitnessFile
from evenkeel.transparency.keys import COSIGNATURE, IN_FILE, NoteSignature, VerifierKey, shown
from evenkeel.transparency.log import TransparencyLog
from evenkeel.transparency.notes import SignedCheckpoint
from evenkeel.transparency.storage import LogStorage
from evenkeel.transparency.time_stamp import DEFAULT_EVERY, StampAuthority, rfc3161_library, stamp
from evenkeel.transparency.witness_client import WitnessAddress, submit

STAMP = "rfc3161"
"""First word of the line of a time stamp authority."""
BUCKET = "s3://"
"""Prefix of the line of a bucket."""
_USER = re.compile(r"//[^/\s]*@")
_RETAIN = re.compile(r"retain_days=([1-9][0-9]{0,5})")
_PERIOD = re.compile(r"([1-9][0-9]{0,5})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_LEAST_EVERY = 300


@dataclass(frozen=True, slots=True)
class LakeWitness:
    """A witness of a lake's log.

    It is a server at an address, a file or a bucket that keeps every checkpoint, or an authority that stamps some of
    them with the time. `name` is the given URL or path; one of `address`, `path`, `authority` and `bucket` is set.
    """

    name: str
    address: WitnessAddress | None = None
    path: Path | None = None
    authority: StampAuthority | None = None
    bucket: BucketPlace | None = None

    def load_libraries(self) -> None:
        """Import the client of the witness. For callers that start threads: two must not import one package at once."""
        if self.bucket is not None:
            load_client(SCHEME)
        if self.authority is not None:
            with suppress(SettingsError):  # a missing one is reported with the witness's answer
                rfc3161_library()

    def bucket_of(
        self, origin: str, log_keys: Collection[VerifierKey], *, timeout_seconds: float = 30.0
    ) -> WitnessBucket:
        """Return the checkpoints of a log in the bucket; raises SettingsError if no keys of the store are found."""
        assert self.bucket is not None
        client = access(what=f"the witness {self.name}").for_boto(timeout_seconds=timeout_seconds, tries=2)
        return WitnessBucket(client, self.bucket, origin, log_keys)


def witnesses_from_environment(environment: Mapping[str, str] = ENVIRONMENT) -> tuple[LakeWitness, ...]:
    """Return the witnesses that `EVENKEEL_WITNESSES` names; none if it is not set."""
    text = environment.get(WITNESSES, "")
    return witnesses_of(text, WITNESSES) if text.strip() else ()


def witnesses_of(text: str, place: str) -> tuple[LakeWitness, ...]:
    """Return the witnesses in a text, or in the file that `file:PATH` names: one a line (or separated by commas).

    A line has one of these forms; lines that begin with `#` are passed over:

    - `<vkey> <URL>`.
    - The path of a file that keeps every checkpoint.
    - `s3://<bucket>/<prefix>` of a bucket with Object Lock, optionally with `retain_days=<number>`.
    - `rfc3161 <URL> ca_file=<path>`, optionally with `every=<number><s, m, h or d>` and `plain_http=true`.

    Raises SettingsError, which names the place and the line.
    """
    if text.startswith(IN_FILE):
        text = content_of(text.removeprefix(IN_FILE).strip(), place)
    lines = [line.strip() for line in re.split(r"[,\n]", text)]
    witnesses = tuple(_witness(line, place) for line in lines if line and not line.startswith("#"))
    if len({witness.name for witness in witnesses}) < len(witnesses):
        raise SettingsError(f"{place} names a witness twice")
    return witnesses


def _witness(line: str, place: str) -> LakeWitness:
    vkey, blank, url = line.rpartition(" ")
    try:
        if line.split()[0] == STAMP:
            return _authority(line.split()[1:])
        if line.startswith(BUCKET):
            return _bucket(line.split())
        if not blank and "://" not in line:
            return LakeWitness(line, path=Path(line))
        if not vkey or urlsplit(url).scheme not in ("http", "https"):
            raise BadNote(
                "a line is `<verifier key> <URL>`, `rfc3161 <URL> ca_file=PATH`, `s3://BUCKET/PREFIX`, or the path of "
                "a file"
            )
        key = VerifierKey.read(vkey)
        if key.kind != COSIGNATURE:
            raise BadNote("the key is one of a log, and not of a witness")
        return LakeWitness(url, WitnessAddress(url, (key,)))
    except (BadInput, ValueError) as error:
        line = _USER.sub("//…@", line)  # the part of a URL that may be secret
        raise SettingsError(f"{place}: the witness {shown(line)} cannot be read: {error}") from None


def _bucket(words: list[str]) -> LakeWitness:
    """Return the bucket that a line names."""
    url, *options = words
    days = _RETAIN.fullmatch(options[0]) if options else None
    if len(options) > 1 or (options and days is None):
        raise BadInput("a line is `s3://BUCKET/PREFIX`, with `retain_days=NUMBER` as one likes")
    return LakeWitness(url, bucket=BucketPlace(url) if days is None else BucketPlace(url, int(days[1])))


def _authority(words: list[str]) -> LakeWitness:
    """Return the time stamp authority that the words after `rfc3161` name."""
    url, *options = words or [""]
    given = dict(option.partition("=")[::2] for option in options)
    every, plain = given.pop("every", f"{DEFAULT_EVERY}s"), given.pop("plain_http", "false")
    ca_file, period = given.pop("ca_file", ""), _PERIOD.fullmatch(every)
    if not ca_file or given or len(options) > len({option.partition("=")[0] for option in options}):
        raise BadInput(f"a line is `{STAMP} <URL> ca_file=PATH`, and each of every= and plain_http= once at most")
    if period is None or (seconds := int(period[1]) * _SECONDS[period[2]]) < _LEAST_EVERY:
        raise BadInput(f"every={shown(every)}: write 1h, 90m or 1d; {_LEAST_EVERY}s is the least")
    if plain not in ("true", "false"):
        raise BadInput(f"plain_http={shown(plain)}: write true or false")
    return LakeWitness(url, authority=StampAuthority(url, Path(ca_file), seconds, plain == "true"))


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
        if (state.size != size or state.fault)
        and (witness.authority is None or witness.authority.is_due(state.at, state.tried, clock()))
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
