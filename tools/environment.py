"""Sets this checkout up: `.venv` with everything pinned, the project itself, and the jars of Delta and of S3.

Needs Python 3.11, 3.12 or 3.13 and nothing else: run by `make setup` before any package is there. A second run finds
the stamps of the first and does nothing, without a network. Packages come through pip, which honours the user's own
configuration.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
LOCKS = {"runtime": ROOT / "requirements.txt", "dev": ROOT / "requirements-dev.txt"}
PYTHONS = ((3, 11), (3, 13))
"""The oldest and the newest minor version of Python that Evenkeel was tried with."""
SAY_EVERY_SECONDS = 10.0
STARTED = time.monotonic()


def main() -> int:
    """Brings `.venv` to the state that the lock files ask for."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--dev", action="store_true", help="with what tests and checks need")
    wanted = "dev" if options.parse_args().dev else "runtime"
    demand_python()
    with alone():
        if not is_usable(VENV):
            create_venv()
        if not is_stamped(wanted):
            install(wanted)
        elif not is_installed_as(project_version()):
            install_project()
        fetch_jars()
    return 0


def demand_python() -> None:
    if not PYTHONS[0] <= sys.version_info[:2] <= PYTHONS[1]:
        give_up(
            f"This is Python {sys.version.split()[0]}, Evenkeel needs 3.11, 3.12 or 3.13: "
            "make setup PYTHON=/path/to/python3.11"
        )
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        give_up("This Python lacks its venv module; on Debian and Ubuntu: apt-get install python3-venv")


@contextmanager
def alone() -> Iterator[None]:
    """Waits for another set-up of this checkout to end."""
    folder = ROOT / ".evenkeel"
    folder.mkdir(exist_ok=True)
    with (folder / "setup.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another set-up of this checkout is under way: waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def is_usable(folder: Path) -> bool:
    """Return True if the environment runs, has this Python's minor version, and was made for this path."""
    python = folder / "bin" / "python"
    if not os.access(python, os.X_OK):
        return False
    code = "import sys, pip; print(sys.version_info[:2], sys.prefix)"
    answer = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False).stdout.strip()
    scripts_fit = str(folder) in (folder / "bin" / "activate").read_text(encoding="utf-8")
    return answer == f"{sys.version_info[:2]} {folder}" and scripts_fit


def create_venv() -> None:
    if VENV.is_symlink():
        say(f"{VENV} is a link to an environment that does not run here: removing the link and making one of its own")
        VENV.unlink()
    elif VENV.exists():
        say(f"{VENV} does not run here (another Python, or the folder was moved): making it anew")
        shutil.rmtree(VENV)
    say(f"making {VENV}")
    run([sys.executable, "-m", "venv", str(VENV)], "Could not make the virtual environment")


def stamp(wanted: str) -> Path:
    return VENV / f".evenkeel-{wanted}"


