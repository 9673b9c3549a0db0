"""A landing zone in a store that speaks S3: the names of its objects, the connection, and reads of snapshots.

There is one object per snapshot, named by its moment:

    PREFIX/CLUSTER/1772366405000-configuration.jsonl.gz
    PREFIX/CLUSTER/1772366465000.jsonl.gz

The number is the snapshot's moment in milliseconds since 1970, so names sort as times do. `-configuration` is added
if the snapshot holds the brokers' configuration: a listing alone finds the one that lends it. An object appears
whole or not at all, and who writes a name first with `If-None-Match: *` has it. PREFIX is taken as it is given,
CLUSTER is percent-encoded, so that any name makes exactly one level.

Credentials come from the usual places of AWS's tools (environment, profile, the instance's role), or from a named
connection that the caller resolves. No message and no `repr` shows them.
"""

from __future__ import annotations

import hashlib
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from botocore.exceptions import ClientError, FlexibleChecksumError, HTTPClientError, IncompleteReadError

from evenkeel import __version__
from evenkeel.aws_errors import RAISED_BY_BOTO, is_absent, of_s3
from evenkeel.errors import BadInput, LandingError, SettingsError
from evenkeel.object_store import Resolver, S3Connection
from evenkeel.pulsar.limits import Limits
from evenkeel.retrying import at_once, retry
from evenkeel.sources.landing import SUFFIX, milliseconds, moment_named
from evenkeel.sources.snapshot_files import MOST_HEADER_BYTES, SEE, Header, header_of_line

SCHEME = "s3://"
DELIMITER = "/"

_CREDENTIALS = re.compile(r"//[^/@]*@")
_MARK = "-configuration"
_NAME = re.compile(rf"(\d{{13}})({_MARK})?{re.escape(SUFFIX)}")
# The newest are requested first; then those of four times as long a time before them, and so on.
_FIRST_SPAN, _GROWTH = 3_600_000, 4


@dataclass(frozen=True, slots=True)
class Entry:
    """A snapshot by its name.

    `number`: its moment in milliseconds since 1970. `may_lend`: its name shows that it holds the brokers'
    configuration. `stored_at`: by the store's own clock.
    """

    number: int
    key: str
    may_lend: bool
    stored_at: datetime

    @property
    def moment(self) -> datetime:
        """The moment of the snapshot."""
        return moment_named(self.number)


@dataclass(frozen=True, slots=True)
class Place:
    """A landing zone: a bucket, and the prefix below it without a slash at its ends (may be empty)."""

    bucket: str
    prefix: str

    def __str__(self) -> str:
        return SCHEME + "/".join(part for part in (self.bucket, self.prefix) if part)

    def url(self, key: str) -> str:
        """Return the object's name as operators write it."""
        return f"{SCHEME}{self.bucket}/{key}"

    @property
    def root(self) -> str:
        """The prefix of all objects, with a slash at its end if it is not empty."""
        return self.prefix + DELIMITER if self.prefix else ""

    def of_cluster(self, cluster: str) -> str:
        """Return the prefix of all objects of a cluster, with a slash at its end."""
        return self.root + quoted(cluster) + DELIMITER

    def key(self, cluster: str, header: Header) -> str:
        """Return the key of a cluster's snapshot."""
        mark = _MARK if header.has_configuration else ""
        return f"{self.of_cluster(cluster)}{name_of(header.moment)}{mark}{SUFFIX}"


def place_of(url: str) -> Place:
    """Return the landing zone that `s3://bucket/prefix` names; all after the bucket is taken literally."""
    if not url.startswith(SCHEME):
        raise BadInput(f"{_CREDENTIALS.sub('//', url)!r} is not an S3 address: write s3://BUCKET/PREFIX")
    bucket, _, prefix = url.removeprefix(SCHEME).partition("/")
    if not bucket:
        raise BadInput(f"{url!r} names no bucket: write s3://BUCKET/PREFIX")
    if "@" in bucket or ":" in bucket:
        raise BadInput(
            "an S3 address holds neither credentials nor a host and port: write s3://BUCKET/PREFIX, and give those by "
            "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_ENDPOINT_URL_S3 or by a profile"
        )
    return Place(bucket, prefix.strip("/"))


