"""docs/tutorial/your-cluster.md, by the letter: a bare Debian, this checkout, and three real brokers that want a token.

Only the broker's address and its token are put in for those on the page.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devtools.lab.cluster import Cluster, cluster_for
from devtools.lab.settings import LabSettings
from tests.left_out import DEBOOTSTRAP, lacking
from tests.tutorial.page import Step, differences, steps_of

pytestmark = [pytest.mark.pulsar, pytest.mark.slow, pytest.mark.exhaustive]

CHECKOUT = Path(__file__).resolve().parents[2]
PAGE = CHECKOUT / "docs" / "tutorial" / "your-cluster.md"
STEPS = steps_of(PAGE.read_text(encoding="utf-8"))
ADDRESS = "http://broker-1.example:8080"
PACKAGES = ("make", "python3", "python3-venv", "ca-certificates")
PACKAGE_SOURCES = (
    "PIP_",
    "UV_",
    "SSL_",
    "REQUESTS_",
    "CURL_",
    "EVENKEEL_MAVEN",
    "http_proxy",
    "https_proxy",
    "no_proxy",
)
MARK = "::step"


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of a Debian 12 with what the page asks for, and the network settings of this machine."""
    if not shutil.which("debootstrap"):
        pytest.skip(lacking(DEBOOTSTRAP))
    if os.geteuid():
        pytest.skip("only root may change into another root")
    root = tmp_path_factory.mktemp("bare") / "root"
    words = ["debootstrap", "--variant=minbase", f"--include={','.join(PACKAGES)}", "bookworm", str(root)]
    made = subprocess.run(words, capture_output=True, text=True, timeout=1200, check=False)
    if made.returncode:
        pytest.skip(f"debootstrap cannot be had here: {made.stdout[-300:]}")
    for name in ("/etc/pip.conf", "/etc/hosts", "/etc/resolv.conf", *_certificates()):
        if Path(name).is_file():
            place = root / name.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.unlink(missing_ok=True)
            shutil.copy(name, place)
    return root


def _certificates() -> set[str]:
    return {os.environ[name] for name in ("SSL_CERT_FILE", "PIP_CERT", "CURL_CA_BUNDLE") if os.environ.get(name)}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with cluster_for(LabSettings(auth=True)) as running:
        yield running


def test_each_step_does_what_the_page_says(bare: Path, cluster: Cluster, tmp_path: Path) -> None:
    home = bare / "home" / "operator" / "evenkeel"
    subprocess.run(["git", "clone", "-q", "--depth", "1", f"file://{CHECKOUT}", str(home)], check=True)
    shutil.rmtree(home / ".git")
    (home / "mine.token").write_text(f"{cluster.token()}\n")
    begin = time.monotonic()
    printed = _done(bare, home, cluster.urls[0], tmp_path / "log")
    print(f"from nothing to a dry run in {time.monotonic() - begin:.0f} s")
    for step, lines in zip(STEPS, printed, strict=True):
        if step.output:
            told = "\n".join(differences(step.output, lines[: len(step.output)]))
            assert not told, f"{step.code}\n{told}\nall of it:\n" + "\n".join(lines)
    assert "mine" in (home / "report.html").read_text(encoding="utf-8")
    assert str(cluster.token()) not in "\n".join(line for lines in printed for line in lines)


def _done(bare: Path, home: Path, address: str, log: Path) -> list[list[str]]:
    """What each step printed; all of them in one shell of the bare root, which ends at the first that fails."""
    script = ["set -eu", f"cd /{home.relative_to(bare)}"]
    for number, step in enumerate(STEPS):
        script += [f"echo {MARK} {number}", _as_shell(step, address)]
    mounts = " && ".join(f"mount --rbind /{name} {bare}/{name}" for name in ("proc", "dev", "sys"))
    inside = ["env", "-i", *_environment(), "chroot", str(bare), "bash", "-c", "\n".join(script)]
    own = ["unshare", "--mount", "--propagation", "private", "bash", "-c", f'{mounts} && exec "$@"', "bash", *inside]
    with log.open("w") as errors:
        done = subprocess.run(own, stdout=subprocess.PIPE, stderr=errors, text=True, timeout=1500, check=False)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{log.read_text()[-3000:]}"
    parts = done.stdout.split(f"{MARK} ")[1:]
    return [[line.rstrip() for line in part.rstrip().splitlines()[1:]] for part in parts]


def _as_shell(step: Step, address: str) -> str:
    if step.kind == "file":
        assert ADDRESS in step.code
        return f"cat > {step.name} <<'END'\n{step.code.replace(ADDRESS, address)}END"
    return step.code


def _environment() -> list[str]:
    """Where this machine takes packages from; nothing else of it."""
    own = [f"{name}={value}" for name, value in os.environ.items() if name.startswith(PACKAGE_SOURCES)]
    return ["HOME=/root", "PATH=/usr/bin:/bin:/usr/sbin:/sbin", "LANG=C.UTF-8", *own]
