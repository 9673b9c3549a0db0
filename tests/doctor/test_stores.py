"""What is said of stores and queues: a real store that speaks S3, real queues, and a proxy that refuses."""

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from evenkeel.doctor import storage
from evenkeel.doctor.checks import CheckOutcome, Site
from evenkeel.errors import EvenkeelError
from evenkeel.lake.table_files import _arrow_of
from evenkeel.sources.configuration import ClusterSource, QueueSource, ZoneSource
from tests.object_store.stores import Store, running_store
from tests.sources.landing_zone.faults import Exchange, Faults, refuse
from tests.sources.landing_zone.stand_in import SECRET_KEY
from tests.steering.queue.elasticmq import running_elasticmq

pytestmark = pytest.mark.slow

VARIABLES = ("AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_SQS")
SECRET = "k" * 64


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with running_store(tmp_path_factory.mktemp("store"), build=False) as running:
        yield running


@pytest.fixture
def faults(store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Faults]:
    """A proxy in front of the store, which this process is told of."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with Faults(store.port) as proxy:
        for name, value in store.variables(proxy.url).items():
            monkeypatch.setenv(name, value)
        yield proxy


def site(lake: str | None = None, *, probe: bool = False, url: str = "s3://lakes/zone") -> Site:
    import os

    zone = ClusterSource("far", Path("landing"), zone=ZoneSource(url))
    return Site(lake=lake, sources=(zone,), environment=dict(os.environ), probe=probe)


def objects(store: Store) -> list[str]:
    return [path.name for path in store.folder.rglob("*") if path.is_file()]


def test_a_zone_is_listed_and_only_a_probe_writes(store: Store, faults: Faults) -> None:
    looked = site()
    assert storage.zone_clusters(looked) == ["far"]
    found = storage.check_zone(looked, "far")
    assert (found.outcome, "with --probe alone" in found.words) == (CheckOutcome.OK, True)
    assert faults.count("PUT") == faults.count("DELETE") == 0
    probing = site(probe=True)
    found = storage.check_zone(probing, "far")
    assert (found.outcome, "written, read and removed" in found.words) == (CheckOutcome.OK, True)
    assert faults.count("PUT") == faults.count("DELETE") == 1
    assert [name.startswith("s3://lakes/zone/_doctor-") for name in probing.wrote] == [True]
    assert not [name for name in objects(store) if "_doctor" in name]


@pytest.mark.parametrize(("method", "words"), [("GET", "may not"), ("PUT", "may not")])
def test_missing_rights_on_a_prefix_are_told(store: Store, faults: Faults, method: str, words: str) -> None:
    faults.on(method, "zone", refuse(403, "AccessDenied"), times=9)
    found = storage.check_zone(site(probe=True), "far")
    assert found.outcome == CheckOutcome.FAIL
    assert "s3://lakes/zone" in found.words
    assert found.advice
    assert SECRET_KEY not in f"{found.words} {found.advice}"


def test_no_such_bucket_and_a_wrong_key_are_told(faults: Faults, monkeypatch: pytest.MonkeyPatch) -> None:
    found = storage.check_zone(site(url="s3://nowhere/zone"), "far")
    assert (found.outcome, "nowhere" in found.words) == (CheckOutcome.FAIL, True)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another-secret-key")
    found = storage.check_zone(site(), "far")
    assert found.outcome == CheckOutcome.FAIL
    assert "another-secret-key" not in f"{found.words} {found.advice}"


def test_the_zone_of_a_connection_is_left_to_whoever_knows_it(faults: Faults) -> None:
    own = ClusterSource("far", Path("landing"), zone=ZoneSource("s3://lakes/zone", "aws_far"))
    looked = Site(sources=(own,), environment={"AIRFLOW_HOME": "/nowhere"})
    assert storage.check_zone(looked, "far").outcome == CheckOutcome.SKIPPED


def test_the_stores_clock_is_read_from_an_answer(store: Store, faults: Faults, monkeypatch: pytest.MonkeyPatch) -> None:
    assert storage.check_store_clock(site("/a/folder"), "").outcome == CheckOutcome.SKIPPED
    with monkeypatch.context() as straight:  # the proxy passes no Date on
        straight.setenv("AWS_ENDPOINT_URL", store.url)
        found = storage.check_store_clock(site("s3a://lakes/lake"), "")
    assert (found.outcome, found.words) == (CheckOutcome.OK, "the clocks of 1 store are within 5 s of this machine's")
    assert storage.check_store_clock(site("s3a://lakes/lake"), "").outcome == CheckOutcome.SKIPPED

    def skewed(exchange: Exchange) -> None:
        body = b'<?xml version="1.0"?><ListBucketResult><Name>lakes</Name></ListBucketResult>'
        exchange.read_body()
        exchange.send_response_only(200)
        exchange.send_header("Date", "Fri, 27 Nov 2020 10:00:00 GMT")
        exchange.send_header("Content-Length", str(len(body)))
        exchange.end_headers()
        exchange.wfile.write(body)

    faults.on("GET", "lakes", skewed)
    found = storage.check_store_clock(site("s3a://lakes/lake"), "")
    assert (found.outcome, "the store is" in found.words, "behind" in found.words) == (CheckOutcome.FAIL, True, True)
    faults.on("GET", "lakes", refuse(403, "RequestTimeTooSkewed"), times=3)
    found = storage.check_store_clock(site("s3a://lakes/lake"), "")
    assert (found.outcome, "clock" in found.words) == (CheckOutcome.FAIL, True)


def test_a_lake_in_a_bucket_is_listed_and_probed(store: Store, faults: Faults) -> None:
    _arrow_of.cache_clear()
    assert storage.check_tables(site("s3a://lakes/lake"), "").outcome == CheckOutcome.OK
    assert storage.check_rights(site("s3a://lakes/lake"), "").outcome == CheckOutcome.OK
    assert faults.count("PUT") == 0
    probing = site("s3a://lakes/lake", probe=True)
    found = storage.check_rights(probing, "")
    assert (found.outcome, "written, read and removed" in found.words) == (CheckOutcome.OK, True)
    assert not [name for name in objects(store) if "_doctor" in name]
    found = storage.check_rights(site("s3a://nowhere/lake"), "")
    assert (found.outcome, "no such bucket" in found.words) == (CheckOutcome.FAIL, True)


# Queues.


@pytest.fixture(scope="module")
def elasticmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_elasticmq(tmp_path_factory.mktemp("elasticmq")) as url:
        yield url


@pytest.fixture
def queues(elasticmq: str, faults: Faults, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Site]:
    """Makes a site with a cluster of two queues, in an environment with the keys and what is given."""
    import boto3

    monkeypatch.delenv("AWS_ENDPOINT_URL")
    client: Any = boto3.client("sqs", endpoint_url=elasticmq, region_name="us-east-1")
    urls = [
        client.create_queue(QueueName=f"{name}.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
        for name in ("doctor", "doctor-reports")
    ]

    def make(url: str | None = None, **environment: str) -> Site:
        source = ClusterSource("far", Path("landing"), queues=QueueSource(url or urls[0], urls[1], "queue_far"))
        return Site(sources=(source,), environment={"AIRFLOW_HOME": "/nowhere", **environment})

    return make


def test_queues_are_looked_at_and_nothing_is_sent(queues: Callable[..., Site]) -> None:
    looked = queues(EVENKEEL_KEYS_QUEUE_FAR=SECRET)
    assert storage.queue_clusters(looked) == ["far"]
    for one in (looked, dataclasses.replace(looked, probe=True)):
        found = storage.check_queues(one, "far")
        assert found.outcome == CheckOutcome.OK
        assert "doctor.fifo: 0 messages; doctor-reports.fifo: 0 messages; their keys are known" in found.words
    assert SECRET not in found.words


def test_a_queue_that_is_not_there_and_keys_that_nobody_knows_are_told(
    queues: Callable[..., Site], elasticmq: str
) -> None:
    with pytest.raises(EvenkeelError, match=r"absent\.fifo"):
        storage.check_queues(queues(f"{elasticmq}/000000000000/absent.fifo"), "far")
    with pytest.raises(EvenkeelError, match="set EVENKEEL_KEYS_QUEUE_FAR"):
        storage.check_queues(queues(), "far")
