"""Checks of the lake, and of services at Amazon or a compatible store.

The lake: its tables and their version, its writer, the rights to write, its log and its witnesses, and the clock of its
store. The services: landing zones in S3, and queues of SQS.
"""

from __future__ import annotations

import os
import time
import uuid
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from evenkeel.doctor.airflow_state import store_in_airflow
from evenkeel.doctor.checks import CheckFinding, Site, clusters_with, fail, ok, skipped, some, warn
from evenkeel.doctor.clusters import HeardClocks, judged_clocks
from evenkeel.errors import LakeError, LogError
from evenkeel.lake.one_writer import writer_of
from evenkeel.lake.record.tables import is_table, open_table
from evenkeel.lake.schema import SCHEMA_VERSION
from evenkeel.lake.schemas import FROM_THE_FIRST, TABLES
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import FolderFiles, StoreFiles, files_of
from evenkeel.model.amounts import plural
from evenkeel.object_store import access, bucket_of, canonical, explained, is_object_store
from evenkeel.spark.server import status
from evenkeel.status import read_status
from evenkeel.transparency import KEY_PLACES, LOG_CONNECTION
from evenkeel.transparency.keys import signers_from_environment
from evenkeel.transparency.lake_log import has_log, storage_of
from evenkeel.transparency.overview import LogOverview, read_overview

NO_LAKE = "no lake is named: give --lake, set EVENKEEL_LAKE, or write `lake` into the configuration"
_LATE_SECONDS = 3_600


def check_tables(site: Site, _: str) -> CheckFinding:
    """Check that the tables exist, can be read, and have the version of this code."""
    if site.lake is None:
        return skipped(NO_LAKE)
    if not is_table(site.lake, "cycles"):
        return ok(f"there is no lake at {site.lake} yet; the first cycle makes it")
    columns = {
        name: {field.name for field in open_table(site.lake, name).schema().fields}
        for name in TABLES
        if is_table(site.lake, name)
    }
    return _judged(site.lake, columns)


def _judged(lake: str, columns_of: dict[str, set[str]]) -> CheckFinding:
    newer = [name for name, columns in columns_of.items() if columns - set(TABLES[name].column_names())]
    if newer:
        return fail(
            f"columns of {some(newer)} in {lake} are not known to this version",
            f"a newer version of Evenkeel writes this lake: update this one, which knows version {SCHEMA_VERSION}",
        )
    broken = [name for name, columns in columns_of.items() if set(TABLES[name].column_names()) - columns]
    if broken:
        return fail(
            f"{some(broken)} in {lake} lack columns",
            "restore them from a copy; a lake of a version before 1.0 is read by no later one",
        )
    for line in read_status(lake, datetime.now(UTC)).clusters:
        for need in line.needs:
            if need.kind == "newer_version":
                return fail(f"{line.cluster}: {need.text}", "update this installation")
    words = f"{len(columns_of)} tables of version {SCHEMA_VERSION} in {lake}"
    missing = [name for name in FROM_THE_FIRST if name not in columns_of]
    if missing:
        return warn(f"{words}, without {some(missing)}", "the next cycle makes them; where they had rows, restore them")
    return ok(words)


def check_writer(site: Site, _: str) -> CheckFinding:
    """Check the holder of the lake's lock: none, the server of this installation, or another one."""
    if site.lake is None:
        return skipped(NO_LAKE)
    holder = writer_of(Lake(site.lake).root)
    if holder is None:
        return ok("no server holds the lake's lock")
    own_pid = status(site.home).pid if (site.home / ".evenkeel").is_dir() else None
    if holder.pid and holder.pid == own_pid:
        return ok(f"this installation's server holds the lake's lock: {holder.words}")
    return warn(
        f"another server holds the lake's lock: {holder.words}",
        "nothing can be written beside it: use that server (EVENKEEL_HOME, EVENKEEL_SPARK), or end it",
    )


def check_rights(site: Site, _: str) -> CheckFinding:
    """Check the rights of this user on the lake's folder or bucket; with a probe an object is written and removed."""
    if site.lake is None:
        return skipped(NO_LAKE)
    files = files_of(Lake(site.lake).root)
    if isinstance(files, FolderFiles):
        return _folder_rights(site, files)
    return _store_rights(site, files)


def _folder_rights(site: Site, files: FolderFiles) -> CheckFinding:
    root = Path(files.folder)
    existing = next(folder for folder in (root, *root.parents) if folder.exists())
    if not existing.is_dir():
        return fail(f"{existing} is a file, and the lake {root} needs a folder there", "name another folder")
    places = [existing]
    if root.is_dir():
        places += [place for table in TABLES for place in (root / table, root / table / "_delta_log") if place.is_dir()]
    refused = [place for place in places if not os.access(place, os.W_OK | os.X_OK | os.R_OK)]
    if refused:
        return fail(
            f"this user may not read and write {some(map(str, refused))}",
            "give the user of Airflow's tasks and of the Spark server the rights on the whole folder",
        )
    return _probed(site, files, f"{existing} can be read and written")


