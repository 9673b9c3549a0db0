"""One store for all tests of lakes in an object store, and buckets of their own for those that disturb it."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from evenkeel.object_store import hand_over
from evenkeel.spark.home import Home
from evenkeel.spark.server import Engine
from tests.object_store.stores import Store, running_store
from tests.sources.landing_zone.faults import Faults

NUMBERS = count()
VARIABLES = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION"),
    *("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "EVENKEEL_LAKE_CONNECTION", "AWS_ALLOW_HTTP"),
)


@dataclass(frozen=True)
class Place:
    """A lake's address in a bucket, and the proxy that this process and the Spark server reach it through."""

    store: Store
    faults: Faults
    lake: str
    variables: dict[str, str]

    def table(self, name: str = "table") -> str:
        return f"{self.lake}/{name}"

    def objects(self, below: str) -> list[str]:
        folder = self.store.folder / self.lake.removeprefix("s3a://") / below
        return sorted(path.name for path in folder.glob("*"))


@pytest.fixture(scope="session")
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    folder = Path(tempfile.mkdtemp(prefix="evenkeel-store-"))
    is_exhaustive = any(item.get_closest_marker("exhaustive") for item in request.session.items)
    try:
        with running_store(folder, build=is_exhaustive) as running:
            yield running
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def place(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Engine], Place]]:
    """Makes a bucket behind a proxy, which this process and a Spark server are told of."""
    opened: list[Faults] = []

    def make(engine: Engine) -> Place:
        bucket = f"bucket-{next(NUMBERS)}"
        store.client().create_bucket(Bucket=bucket)
        faults = Faults(store.port).__enter__()
        opened.append(faults)
        made = Place(store, faults, f"s3a://{bucket}/lake", store.variables(faults.url))
        for name, value in made.variables.items():
            monkeypatch.setenv(name, value)
        hand_over(Home.of(engine.home).folder, made.lake)
        return made

    yield make
    for faults in opened:
        faults.__exit__()
