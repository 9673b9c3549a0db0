"""A cgroup for each broker, so that brokers of one machine differ in CPU usage as brokers of several do.

A broker reports the usage of the cgroup it runs in, measured against that cgroup's limit (LinuxInfoUtils). Works as
root with version 1 of cgroups; without, every broker reports the machine's usage.
"""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
CONTROLLERS = ("cpu", "cpuacct")
PERIOD_MICROSECONDS = 100_000


def available() -> bool:
    """Return True if this machine lets us make them."""
    folders = [ROOT / controller for controller in CONTROLLERS]
    return os.geteuid() == 0 and all((folder / "tasks").exists() and os.access(folder, os.W_OK) for folder in folders)


def make(name: str) -> list[Path]:
    """The folders of a group without a limit, one for each controller.

    A process joins by writing its id into their `cgroup.procs`; its keeper removes them when it has ended.
    """
    folders = [ROOT / controller / name for controller in CONTROLLERS]
    for folder in folders:
        folder.mkdir(exist_ok=True)
    _put_quota(name, -1)  # start-up is not to be slowed down
    return folders


def limit(name: str, percent: int) -> None:
    """Limit the group to `percent` of one core."""
    _put_quota(name, percent * PERIOD_MICROSECONDS // 100)


def _put_quota(name: str, microseconds: int) -> None:
    folder = ROOT / CONTROLLERS[0] / name
    (folder / "cpu.cfs_period_us").write_text(str(PERIOD_MICROSECONDS))
    (folder / "cpu.cfs_quota_us").write_text(str(microseconds))