def fingerprint(wanted: str) -> str:
    """What the environment was made from. The project is linked, not copied, so its code does not count."""
    digest = hashlib.sha256()
    for path in (LOCKS[wanted], ROOT / "pyproject.toml", Path(__file__)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def is_stamped(wanted: str) -> bool:
    path = stamp(wanted)
    return path.exists() and path.read_text() == fingerprint(wanted)


def project_version() -> str:
    """The version that the code of this checkout has; it is read, since its packages may not be there to import it."""
    text = (ROOT / "spark" / "evenkeel" / "__init__.py").read_text(encoding="utf-8")
    return text.partition('__version__ = "')[2].partition('"')[0]


def is_installed_as(version: str) -> bool:
    """Whether the environment's metadata, which `importlib.metadata` reads, name this version of the project."""
    found = {path.name for path in VENV.glob("lib/python*/site-packages/evenkeel-*.dist-info")}
    return found == {f"evenkeel-{version}.dist-info"}


def install_project() -> None:
    """Link this checkout into the environment, with metadata of its present version."""
    say(f"installing Evenkeel {project_version()} itself")
    pip([["install", "--no-deps", "--no-compile", "-e", str(ROOT)]], 1)


def install(wanted: str) -> None:
    lock = LOCKS[wanted]
    pins = lock.read_text(encoding="utf-8").replace(" \\\n", "").splitlines()
    pins = [pin for pin in pins if not pin.startswith("#")]
    say(f"installing {len(pins)} packages from {lock.name}; the first time this takes some minutes and 1.5 GB")
    # pyspark comes as source, 450 MB of it: a pip of its own works on it while another fetches the rest. Its two
    # packages share files, so they stay together. --no-deps: the lock is complete, there is nothing to resolve.
    options = ["install", "--no-deps", "--no-compile", "--require-hashes", "-r"]
    with tempfile.TemporaryDirectory() as folder:
        spark, others = Path(folder) / "spark.txt", Path(folder) / "others.txt"
        spark.write_text("\n".join(pin for pin in pins if pin.startswith("pyspark")), encoding="utf-8")
        others.write_text("\n".join(pin for pin in pins if not pin.startswith("pyspark")), encoding="utf-8")
        pip([[*options, str(spark)], [*options, str(others)]], len(pins))
    install_project()
    compile_packages()
    for done in {"runtime", wanted}:  # the dev lock holds the runtime one
        stamp(done).write_text(fingerprint(done))
    say("packages are in place")


def compile_packages() -> None:
    """To byte code, on all cores: without it some imports take twice as long, every time."""
    say("compiling to byte code")
    folders = sorted((VENV / "lib").glob("python*/site-packages"))
    # Packages ship templates and tests that no Python can compile: the exit code says nothing.
    subprocess.run([PYTHON, "-m", "compileall", "-q", "-j", "0", *folders], capture_output=True, check=False)


def pip(runs: list[list[str]], count: int) -> None:
    """Runs pips side by side, with a line of progress every few seconds."""
    processes = [start_pip(arguments) for arguments in runs]
    tails = [deque[str](maxlen=12) for _ in processes]
    with Progress(count) as progress:
        readers = [
            threading.Thread(target=progress.follow, args=(process, tail))
            for process, tail in zip(processes, tails, strict=True)
        ]
        try:
            for reader in readers:
                reader.start()
            for reader in readers:
                reader.join()
        finally:
            for process in processes:
                process.terminate()  # those that have ended do not mind
    for process, tail in zip(processes, tails, strict=True):
        if process.wait() != 0:
            give_up(
                "pip could not install the packages:\n  " + "\n  ".join(tail) + "\n"
                "Is there a network? A proxy, an index or a certificate of your own goes into pip's configuration "
                "(`pip config --help`)."
            )


def start_pip(arguments: list[str]) -> subprocess.Popen[str]:
    options = ["--progress-bar", "off", "--no-input", "--disable-pip-version-check"]
    return subprocess.Popen(
        [PYTHON, "-m", "pip", *arguments, *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
    )


class Progress:
    """Turns pip's output into a line every few seconds, also while pip itself is silent."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.seen = 0
        self.doing = "fetching"
        self._over = threading.Event()
        self._speaker = threading.Thread(target=self._speak, daemon=True)

    def __enter__(self) -> Progress:
        self._speaker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._speaker.join()

    def follow(self, process: subprocess.Popen[str], tail: deque[str]) -> None:
        """Reads one pip's output to its end."""
        assert process.stdout is not None
        for line in process.stdout:
            tail.append(line.rstrip())
            if line.startswith(("Collecting ", "Requirement already satisfied", "Obtaining ")):
                self.seen += 1
            elif line.startswith("Installing collected"):
                self.doing = "unpacking; fetched"

    def _speak(self) -> None:
        while not self._over.wait(SAY_EVERY_SECONDS):
            say(f"{self.doing} {min(self.seen, self.count)} of {self.count} packages")


def fetch_jars() -> None:
    """Has the project fetch the jars that its lock files name."""
    fetch = [str(PYTHON), "-m", "evenkeel.spark.jars"]
    run([*fetch, "delta"], "Could not get Delta's jars")
    if subprocess.run([*fetch, "object_store"], cwd=ROOT, check=False).returncode != 0:
        say("the jars for S3 are missing (see above): only tables in S3 need them")


def run(command: list[str], failure: str) -> None:
    done = subprocess.run(command, cwd=ROOT, check=False)
    if done.returncode != 0:
        give_up(f"{failure} (see above).")


def say(text: str) -> None:
    print(f"[{time.monotonic() - STARTED:4.0f} s] {text}", flush=True)


def give_up(text: str) -> NoReturn:
    sys.exit(f"setup: {text}")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("setup: stopped; run it again to go on")
