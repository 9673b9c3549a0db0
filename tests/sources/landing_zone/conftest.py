"""A store for the whole run, and for each test a bucket of its own behind a proxy that can be told to fail."""

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from evenkeel.object_store import S3Connection
from evenkeel.secret import Secret
from evenkeel.sources.landing_zone.s3 import connect
from tests.sources.landing_zone.faults import Faults
from tests.sources.landing_zone.stand_in import ACCESS_KEY, SECRET_KEY, StandIn, running

BUCKETS = count()


@dataclass
class Bucket:
    """An empty bucket: `client` goes through `faults`, `plain` straight to the store; `folder` holds its objects."""

    name: str
    client: Any
    plain: Any
    faults: Faults
    folder: Path

    @property
    def url(self) -> str:
        return f"s3://{self.name}/land"

    def names(self) -> list[str]:
        pages = self.plain.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        return [found["Key"] for page in pages for found in page.get("Contents", ())]


def client_of(endpoint: str, secret: str = SECRET_KEY) -> Any:
    given = S3Connection(access_key=ACCESS_KEY, secret_key=Secret(secret), region="us-east-1", endpoint=endpoint)
    return connect("store", lambda name: given)


@pytest.fixture(scope="session")
def store() -> Iterator[StandIn]:
    folder = Path(tempfile.mkdtemp(prefix="evenkeel-s3-"))
    try:
        with running(folder) as stand_in:
            yield stand_in
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture(scope="session")
def plain(store: StandIn) -> Any:
    return client_of(store.url)


@pytest.fixture(scope="session")
def shared_faults(store: StandIn) -> Iterator[Faults]:
    with Faults(store.port) as faults:
        yield faults


@pytest.fixture(scope="session")
def shared_client(shared_faults: Faults) -> Any:
    return client_of(shared_faults.url)


@pytest.fixture
def bucket(store: StandIn, plain: Any, shared_faults: Faults, shared_client: Any) -> Bucket:
    name = f"bucket-{next(BUCKETS)}"
    plain.create_bucket(Bucket=name)
    shared_faults.forget()
    return Bucket(name, shared_client, plain, shared_faults, store.folder / name)
