"""The agent's ledger: one SQLite file that outlives every crash of the agent and of its machine.

Write-ahead log with `synchronous=FULL`: once a method has returned, its changes are on disk. One row per command:
`received`, then `sending` (committed before the request is sent), then `settled` with its outcome. Owed reports are
rows of their own, written in the same transaction as the outcome. The file must be on a local disk (a write-ahead log
does not work over NFS) and belongs to one agent at a time.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenkeel.locks import acquired
from evenkeel.steering.agent.admission import LedgerEntry
from evenkeel.steering.agent.setup import LedgerError
from evenkeel.steering.outcome import Outcome
from evenkeel.steering.queue.messages import (
    WITHDRAW,
    AgentReport,
    Control,
    command_body,
    deed,
    read_command,
    report_body,
)
from evenkeel.times import utc_text

if TYPE_CHECKING:
    from filelock import BaseFileLock


KEPT = timedelta(days=30)
MOST_REJECTED = 10_000
"""Most rejected messages that are kept, the newest ones: without a bound a writer to the queue could fill the disk."""
LONGEST_REJECTED = 16_384
_OWED = "SELECT 1 FROM reports WHERE command_id = ? AND sent_at IS NULL"


VERSION = 1
# Added later; earlier agents do not read it, so the version is unchanged.
_WITHDRAWN = """
CREATE TABLE IF NOT EXISTS withdrawn (
    plan_id TEXT PRIMARY KEY, made_at TEXT NOT NULL, by TEXT NOT NULL, reason TEXT NOT NULL
)"""
_TABLES = """
CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE commands (
    command_id TEXT PRIMARY KEY, plan_id TEXT NOT NULL, cycle_at TEXT NOT NULL, step INTEGER NOT NULL,
    bundle TEXT NOT NULL, deed TEXT NOT NULL, body TEXT NOT NULL, expires_at TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('received', 'sending', 'settled')),
    received_at TEXT NOT NULL, tries INTEGER NOT NULL DEFAULT 0, sending_at TEXT,
    outcome TEXT, seen_at TEXT, detail TEXT,
    CHECK ((state = 'settled') = (outcome IS NOT NULL))
);
CREATE INDEX commands_of_bundle ON commands (bundle, cycle_at);
CREATE TABLE reports (
    number INTEGER PRIMARY KEY AUTOINCREMENT, token TEXT NOT NULL UNIQUE, command_id TEXT NOT NULL,
    body TEXT NOT NULL, made_at TEXT NOT NULL, sent_at TEXT
);
CREATE INDEX reports_owed ON reports (sent_at, number);
CREATE INDEX reports_of_command ON reports (command_id);
CREATE TABLE rejected (
    message_id TEXT PRIMARY KEY, at TEXT NOT NULL, reason TEXT NOT NULL, command_id TEXT, body TEXT NOT NULL
);
CREATE TABLE controls (
    number INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, made_at TEXT NOT NULL, by TEXT NOT NULL,
    reason TEXT NOT NULL, UNIQUE (kind, made_at, by, reason)
);
"""


@dataclass(frozen=True, slots=True)
class Owed:
    """A report that is not known to be on the reports queue. `token` keeps its tries apart from other reports."""

    number: int
    token: str
    command_id: str
    body: str


class Ledger:
    """One agent's knowledge of the commands of one cluster, in a file that is opened or made.

    Threads may share it. Raises LedgerError if the file is in use or not fit for use; so does every method if it cannot
    be read or written.
    """

    def __init__(self, path: Path, cluster: str, agent: str) -> None:
        self.agent = agent
        self._path = path
        self._lock = threading.RLock()
        self._owner = _own(path)
        try:
            with self._errors():
                self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute("PRAGMA synchronous=FULL")
                self._prepare(cluster)
        except BaseException:
            self._owner.release()
            raise

    def close(self) -> None:
        """Release the ledger for another agent."""
        with self._lock:
            self._db.close()
            self._owner.release()

    def receive(self, command: Mapping[str, Any], now: datetime) -> bool:
        """Note a command; return False if it was known."""
        row = (
            command["command_id"],
            command["plan_id"],
            utc_text(command["cycle_at"]),
            command["step"],
            command["bundle"],
            deed(command),
            command_body(command),
            utc_text(command["expires_at"]),
            utc_text(now),
        )
        sql = (
            "INSERT INTO commands (command_id, plan_id, cycle_at, step, bundle, deed, body, expires_at, "
            "received_at, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'received') ON CONFLICT DO NOTHING"
        )
        return self._changed(sql, *row) == 1

    def reject(self, message_id: str, body: str, reason: str, report: AgentReport | None, now: datetime) -> None:
        """Note a message that is not a command for this agent, and that this is to be reported if possible.

        Of its body the first 16,384 characters are kept.
        """
        storable = body[:LONGEST_REJECTED].encode("utf-8", "backslashreplace").decode()
        command_id = None if report is None else report.outcome.command_id
        with self._transaction() as db:
            db.execute(
                "INSERT INTO rejected VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (message_id, utc_text(now), reason, command_id, storable),
            )
            if report is not None:
                self._owe(db, report, now)

    def control(self, control: Control) -> bool:
        """Note a control; return False if it was known."""
        is_withdrawal = control.kind == WITHDRAW
        table = "withdrawn" if is_withdrawal else "controls (kind, made_at, by, reason)"
        subject = control.plan_id if is_withdrawal else control.kind
        sql = f"INSERT INTO {table} VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
        return self._changed(sql, subject, utc_text(control.made_at), control.by, control.reason) == 1

    def newest_control(self) -> datetime:
        """Return the time of the control in force."""
        return self._moment("SELECT max(made_at) FROM controls")

    def paused(self) -> str | None:
        """Return who paused the agents and why, or None: the control made last counts, of two at once `pause`."""
        rows = self._rows("SELECT kind, made_at, by, reason FROM controls ORDER BY made_at DESC, kind LIMIT 1")
        if not rows or rows[0][0] != "pause":
            return None
        _, at, by, reason = rows[0]
        return f"paused by {by} at {at}" + (f": {reason}" if reason else "")

    def withdrawn(self, plan_id: str) -> str | None:
        """Return who withdrew the plan and why, or None."""
        rows = self._rows("SELECT made_at, by, reason FROM withdrawn WHERE plan_id = ?", plan_id)
        if not rows:
            return None
        at, by, reason = rows[0]
        return f"withdrawn by {by} at {at}: {reason}"

    def entry(self, command_id: str) -> LedgerEntry:
        """Return the ledger's entry of a received command."""
        rows = self._rows("SELECT state, deed, sending_at FROM commands WHERE command_id = ?", command_id)
        if not rows:
            raise LedgerError(f"the ledger has lost command {command_id}")
        state, known, sending_at = rows[0]
        return LedgerEntry(state, known, None if sending_at is None else datetime.fromisoformat(sending_at))

    def newest_cycle(self, bundle: str) -> datetime:
        """Return the newest cycle of the commands seen for this bundle."""
        return self._moment("SELECT max(cycle_at) FROM commands WHERE bundle = ?", bundle)

    def half_way(self) -> list[dict[str, Any]]:
        """Return the commands whose request may have been sent, without further knowledge, oldest first."""
        rows = self._rows("SELECT body FROM commands WHERE state = 'sending' ORDER BY cycle_at, step")
        return [read_command(body) for (body,) in rows]

    def sending(self, command_id: str, now: datetime) -> None:
        """Note that the request is sent next. Not a second time: a command half-way must be released first."""
        sql = (
            "UPDATE commands SET state = 'sending', sending_at = ?, tries = tries + 1 "
            "WHERE command_id = ? AND state = 'received'"
        )
        if self._changed(sql, utc_text(now), command_id) != 1:
            raise LedgerError(f"command {command_id} is not waiting to be sent; nothing was sent")

    def release(self, command_id: str) -> None:
        """Note that a request that may have been sent had no effect, so that the command may be sent."""
        self._changed("UPDATE commands SET state = 'received' WHERE command_id = ? AND state = 'sending'", command_id)

    def settle(self, outcome: Outcome, now: datetime) -> bool:
        """Note the outcome, and that it is to be reported; return False (and note nothing) if there was one already."""
        with self._transaction() as db:
            changed = db.execute(
                "UPDATE commands SET state = 'settled', outcome = ?, seen_at = ?, detail = ? "
                "WHERE command_id = ? AND state <> 'settled'",
                (outcome.outcome, utc_text(outcome.seen_at), outcome.detail, outcome.command_id),
            )
            if changed.rowcount == 1:
                self._owe(db, self._report(db, outcome.command_id), now)
            return changed.rowcount == 1

    def report_again(self, command_id: str, now: datetime) -> None:
        """Note that a settled command is to be reported once more, unless a report of it is still owed."""
        with self._transaction() as db:
            if db.execute(_OWED, (command_id,)).fetchone() is None:
                self._owe(db, self._report(db, command_id), now)

    def settle_forgotten(self, now: datetime, expired_before: datetime) -> list[str]:
        """Settle commands that were tried without effect, were not delivered again, and have long expired."""
        rows = self._rows(
            "SELECT command_id FROM commands WHERE state = 'received' AND tries > 0 AND expires_at < ?",
            utc_text(expired_before),
        )
        detail = "expired; a request that may have gone out had no effect, and the queue did not deliver it again"
        return [command_id for (command_id,) in rows if self.settle(Outcome(command_id, "stale", now, detail), now)]

    def owed(self, most: int) -> list[Owed]:
        """Return reports that are not known to be on the reports queue, oldest first."""
        sql = "SELECT number, token, command_id, body FROM reports WHERE sent_at IS NULL ORDER BY number LIMIT ?"
        return [Owed(*row) for row in self._rows(sql, most)]

    def paid(self, numbers: Sequence[int], now: datetime) -> None:
        """Note that reports are on the reports queue."""
        with self._transaction() as db:
            rows = [(utc_text(now), number) for number in numbers]
            db.executemany("UPDATE reports SET sent_at = ? WHERE number = ?", rows)

    def owes(self, command_id: str) -> bool:
        """Return True if a report of this command is owed."""
        return bool(self._rows(_OWED, command_id))

    def forget_old(self, now: datetime) -> None:
        """Remove entries finished 30 days ago: no queue keeps a message for longer than 14."""
        before = utc_text(now - KEPT)
        with self._transaction() as db:
            db.execute("DELETE FROM reports WHERE sent_at < ?", (before,))
            db.execute(
                "DELETE FROM commands WHERE received_at < ? AND expires_at < ? AND state <> 'sending' "
                "AND command_id NOT IN (SELECT command_id FROM reports)",
                (before, before),
            )
            db.execute("DELETE FROM withdrawn WHERE made_at < ?", (before,))
            db.execute("DELETE FROM rejected WHERE at < ?", (before,))
            db.execute(
                "DELETE FROM rejected WHERE message_id IN "
                "(SELECT message_id FROM rejected ORDER BY at DESC, message_id LIMIT -1 OFFSET ?)",
                (MOST_REJECTED,),
            )

    def _owe(self, db: sqlite3.Connection, report: AgentReport, now: datetime) -> None:
        db.execute(
            "INSERT INTO reports (token, command_id, body, made_at) VALUES (?, ?, ?, ?)",
            (uuid.uuid4().hex, report.outcome.command_id, report_body(report), utc_text(now)),
        )

    def _report(self, db: sqlite3.Connection, command_id: str) -> AgentReport:
        sql = "SELECT outcome, seen_at, detail, body FROM commands WHERE command_id = ?"
        outcome, seen_at, detail, body = db.execute(sql, (command_id,)).fetchone()
        command = read_command(body)
        settled = Outcome(command_id, outcome, datetime.fromisoformat(seen_at), detail)
        return AgentReport(settled, self.agent, command["cluster"], command["plan_id"], command["cycle_at"])

    def _prepare(self, cluster: str) -> None:
        with self._transaction() as db:
            if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchone():
                for statement in filter(str.strip, _TABLES.split(";\n")):
                    db.execute(statement)
                about = [("version", str(VERSION)), ("cluster", cluster), ("ledger", uuid.uuid4().hex)]
                db.executemany("INSERT INTO about VALUES (?, ?)", about)
            db.execute(_WITHDRAWN)
            known = dict(db.execute("SELECT name, value FROM about"))
        if known.get("version") != str(VERSION):
            raise LedgerError(f"ledger {self._path} is of version {known.get('version')}; this agent reads {VERSION}")
        if known["cluster"] != cluster:
            raise LedgerError(
                f"ledger {self._path} belongs to cluster {known['cluster']!r}, not to {cluster!r}: give this agent one "
                "of its own (--ledger)"
            )

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        """Return all rows of a query; raises LedgerError if the file cannot be read."""
        with self._lock, self._errors():
            return self._db.execute(sql, values).fetchall()

    def _moment(self, sql: str, *values: Any) -> datetime:
        """Return the only moment of a query; one before all others if it has none."""
        ((text,),) = self._rows(sql, *values)
        return datetime.fromisoformat(text) if text else datetime.min.replace(tzinfo=UTC)

    def _changed(self, sql: str, *values: Any) -> int:
        """Carry a statement out in a transaction of its own, and return how many rows it changed."""
        with self._transaction() as db:
            return db.execute(sql, values).rowcount

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Hold a transaction, all or nothing; raises LedgerError if the file cannot be written."""
        with self._lock, self._errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise LedgerError(
                f"ledger {self._path}: {error}. Nothing is sent without it; see to the disk and start the agent again."
            ) from error


def _own(path: Path) -> BaseFileLock:
    """Take the lock beside the ledger, whose files only its user may read; its file holds the id of this process."""
    lock_file = Path(f"{path}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = acquired(lock_file, mode=0o600, on_acquired=_write_pid)
        path.touch(mode=0o600)
        for file in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
            file.chmod(0o600) if file.exists() else None  # an earlier version let others read them
    except OSError as error:
        raise LedgerError(
            f"ledger {path} cannot be made or opened: {error.strerror}. Name another (--ledger)."
        ) from None
    if lock is None:
        owner = lock_file.read_bytes()[:20].decode("ascii", "replace").strip() or "unknown"
        raise LedgerError(f"ledger {path} is in use by another agent (pid {owner}): end that one")
    return lock


def _write_pid(lock: int) -> None:
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
