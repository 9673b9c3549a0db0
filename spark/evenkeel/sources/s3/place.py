"""Where things lie in the landing zone: names of objects from moments and digests, and back.

    PREFIX/CLUSTER/2026/03/01/1772366405000-0123456789ab-configuration/requests-0.jsonl.gz    data, written first
    PREFIX/CLUSTER/2026/03/01/1772366405000.manifest.json                                     manifest, written last

The number is the snapshot's moment in milliseconds since 1970, floored; the hex digits begin the digest of its files;
`-configuration` stands there if the snapshot holds the brokers' configuration, so that a listing alone finds the
snapshot that lends it. The manifest's name tells the moment and nothing else: whoever writes it first with
`If-None-Match: *` has the moment, and the store itself is the judge. A folder without its manifest is half written.

PREFIX is taken as it is given, CLUSTER is percent-encoded, so that any name makes exactly one level.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from evenkeel.errors import BadInput
from evenkeel.sources.s3.manifest import Manifest

SCHEME = "s3://"
DELIMITER = "/"
DIGEST_DIGITS = 12

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CREDENTIALS = re.compile(r"//[^/@]*@")
_MANIFEST = re.compile(r"(\d{13})\.manifest\.json")
_DATA = re.compile(rf"(\d{{13}})-([0-9a-f]{{{DIGEST_DIGITS}}})(-configuration)?/")


@dataclass(frozen=True, slots=True)
class Place:
    """A landing zone: a bucket, and the prefix below it without a slash at its ends (may be empty)."""

    bucket: str
    prefix: str

    def __str__(self) -> str:
        return SCHEME + "/".join(part for part in (self.bucket, self.prefix) if part)

    def url(self, key: str) -> str:
        """The object's name as operators write it."""
        return f"{SCHEME}{self.bucket}/{key}"

    @property
    def root(self) -> str:
        """The prefix of all objects, with a slash at its end if it is not empty."""
        return self.prefix + DELIMITER if self.prefix else ""

    def of_cluster(self, cluster: str) -> str:
        """The prefix of all objects of a cluster, with a slash at its end."""
        return self.root + quoted(cluster) + DELIMITER

    def of_day(self, cluster: str, moment: datetime) -> str:
        """The prefix of all objects of a cluster's day (UTC), with a slash at its end."""
        return f"{self.of_cluster(cluster)}{moment.astimezone(UTC):%Y/%m/%d}/"

    def manifest(self, cluster: str, moment: datetime) -> str:
        """The key of the manifest of a moment."""
        return f"{self.of_day(cluster, moment)}{milliseconds(moment)}.manifest.json"

    def data(self, manifest: Manifest) -> str:
        """The prefix of a snapshot's data, with a slash at its end."""
        mark = "-configuration" if manifest.has_configuration else ""
        name = f"{milliseconds(manifest.moment)}-{manifest.digest[:DIGEST_DIGITS]}{mark}"
        return f"{self.of_day(manifest.cluster, manifest.moment)}{name}/"


def place_of(url: str) -> Place:
    """The landing zone that `s3://bucket/prefix` names; everything behind the bucket is taken literally."""
    if not url.startswith(SCHEME):
        raise BadInput(f"{_CREDENTIALS.sub('//', url)!r} is no S3 address: write s3://BUCKET/PREFIX")
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
    """A cluster's name as one level of a path; different names stay different."""
    if not cluster:
        raise BadInput("a snapshot in S3 belongs to a cluster: its name is empty")
    if not cluster.strip("."):
        return cluster.replace(".", "%2E")
    try:
        return quote(cluster, safe="")
    except UnicodeEncodeError:
        raise BadInput(f"the cluster's name {cluster!r} is no valid Unicode") from None


def milliseconds(moment: datetime) -> str:
    """13 digits: names sort as times do, from 2001 to 2286; other years are refused."""
    number = as_number(moment)
    if not 10**12 <= number < 10**13:
        raise BadInput(f"{moment.isoformat()} is no moment of a snapshot: is the collecting machine's clock set?")
    return str(number)


def manifest_number(name: str) -> int | None:
    """The milliseconds in the last part of a manifest's key, None if it is no manifest's."""
    match = _MANIFEST.fullmatch(name)
    return int(match[1]) if match else None


def lends_configuration(name: str) -> int | None:
    """The milliseconds in the name of a data folder whose snapshot holds configuration, else None."""
    match = _DATA.fullmatch(name)
    return int(match[1]) if match and match[3] else None


def as_number(moment: datetime) -> int:
    """The moment in whole milliseconds since 1970."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)
