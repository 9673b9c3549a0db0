"""Real queues: one ElasticMQ for the tests of this folder, started at first use; a pair of queues for every test."""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.steering.queue.acting_cluster import ActingCluster
from tests.steering.queue.elasticmq import running_elasticmq

SECRET = "hush-a-secret"


@dataclass(frozen=True)
class Pair:
    """A command queue and a reports queue, by URL, and a client to play tricks on them with."""

    commands: str
    reports: str
    client: Any


@pytest.fixture(scope="session")
def elasticmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_elasticmq(tmp_path_factory.mktemp("elasticmq")) as url:
        yield url


@pytest.fixture(autouse=True, scope="module")
def credentials() -> Iterator[None]:
    """The stand-in asks for none, but boto3 does. They end with the module: what follows must not find them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SQS", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session")
def make_queues(elasticmq: str) -> Callable[[], Pair]:
    """Makes pairs of queues that nobody else uses."""
    import boto3

    client = boto3.client(
        "sqs", endpoint_url=elasticmq, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key=SECRET
    )

    def make() -> Pair:
        urls = []
        for name in ("commands", "reports"):
            attributes = {"FifoQueue": "true"}
            made = client.create_queue(QueueName=f"{name}-{uuid.uuid4().hex[:12]}.fifo", Attributes=attributes)
            urls.append(made["QueueUrl"])
        return Pair(urls[0], urls[1], client)

    return make


@pytest.fixture
def cluster() -> Iterator[ActingCluster]:
    """A cluster that counts effects; it knows no bundle yet."""
    made = ActingCluster({})
    yield made
    made.close()


@pytest.fixture
def queues(make_queues: Callable[[], Pair]) -> Pair:
    return make_queues()