def _store_rights(site: Site, files: StoreFiles) -> CheckFinding:
    try:
        if not files.has_bucket():
            return fail(f"{files.address}: there is no such bucket", "create it, or correct the address of the lake")
        files.names("")
        return _probed(site, files, f"{files.address} can be listed")
    except OSError as error:
        reason = explained(error, site.lake)
        return fail(str(reason or error), "")


def _probed(site: Site, files: FolderFiles | StoreFiles, words: str) -> CheckFinding:
    if not site.probe:
        return ok(f"{words}; writing is tried with --probe alone")
    if isinstance(files, FolderFiles) and not Path(files.folder).is_dir():
        return ok(f"{words}; the lake's folder is made by the first cycle, so nothing was written")
    name = f"_doctor-{uuid.uuid4().hex}"
    files.write_new(name, b"evenkeel doctor\n")
    site.wrote.append(files.full(name))
    try:
        read = files.read(name)
    finally:
        files.remove(name)
    if read != b"evenkeel doctor\n":
        return fail(
            f"{files.full(name)} was read otherwise than it was written", "check the proxy or gateway before the store"
        )
    return ok(f"{words}; an object was written, read and removed")


def check_log(site: Site, _: str) -> CheckFinding:
    """The transparency log: its key, its head, and commits without a leaf or lost."""
    if site.lake is None:
        return skipped(NO_LAKE)
    signers = () if site.environment.get(LOG_CONNECTION) else signers_from_environment(site.environment)
    has_key = any(site.environment.get(name) for name in KEY_PLACES)
    if not has_log(storage_of(site.lake)):
        if has_key:
            return warn("a key of a log is set, and the lake has no transparency log", "`evenkeel log begin` makes it")
        return skipped("the lake has no transparency log, and none is configured")
    overview = read_overview(site.lake, signers)
    size = overview.checkpoint.checkpoint.size
    words = f"{plural(size, 'leaf', 'leaves')}, keys of {', '.join(sorted({key.name for key in overview.keys}))}"
    beside = overview.table_words()
    if overview.lost:
        return fail(f"{words}; {'; '.join(beside)}", "commits are gone that the log vouches for: run `evenkeel verify`")
    if beside:
        return warn(
            f"{words}; {'; '.join(beside)}", "" if has_key else "set the log's key for the process that publishes"
        )
    if not has_key:
        return warn(
            f"{words}; its key is not set on this machine", "set EVENKEEL_LOG_KEY_FILE for the process that publishes"
        )
    return ok(f"{words}, with all that is on record")


def check_witnesses(site: Site, _: str) -> CheckFinding:
    """The witnesses of the log: how far each is, and since when it is behind."""
    if site.lake is None:
        return skipped(NO_LAKE)
    try:
        overview = _overview(site)
    except LogError as error:
        return skipped(str(error))
    if overview is None:
        return skipped("the lake has no transparency log")
    if not overview.witnesses:
        return warn(
            "the log has no witness",
            "name one (EVENKEEL_WITNESSES): without one, any holder of the key can set the log back",
        )
    words = "; ".join(overview.witness_words())
    if any(witness.is_inconsistent for witness in overview.witnesses):
        return fail(words, "two clients are shown different pasts: keep the lake as it is, and run `evenkeel verify`")
    size = overview.checkpoint.checkpoint.size
    late = [
        witness
        for witness in overview.witnesses
        if witness.size < size and time.time() - (witness.since or witness.at) > _LATE_SECONDS
    ]
    if late:
        return warn(words, "check these witnesses, then run `evenkeel log catch-up`")
    return ok(words)


def _overview(site: Site) -> LogOverview | None:
    assert site.lake is not None
    if not has_log(storage_of(site.lake)):
        return None
    try:
        return read_overview(site.lake, ())
    except LakeError:
        raise LogError("the chains of the lake cannot be read: see the check `lake`") from None


SECONDS = 60.0
NO_ZONE, NO_QUEUE = "no cluster with `s3` is configured", "no cluster with `queue` is configured"
_TRIES = 2
_TIMEOUT_SECONDS = 15.0
zone_clusters, queue_clusters = clusters_with("zone"), clusters_with("queues")
"""The clusters whose snapshots come from a landing zone, and those whose commands go over queues."""


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
    from evenkeel.sources.landing_zone.s3 import connect, place_of

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
        return _zone_probed(site, client, place.bucket, f"{prefix}_doctor-{uuid.uuid4().hex}")
    except (*RAISED_BY_BOTO, ValueError) as error:
        problem, advice = of_s3(error)
        return fail(f"{place}: {problem}", advice)


def _zone_probed(site: Site, client: Any, bucket: str, key: str) -> CheckFinding:
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
