"""A store that speaks S3 on loopback, for tests of lakes in one: versitygw over a folder, found or built once.

It checks signatures, keeps its objects over a restart, and of many that put an object only if there is none
(If-None-Match) or if it is one that they know (If-Match) it lets one. Where there is neither the program nor a Go to
build it, s3proxy on the server's Java stands in, whose If-Match lets more than one of several at the same moment.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock

from evenkeel.secret import Secret
from evenkeel.spark.jars import cache_folder
from tests.sources.landing_zone import stand_in
from tests.sources.landing_zone.stand_in import ACCESS_KEY, SECRET_KEY, StandIn, die_with_parent, free_port

VARIABLE = "EVENKEEL_VERSITYGW"
MODULE, VERSION = "github.com/versity/versitygw/cmd/versitygw", "v1.8.0"
REGION = "us-east-1"
BUILD_SECONDS = 540
START_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Store:
    """A running store with one bucket; `folder` holds the objects, a file each."""

    port: int
    folder: Path
    bucket: str = "lakes"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def lake(self, name: str) -> str:
        return f"s3a://{self.bucket}/{name}"

    def variables(self, url: str | None = None) -> dict[str, str]:
        """The environment of whoever uses the store, straight or through a proxy at `url`."""
        return {
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL": url or self.url,
        }

    def client(self) -> Any:
        from evenkeel.object_store import S3Connection
        from evenkeel.sources.landing_zone.s3 import connect

        given = S3Connection(ACCESS_KEY, Secret(SECRET_KEY), region=REGION, endpoint=self.url)
        return connect("store", lambda name: given)


@contextlib.contextmanager
def running_store(folder: Path, *, build: bool) -> Iterator[Store]:
    """The store over an empty `folder`, with its bucket; it ends with this block, and with this process. `build`: where
    versitygw is not there, it may be built, which takes minutes."""
    program = versitygw(build=build)
    with _versitygw(program, folder) if program is not None else stand_in.running(folder) as found:
        store = Store(found.port, found.folder)
        store.client().create_bucket(Bucket=store.bucket)
        yield store


@contextlib.contextmanager
def running_locking_store(folder: Path, program: Path) -> Iterator[Store]:
    """A store that knows Object Lock, over an empty `folder`: versitygw, which keeps all versions of objects."""
    versions = folder / "versions"
    versions.mkdir(parents=True)
    with _versitygw(program, folder, "--versioning-dir", str(versions)) as found:
        yield Store(found.port, found.folder)


def versitygw(*, build: bool) -> Path | None:
    """The program: the one that is named, found, or built before, or built now. None where there is none of these."""
    named = os.environ.get(VARIABLE) or shutil.which("versitygw")
    if named:
        return Path(named)
    built = cache_folder() / "go" / f"versitygw-{VERSION}"
    go = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    with FileLock(f"{_made(built.parent)}/lock"):
        if build and not built.exists() and go is not None:
            environment = {**os.environ, "GOBIN": str(built.parent)}
            done = subprocess.run(
                [go, "install", f"{MODULE}@{VERSION}"],
                env=environment,
                capture_output=True,
                timeout=BUILD_SECONDS,
                check=False,
            )
            if done.returncode == 0:
                (built.parent / "versitygw").replace(built)
    return built if built.exists() else None


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextlib.contextmanager
def _versitygw(program: Path, folder: Path, *more: str) -> Iterator[StandIn]:
    objects, port = folder / "store", free_port()
    objects.mkdir(parents=True)
    command = [str(program), "--port", f"127.0.0.1:{port}", "--access", ACCESS_KEY, "--secret", SECRET_KEY]
    command += ["--region", REGION, "--quiet", "posix", *more, str(objects)]
    with (folder / "versitygw.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=die_with_parent)
    try:
        stand_in.await_port(process, port, folder / "versitygw.log")
        yield StandIn(port, objects)
    finally:
        process.kill()
        process.wait()
