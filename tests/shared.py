"""What the processes of one test run share: a folder, with the home of the Spark Connect server and an empty lake.

`make test` starts a process per core. The first of them that needs something makes it, under a lock, for all of them.
"""

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

from filelock import FileLock

RUN_VARIABLE = "EVENKEEL_TESTS_RUN"
WORKER_VARIABLE = "PYTEST_XDIST_WORKER"


@cache
def run_folder() -> Path:
    """The folder of this run. The process that begins the run makes and removes it and names it in the environment."""
    if WORKER_VARIABLE in os.environ and RUN_VARIABLE in os.environ:
        return Path(os.environ[RUN_VARIABLE])
    folder = Path(tempfile.mkdtemp(prefix="evenkeel-tests-"))
    os.environ[RUN_VARIABLE] = str(folder)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def made_once(name: str, make: Callable[[Path], object]) -> Path:
    """A folder that `make` fills once in a run; other processes wait for it. What raised is tried again by the next."""
    folder = run_folder() / name
    with FileLock(run_folder() / f"{name}.lock"):
        if not folder.exists():
            part = run_folder() / f"{name}.part"
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            make(part)
            part.replace(folder)
    return folder
