"""Says by its exit code whether what a container runs is well: for HEALTHCHECK and for probes of Kubernetes.

health.py port N              something accepts connections on 127.0.0.1:N
health.py airflow PART ...    the API server on 127.0.0.1:8080 calls all these parts healthy (metadatabase, scheduler,
                              dag_processor, triggerer)
health.py agent               an agent holds its ledger: it does from its start until its first failure

Needs nothing but Python.
"""

import json
import os
import re
import socket
import sys
import urllib.request
from pathlib import Path

TIMEOUT_SECONDS = 4
AIRFLOW_HEALTH = "http://127.0.0.1:8080/api/v2/monitor/health"
LOCKS = Path("/proc/locks")
HELD = re.compile(r"^\d+: FLOCK .*:(\d+) \d+ EOF$", re.MULTILINE)


def port(number: str) -> str | None:
    """What is wrong with the port, or None."""
    try:
        socket.create_connection(("127.0.0.1", int(number)), TIMEOUT_SECONDS).close()
    except OSError as error:
        return f"port {number}: {error}"
    return None


def airflow(*parts: str) -> str | None:
    """What is wrong with these parts of Airflow, or None."""
    try:
        with urllib.request.urlopen(AIRFLOW_HEALTH, timeout=TIMEOUT_SECONDS) as answer:
            states = json.load(answer)
    except (OSError, ValueError) as error:
        return f"{AIRFLOW_HEALTH}: {error}"
    ill = [part for part in parts if (states.get(part) or {}).get("status") != "healthy"]
    return f"not healthy: {', '.join(ill)}" if ill else None


def agent() -> str | None:
    """Why no agent is at work here, or None. Taking the lock to see whether it is free could keep one from starting."""
    folder = Path(os.environ.get("EVENKEEL_HOME", ".")) / ".evenkeel" / "agent"
    held = {int(inode) for inode in HELD.findall(LOCKS.read_text())}
    if any(lock.stat().st_ino in held for lock in folder.glob("*.db.lock")):
        return None
    return f"no ledger in {folder} is held by an agent"


CHECKS = {"port": port, "airflow": airflow, "agent": agent}

if __name__ == "__main__":
    sys.exit(CHECKS[sys.argv[1]](*sys.argv[2:]))
