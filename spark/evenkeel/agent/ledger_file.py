"""The file under the ledger: opened by one process at a time, made if missing, written in whole transactions."""

from __future__ import annotations

import os
import sqlite3
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenkeel.agent.errors import LedgerError
from evenkeel.locks import acquired

if TYPE_CHECKING:
    from filelock import BaseFileLock

VERSION = 1
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


class LedgerFile:
    """Opens or makes the ledger file of one cluster; raises LedgerError where it is in use or not fit for use.

    Write-ahead log with `synchronous=FULL`: a transaction that was left is on disk. Safe to be shared by threads.
    """

    def __init__(self, path: Path, cluster: str) -> None:
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
        """Gives the ledger free for another agent."""
        with self._lock:
            self._db.close()
            self._owner.release()

    def _prepare(self, cluster: str) -> None:
        with self.transaction() as db:
            if not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'about'").fetchone():
                for statement in filter(str.strip, _TABLES.split(";\n")):
                    db.execute(statement)
                about = [("version", str(VERSION)), ("cluster", cluster), ("ledger", uuid.uuid4().hex)]
                db.executemany("INSERT INTO about VALUES (?, ?)", about)
            known = dict(db.execute("SELECT name, value FROM about"))
        if known.get("version") != str(VERSION):
            raise LedgerError(f"ledger {self._path} is of version {known.get('version')}; this agent reads {VERSION}")
        if known["cluster"] != cluster:
            raise LedgerError(
                f"ledger {self._path} belongs to cluster {known['cluster']!r}, not to {cluster!r}: give this agent one "
                "of its own (--ledger)"
            )

    def rows(self, sql: str, *values: Any) -> list[Any]:
        """All rows of a query; LedgerError where the file cannot be read."""
        with self._lock, self._errors():
            return self._db.execute(sql, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing; LedgerError where the file cannot be written."""
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
    """Takes the lock beside the ledger; its file holds the id of this process."""
    lock_file = Path(f"{path}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = acquired(lock_file, mode=0o600, on_acquired=_write_pid)
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
