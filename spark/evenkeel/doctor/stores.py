"""Checks of services at Amazon or a compatible store: the lake's clock, landing zones in S3, queues of SQS."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from evenkeel.doctor.airflow_state import store_in_airflow
from evenkeel.doctor.clusters import HeardClocks, judged_clocks
from evenkeel.doctor.findings import CheckFinding, Site, fail, ok, skipped
from evenkeel.object_store import access, bucket_of, canonical, is_object_store

SECONDS = 60.0
NO_ZONE, NO_QUEUE = "no cluster with `s3` is configured", "no cluster with `queue` is configured"
_TRIES = 2
_TIMEOUT_SECONDS = 15.0


def zone_clusters(site: Site) -> Sequence[str]:
    """The clusters whose snapshots come from a landing zone."""
    return [str(source.cluster) for source in site.sources or () if source.zone is not None]


def queue_clusters(site: Site) -> Sequence[str]:
    """The clusters whose commands go over queues."""
    return [str(source.cluster) for source in site.sources or () if source.queues is not None]


def check_store_clock(site: Site, _: str) -> CheckFinding:
    """Compare the clock of the lake's store with this machine's, by the Date header of an answer."""
    if site.lake is None or not is_object_store(site.lake):
        return skipped("the lake is not in an object store")
    from evenkeel.aws_errors import RAISED_BY_BOTO, of_s3

    client = access(site.environment).for_boto(timeout_seconds=_TIMEOUT_SECONDS, tries=_TRIES)
    begin = datetime.now(UTC)
    try:
        answer = client.list_objects_v2(Bucket=bucket_of(canonical(site.lake)), MaxKeys=1)
    except (*RAISED_BY_BOTO, ValueError) as error:
        problem, advice = of_s3(error)
        return fail(f"{site.lake}: {problem}", advice)
    clocks = HeardClocks()
    text = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
    if text:
        clocks.hear("the store", parsedate_to_datetime(text), (datetime.now(UTC) - begin).total_seconds())
    return judged_clocks(clocks, "store")


def check_zone(site: Site, cluster: str) -> CheckFinding:
    """The landing zone: listed and read; with a probe an object is written and removed."""
    from evenkeel.aws_errors import RAISED_BY_BOTO, of_s3
    from evenkeel.sources.landing_zone.layout import place_of
    from evenkeel.sources.landing_zone.s3 import connect

    zone = site.source(cluster).zone
    assert zone is not None
    place = place_of(zone.url)
    if zone.connection is not None and site.airflow_home is None:
        return skipped(
            f"the keys are in Airflow's connection {zone.connection}, and Airflow is not installed on this machine"
        )
    client = connect(zone.connection, store_in_airflow)
    prefix = f"{place.prefix}/" if place.prefix else ""
    try:
        client.list_objects_v2(Bucket=place.bucket, Prefix=prefix, MaxKeys=1)
        if not site.probe:
            return ok(f"{place} can be listed; writing is tried with --probe alone")
        return _probed(site, client, place.bucket, f"{prefix}_doctor-{uuid.uuid4().hex}")
    except (*RAISED_BY_BOTO, ValueError) as error:
        problem, advice = of_s3(error)
        return fail(f"{place}: {problem}", advice)


def _probed(site: Site, client: Any, bucket: str, key: str) -> CheckFinding:
    client.put_object(Bucket=bucket, Key=key, Body=b"evenkeel doctor\n")
    site.wrote.append(f"s3://{bucket}/{key}")
    try:
        client.get_object(Bucket=bucket, Key=key)["Body"].read()
    finally:
        client.delete_object(Bucket=bucket, Key=key)
    return ok(f"s3://{bucket}/{key.rpartition('/')[0]} can be listed; an object was written, read and removed")


def check_queues(site: Site, cluster: str) -> CheckFinding:
    """The queues: their attributes are read, and the keys that sign their messages are known."""
    from evenkeel.steering.queue.fifo import Fifo
    from evenkeel.steering.queue.signing import keys_from_environment, resolved_keys

    queues = site.source(cluster).queues
    assert queues is not None
    facts = []
    for url in dict.fromkeys((queues.commands, queues.reports)):
        attributes = Fifo(url).attributes()
        facts.append(f"{url.rpartition('/')[2]}: {attributes.get('ApproximateNumberOfMessages', '?')} messages")
    if keys_from_environment(queues.keys, site.environment) is None and site.airflow_home is not None:
        return ok(f"{'; '.join(facts)}; the keys {queues.keys} are Airflow's (see the check `connections`)")
    resolved_keys(queues.keys, lambda name: keys_from_environment(name, site.environment))
    return ok(f"{'; '.join(facts)}; their keys are known. What is sent cannot be taken back, so nothing was")