def quoted(cluster: str) -> str:
    """Return a cluster's name as one level of a path; different names stay different."""
    if not cluster:
        raise BadInput("a snapshot in S3 belongs to a cluster: its name is empty")
    if not cluster.strip("."):
        return cluster.replace(".", "%2E")
    try:
        return quote(cluster, safe="")
    except UnicodeEncodeError:
        raise BadInput(f"the cluster's name {cluster!r} is not valid Unicode") from None


def name_of(moment: datetime) -> str:
    """Return 13 digits: names sort as times do, from 2001 to 2286; other years are refused."""
    number = milliseconds(moment)
    if not 10**12 <= number < 10**13:
        raise BadInput(f"{moment.isoformat()} is not a moment of a snapshot: is the collecting machine's clock set?")
    return str(number)


def newest_first(client: Any, place: Place, cluster: str, until: datetime | None = None) -> Iterator[Entry]:
    """Yield the snapshots of a cluster from `until` (included; None: from the newest) back to the first."""
    last = None if until is None else milliseconds(until)
    reach, span = milliseconds(datetime.now(UTC)) if last is None else last, _FIRST_SPAN
    while reach > 0:
        first = max(reach - span, 0)
        yield from reversed(list(oldest_first(client, place, cluster, first, last)))
        reach, last, span = first - 1, first - 1, span * _GROWTH


def oldest_first(client: Any, place: Place, cluster: str, first: int, last: int | None = None) -> Iterator[Entry]:
    """Yield a cluster's snapshots between two numbers (both included; None: to the newest), a thousand at a time."""
    prefix = place.of_cluster(cluster)
    pages = client.get_paginator("list_objects_v2").paginate(
        Bucket=place.bucket, Prefix=prefix, Delimiter=DELIMITER, StartAfter=f"{prefix}{max(first - 1, 0):013d}~"
    )
    for page in pages:
        for listed in page.get("Contents", ()):
            name = _NAME.fullmatch(listed["Key"].removeprefix(prefix))
            if name is None:
                continue
            if last is not None and int(name[1]) > last:
                return
            yield Entry(int(name[1]), listed["Key"], name[2] is not None, listed["LastModified"])


def clusters_in(client: Any, place: Place) -> list[str]:
    """Return the clusters with any objects in a landing zone, by their names in it."""
    pages = client.get_paginator("list_objects_v2").paginate(
        Bucket=place.bucket, Prefix=place.root, Delimiter=DELIMITER
    )
    prefixes = (entry["Prefix"] for page in pages for entry in page.get("CommonPrefixes", ()))
    return [prefix.removeprefix(place.root).rstrip(DELIMITER) for prefix in prefixes]


TRIES = 5
"""Number of times in all that a request is sent. botocore waits in between, with jitter, and repeats only what may
be."""
CONNECT_SECONDS = 5
READ_SECONDS = 30
CONNECTIONS = 16
_Read = TypeVar("_Read")


def connect(name: str | None = None, resolve: Resolver | None = None) -> Any:
    """Return a boto3 client for S3, safe to share between threads. `name` is a connection for `resolve`, None for none.

    The endpoint is the connection's, else AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the profile's, else Amazon's. On any
    but Amazon's the bucket is part of the path, unless the profile sets another style.
    """
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    given = S3Connection() if name is None else _resolved(name, resolve)
    try:
        session = boto3.session.Session(
            aws_access_key_id=given.access_key,
            aws_secret_access_key=given.secret_key.reveal() if given.secret_key else None,
            aws_session_token=given.session_token.reveal() if given.session_token else None,
            region_name=given.region,
        )
        config = Config(
            retries={"mode": "standard", "total_max_attempts": TRIES},
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            max_pool_connections=CONNECTIONS,
            user_agent_extra=f"evenkeel/{__version__}",
        )
        client = session.client("s3", endpoint_url=given.endpoint, config=config)
        if _is_amazons(session, client) or _style_of_profile(session):
            return client
        in_path = config.merge(Config(s3={"addressing_style": "path"}))
        return session.client("s3", endpoint_url=given.endpoint, config=in_path)
    except (BotoCoreError, ValueError) as error:
        raise explained(error, "cannot connect to S3") from None


