"""A PostgreSQL of a test's own on a free port of this machine; a test on a machine without one is skipped."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evenkeel.spark.server import free_port
from tests.left_out import POSTGRESQL, lacking

_PROGRAMS = Path("/usr/lib/postgresql")


@dataclass(frozen=True, slots=True)
class Postgres:
    """A server that takes connections: its data in `folder`, on loopback alone."""

    folder: Path
    programs: Path
    port: int

    @property
    def url(self) -> str:
        """Where Airflow finds it."""
        return f"postgresql+psycopg2://airflow@127.0.0.1:{self.port}/postgres"

    def asked(self, query: str, *values: Any) -> list[list[Any]]:
        """The rows that a query gives."""
        import psycopg2

        connection = psycopg2.connect(self.url.replace("+psycopg2", ""))
        try:
            with connection.cursor() as cursor:
                cursor.execute(query, values)
                return [list(row) for row in cursor.fetchall()]
        finally:
            connection.close()

    def schedulers(self) -> list[int]:
        """Jobs of Airflow's schedulers that are at work, oldest first."""
        words = "SELECT id FROM job WHERE job_type = 'SchedulerJob' AND state = 'running' ORDER BY id"
        return [int(row[0]) for row in self.asked(words)]

    def restart(self) -> None:
        """Ends all connections and starts the server again on the same port; returns once it takes new ones."""
        self.control("-w", "-m", "fast", "-l", str(self.folder / "log"), "-o", self._options, "restart")

    def control(self, *words: str, check: bool = True) -> None:
        """Runs `pg_ctl` on this server."""
        command = _command(self.programs, self.folder, "pg_ctl", *words)
        subprocess.run(command, check=check, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    @property
    def _options(self) -> str:
        return f"-c listen_addresses=127.0.0.1 -c port={self.port} -c unix_socket_directories= -c fsync=off"

    def start(self) -> None:
        """Starts it in its empty folder."""
        words = _command(self.programs, self.folder, "initdb", "-A", "trust", "-U", "airflow")
        subprocess.run(words, check=True, capture_output=True)
        self.control("-w", "-l", str(self.folder / "log"), "-o", self._options, "start")


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A server for a `with` block; skips the test where PostgreSQL is not installed."""
    programs = sorted(_PROGRAMS.glob("*/bin"))
    if not programs:
        pytest.skip(lacking(POSTGRESQL))
    folder = Path(tempfile.mkdtemp(prefix="evenkeel-postgres-"))
    if _as_root():
        shutil.chown(folder, "postgres")
    server = Postgres(folder, programs[-1], free_port())
    try:
        server.start()
        yield server
    finally:
        server.control("-m", "immediate", "stop", check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _as_root() -> bool:
    return os.getuid() == 0


def _command(programs: Path, folder: Path, name: str, *words: str) -> list[str]:
    other = ["runuser", "-u", "postgres", "--"] if _as_root() else []  # it refuses to run as root
    return [*other, str(programs / name), "-D", str(folder / "data"), *words]
