"""A separate AIRFLOW_HOME: folders, secrets, settings, and the module that Airflow imports in every process.

It uses nothing of the user's own Airflow: variables that start with AIRFLOW are not inherited.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from evenkeel.airflow.order import AirflowError
from evenkeel.spark.code import source_root

HOST = "127.0.0.1"
USER = "admin"
MIGRATE_SECONDS = 180.0
SPARK_CONNECTION = "AIRFLOW_CONN_EVENKEEL_SPARK"


@dataclass(frozen=True, slots=True)
class Wiring:
    """The inputs of this Airflow.

    `checkout` contains `dags/` and `plugins/`; `connection` is the value of the Spark connection (a URI or JSON);
    `lake` the root of the tables; `configuration` the file with the clusters; `schedule` a cron expression or `none`;
    `users` are further users as `name:role` beside the admin; `upkeep` and `heat` are the schedules of the DAGs of
    these names; `mode_limit` is the highest mode of a run. `variables`: further ones of the processes' environment.
    """

    checkout: Path
    connection: str
    lake: str
    configuration: Path | None = None
    schedule: str = "none"
    users: tuple[str, ...] = ()
    upkeep: str = "none"
    heat: str = "none"
    mode_limit: str = "dry_run"
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AirflowHome:
    """The folder of one Airflow."""

    folder: Path

    @classmethod
    def of(cls, folder: Path | str) -> AirflowHome:
        """The home in this folder, created if need be, readable by its owner only."""
        home = cls(Path(folder).resolve())
        (home.folder / "config").mkdir(parents=True, exist_ok=True)
        home.logs.mkdir(exist_ok=True)
        home.folder.chmod(0o700)
        preload = resources.files("evenkeel.airflow").joinpath("preload.py").read_text(encoding="utf-8")
        (home.folder / "config" / "airflow_local_settings.py").write_text(preload, encoding="utf-8")
        return home

    @property
    def logs(self) -> Path:
        """The folder of Airflow's logs."""
        return self.folder / "logs"

    @property
    def _passwords(self) -> Path:
        return self.folder / "passwords.json"

    def password(self, user: str = USER) -> str:
        """The user's password, made up at first need."""
        known = _read_json(self._passwords)
        if user not in known:
            known[user] = secrets.token_urlsafe(12)
            _write_private(self._passwords, known)
        return known[user]

    def _keys(self) -> dict[str, str]:
        """The keys of this Airflow: the same for all its processes, and at the next start."""
        file = self.folder / "keys.json"
        known = _read_json(file)
        if not known:
            known = {
                "AIRFLOW__CORE__FERNET_KEY": base64.urlsafe_b64encode(secrets.token_bytes(32)).decode(),
                "AIRFLOW__API__SECRET_KEY": secrets.token_urlsafe(32),
                "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_urlsafe(48),
            }
            _write_private(file, known)
        return known

    def environment(self, wiring: Wiring, port: int) -> dict[str, str]:
        """The environment of all processes of this Airflow, serving on 127.0.0.1:`port`."""
        users = (f"{USER}:admin", *wiring.users)
        for user in users:
            self.password(user.partition(":")[0])
        variables = {
            "AIRFLOW_HOME": str(self.folder),
            "AIRFLOW__CORE__DAGS_FOLDER": str(wiring.checkout / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(wiring.checkout / "plugins"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
            "AIRFLOW__CORE__PARALLELISM": "4",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(users),
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self._passwords),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://{HOST}:{port}/execution/",
            # Together with the preload this makes a task start in 0.1 s instead of 0.6; neither does much alone.
            "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
            "AIRFLOW__API__HOST": HOST,
            "AIRFLOW__API__PORT": str(port),
            "AIRFLOW__API__BASE_URL": f"http://{HOST}:{port}",
            "AIRFLOW__API__WORKERS": "1",
            # It answers on this machine only. A caller has to distinguish an error of the database from its own.
            "AIRFLOW__API__EXPOSE_STACKTRACE": "True",
            "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
            SPARK_CONNECTION: wiring.connection,
            "EVENKEEL_LAKE": wiring.lake,
            "EVENKEEL_SCHEDULE": wiring.schedule,
            "EVENKEEL_UPKEEP_SCHEDULE": wiring.upkeep,
            "EVENKEEL_HEAT_SCHEDULE": wiring.heat,
            "EVENKEEL_MODE_LIMIT": wiring.mode_limit,
            "PYTHONPATH": str(source_root()),
            "PYSPARK_PYTHON": sys.executable,  # a classic master's workers would take whatever python3 is on the path
            "PYTHONUNBUFFERED": "1",
            "GX_ANALYTICS_ENABLED": "false",
            "NO_COLOR": "1",
            "TZ": "UTC",
            **self._keys(),
        }
        if wiring.configuration is not None:
            variables["EVENKEEL_CONFIG"] = str(wiring.configuration)
        return {**_inherited(), **variables, **wiring.variables}

    def migrate(self, environment: dict[str, str]) -> None:
        """Create Airflow's own database, or bring it up to date."""
        log = self.logs / "migrate.log"
        with log.open("w") as file:
            done = subprocess.run(
                [sys.executable, "-m", "airflow", "db", "migrate"],
                env=environment,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                timeout=MIGRATE_SECONDS,
                check=False,
            )
        if done.returncode != 0:
            raise AirflowError(f"`airflow db migrate` failed in {self.folder}. {tail(log)}")


def tail(log: Path, lines: int = 6) -> str:
    """The end of a log, for an error's text."""
    try:
        text = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return f"There is no log {log}."
    return f"Its log {log} ends with:\n" + "\n".join([line for line in text if line.strip()][-lines:])


def _inherited() -> dict[str, str]:
    schedules = ("EVENKEEL_SCHEDULE", "EVENKEEL_HISTORY_SCHEDULE", "EVENKEEL_UPKEEP_SCHEDULE")
    ours = ("EVENKEEL_LAKE", "EVENKEEL_CONFIG", *schedules, "EVENKEEL_MODE")
    foreign = ("AIRFLOW", *ours, "SPARK_", "PYSPARK_", "PYTHON")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)}


def _read_json(file: Path) -> dict[str, str]:
    try:
        return dict(json.loads(file.read_text(encoding="utf-8")))
    except (FileNotFoundError, json.JSONDecodeError):
        return {}


def _write_private(file: Path, body: dict[str, str]) -> None:
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        json.dump(body, out)