def _resolved(name: str, resolve: Resolver | None) -> S3Connection:
    credentials = resolve(name) if resolve is not None else None
    if credentials is None:
        raise SettingsError(
            f"connection {name!r} is unknown: make it, or leave it out and let boto3 find credentials itself "
            "(AWS_ACCESS_KEY_ID, AWS_PROFILE, the instance's role)"
        )
    return credentials


def _is_amazons(session: Any, client: Any) -> bool:
    from botocore.config import Config

    amazon_client = session.client("s3", config=Config(ignore_configured_endpoint_urls=True))
    return bool(client.meta.endpoint_url == amazon_client.meta.endpoint_url)


def _style_of_profile(session: Any) -> bool:
    profile = session._session.get_scoped_config()
    return "addressing_style" in (profile.get("s3") or {})


BODY_TRIES = 4
SHA256 = "sha256"
"""Member of an object's metadata with its SHA-256 (hex)."""
_BROKEN_OFF = (HTTPClientError, IncompleteReadError, FlexibleChecksumError)
_HEAD_BYTES = 1 << 16
_CHUNK = 1 << 20


def read_head(client: Any, place: Place, key: str) -> Header:
    """Read the header of a snapshot from the beginning of its object; raises `BadInput` if it has none."""
    try:
        header = _again(
            lambda: client.get_object(Bucket=place.bucket, Key=key, Range=f"bytes=0-{_HEAD_BYTES - 1}")["Body"].read()
        )
        line, _, _ = zlib.decompressobj(wbits=31).decompress(header, MOST_HEADER_BYTES).partition(b"\n")
    except zlib.error as error:
        raise BadInput(f"it cannot be unpacked ({error})") from None
    except ClientError as error:
        raise _gone(error) from None
    return header_of_line(line)


def fetch(client: Any, place: Place, key: str, to: Path, limits: Limits) -> None:
    """Write the bytes of an object to a new file, synced to disk, and compare its SHA-256.

    Raises `BadInput` if the object does not exist, is larger than a snapshot may be, or differs from its checksum.
    """
    try:
        _again(lambda: _fetch(client, place, key, to, limits))
    except FlexibleChecksumError:
        raise BadInput("its bytes differ from the checksum that the store keeps with it: it is damaged") from None
    except ClientError as error:
        raise _gone(error) from None


def _fetch(client: Any, place: Place, key: str, to: Path, limits: Limits) -> None:
    answer = client.get_object(Bucket=place.bucket, Key=key)
    size = answer["ContentLength"]
    limits.demand("packed_mib", size, f"the snapshot has {size:,} bytes as stored", SEE)
    digest = hashlib.sha256()
    with to.open("wb") as file:
        for chunk in iter(lambda: answer["Body"].read(_CHUNK), b""):
            file.write(chunk)
            digest.update(chunk)
        file.flush()
        os.fsync(file.fileno())
    due = answer["Metadata"].get(SHA256, digest.hexdigest())
    if due != digest.hexdigest():
        raise BadInput(f"its SHA-256 is {digest.hexdigest()}, it was uploaded with {due}: it was replaced or damaged")


def _again(read: Callable[[], _Read]) -> _Read:
    """Repeat a read whose body breaks off, a few times: botocore repeats requests, but not the reading of a body."""
    return retry(read, tries=BODY_TRIES, pause=at_once, if_raised=lambda error: isinstance(error, _BROKEN_OFF))


def _gone(error: ClientError) -> Exception:
    return BadInput("it was removed after it was listed") if is_absent(error) else error


class S3Error(LandingError):
    """The store cannot be reached, refuses, or holds an object that must not be trusted."""


@contextmanager
def as_s3_error(doing: str) -> Iterator[None]:
    """Turn boto3's exceptions in the block into an `S3Error` that begins with `doing`."""
    try:
        yield
    except RAISED_BY_BOTO as error:
        raise explained(error, doing) from None


def explained(error: Exception, doing: str) -> S3Error:
    """Return the error as an operator reads it."""
    fault, advice = of_s3(error)
    return S3Error(f"{doing}: {fault}. {advice}")
