"""Names in a landing zone: one object per snapshot, named by its moment.

    PREFIX/CLUSTER/1772366405000-configuration.jsonl.gz
    PREFIX/CLUSTER/1772366465000.jsonl.gz

The number is the snapshot's moment in milliseconds since 1970, so names sort as times do. `-configuration` is added
if the snapshot holds the brokers' configuration: a listing alone finds the one that lends it. An object appears
whole or not at all, and who writes a name first with `If-None-Match: *` has it. PREFIX is taken as it is given,
CLUSTER is percent-encoded, so that any name makes exactly one level.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from evenkeel.errors import BadInput
from evenkeel.sources.snapshot_files import Header
from evenkeel.sources.writing import SUFFIX

SCHEME = "s3://"
DELIMITER = "/"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CREDENTIALS = re.compile(r"//[^/@]*@")
_MARK = "-configuration"
_NAME = re.compile(rf"(\d{{13}})({_MARK})?{re.escape(SUFFIX)}")
# The newest are requested first; then those of four times as long a time before them, and so on.
_FIRST_SPAN, _GROWTH = 3_600_000, 4


@dataclass(frozen=True, slots=True)
class Entry:
    """A snapshot by its name.

    `number`: its moment in milliseconds since 1970. `may_lend`: its name shows that it holds the brokers'
    configuration.
    """

    number: int
    key: str
    may_lend: bool

    @property
    def moment(self) -> datetime:
        """The moment of the snapshot."""
        return _EPOCH + timedelta(milliseconds=self.number)


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
        return f"{self.of_cluster(cluster)}{milliseconds(header.moment)}{mark}{SUFFIX}"


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


def milliseconds(moment: datetime) -> str:
    """Return 13 digits: names sort as times do, from 2001 to 2286; other years are refused."""
    number = as_number(moment)
    if not 10**12 <= number < 10**13:
        raise BadInput(f"{moment.isoformat()} is not a moment of a snapshot: is the collecting machine's clock set?")
    return str(number)


def as_number(moment: datetime) -> int:
    """Return the moment in whole milliseconds since 1970."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


# Listings. Objects with other names than snapshots have are ignored.


def newest_first(client: Any, place: Place, cluster: str, until: datetime | None = None) -> Iterator[Entry]:
    """Yield the snapshots of a cluster from `until` (included; None: from the newest) back to the first."""
    last = None if until is None else as_number(until)
    reach, span = as_number(datetime.now(UTC)) if last is None else last, _FIRST_SPAN
    while reach > 0:
        first = max(reach - span, 0)
        yield from reversed(list(oldest_first(client, place, cluster, first, last)))
        reach, last, span = first - 1, first - 1, span * _GROWTH


def oldest_first(client: Any, place: Place, cluster: str, first: int, last: int | None = None) -> Iterator[Entry]:
    """Yield the snapshots of a cluster between two numbers (both included; None: to the newest), a thousand at a
    time."""
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
            yield Entry(int(name[1]), listed["Key"], may_lend=name[2] is not None)


def clusters_in(client: Any, place: Place) -> list[str]:
    """Return the clusters with any objects in a landing zone, by their names in it."""
    pages = client.get_paginator("list_objects_v2").paginate(
        Bucket=place.bucket, Prefix=place.root, Delimiter=DELIMITER
    )
    prefixes = (entry["Prefix"] for page in pages for entry in page.get("CommonPrefixes", ()))
    return [prefix.removeprefix(place.root).rstrip(DELIMITER) for prefix in prefixes]
