"""A witness that is a file elsewhere: every published checkpoint, one line of JSON each.

It signs nothing. It is worth as much as its place is out of the reach of the log's writers: another host's disk, or a
store that keeps its files. It accepts only checkpoints that have grown from its last line.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from evenkeel.errors import BadNote, DamagedLog, InconsistentLog, WitnessError
from evenkeel.folders import make_folder, sync
from evenkeel.json_text import NotJson, parse_json
from evenkeel.locks import held
from evenkeel.times import utc_text
from evenkeel.transparency.keys import VerifierKey, shown
from evenkeel.transparency.merkle import is_consistent
from evenkeel.transparency.notes import MOST_BYTES, SignedCheckpoint, open_checkpoint
from evenkeel.transparency.witness_client import Prove

log = logging.getLogger(__name__)

_TAIL_BYTES = 3 * MOST_BYTES  # a line: a note, whose line feeds and dashes are longer in JSON
_WAIT_SECONDS = 30.0


class WitnessFile:
    """The checkpoints of one log in a file, which is made with the first."""

    def __init__(
        self,
        path: Path,
        origin: str,
        log_keys: Collection[VerifierKey],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._origin = origin
        self._log_keys = log_keys
        self._clock = clock

    def latest(self) -> SignedCheckpoint | None:
        """Return the last checkpoint in the file; None if there is none.

        Raises DamagedLog if its line is not a checkpoint that a key of the log has signed.
        """
        try:
            with self._path.open("rb") as file:
                return self._last(file)[0]
        except FileNotFoundError:
            return None

    def append(self, checkpoint: SignedCheckpoint, prove: Prove) -> bool:
        """Append a checkpoint durably; return False if the file ends with it already.

        Raises InconsistentLog, with both sizes and roots, if it has not grown from the last line, BadNote if no key of
        the log has signed it, and WitnessError if the file cannot be written, or is held by another process.
        """
        open_checkpoint(checkpoint.note.data, self._origin, self._log_keys)
        try:
            return self._appended(checkpoint, prove)
        except OSError as error:
            raise WitnessError(f"the file of checkpoints {self._path} cannot be written: {error.strerror}") from None

    def _appended(self, checkpoint: SignedCheckpoint, prove: Prove) -> bool:
        make_folder(self._path.parent)
        lock = self._path.with_name(f"{self._path.name}.lock")
        with held(lock, wait_seconds=_WAIT_SECONDS) as is_ours:
            if not is_ours:
                raise WitnessError(f"the file of checkpoints {self._path} is held by another process: run this again")
            is_there = self._path.exists()
            with self._path.open("r+b" if is_there else "x+b") as file:
                last, end = self._last(file)
                if last is not None and last.note.text == checkpoint.note.text:
                    return False
                self._demand_grown(last, checkpoint, prove)
                file.truncate(end)
                file.seek(end)
                file.write(self._line(checkpoint))
                file.flush()
                os.fsync(file.fileno())
            if not is_there:
                sync(self._path.parent)
        return True

    def _line(self, checkpoint: SignedCheckpoint) -> bytes:
        at = utc_text(datetime.fromtimestamp(int(self._clock()), UTC))
        return json.dumps({"at": at, "checkpoint": checkpoint.note.data.decode()}).encode() + b"\n"

    def _demand_grown(self, last: SignedCheckpoint | None, checkpoint: SignedCheckpoint, prove: Prove) -> None:
        if last is None:
            return
        old, new = last.checkpoint, checkpoint.checkpoint
        if old.size > new.size:
            raise InconsistentLog(
                f"{self._path} has the log {shown(self._origin)} at {old.words}, and now it is given {new.words}: the "
                "log was set back to an earlier state, or a second signer uses its key"
            )
        if not is_consistent(old.size, new.size, old.root, new.root, prove(old.size, new.size)):
            raise InconsistentLog(
                f"split view: {self._path} has the log {shown(self._origin)} at {old.words}, and {new.words} has not "
                "grown from that"
            )

    @staticmethod
    def notes_in(data: bytes) -> Iterator[bytes]:
        """Yield the signed notes in the content of such a file, without verification.

        Raises BadNote if a line holds none; a cut line after the last line feed is passed over.
        """
        for line in data.rpartition(b"\n")[0].split(b"\n"):
            try:
                body = parse_json(line, depth=2, values=100)
                yield body["checkpoint"].encode()
            except (NotJson, KeyError, TypeError, AttributeError, UnicodeEncodeError):
                raise BadNote(f"a line that holds no checkpoint: {line[:80]!a}") from None

    def _last(self, file: BinaryIO) -> tuple[SignedCheckpoint | None, int]:
        """Return the last whole line's checkpoint, and the end of that line; a rest behind it does not count."""
        size = file.seek(0, os.SEEK_END)
        begin = max(size - _TAIL_BYTES, 0)
        file.seek(begin)
        whole, feed, cut = file.read(_TAIL_BYTES).rpartition(b"\n")
        if cut:
            log.warning("%s ends in a line that was cut: it was never acknowledged, and is passed over", self._path)
        if not feed:
            if begin:
                raise DamagedLog(f"{self._path}: its last line is longer than any checkpoint")
            return None, 0
        try:
            (note,) = self.notes_in(whole.rpartition(b"\n")[2] + feed)
            return open_checkpoint(note, self._origin, self._log_keys), size - len(cut)
        except BadNote as error:
            raise DamagedLog(f"{self._path}: its last line is not a checkpoint of the log: {error}") from None
