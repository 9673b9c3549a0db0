"""What lies where in the landing zone: manifests, names of objects, and which snapshots there are.

Nothing in it is believed before it is checked: names of files become names on a disk, and sizes bound what is fetched.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from evenkeel.errors import BadInput
from evenkeel.json_text import NotJson, parse_json
from evenkeel.sources.recordings import FOLDER_HEADER, utc

FORMAT = 1
DOCUMENTS = ("document.json", "document.json.gz")
"""What a snapshot of one JSON document is called in the landing zone, plain and packed."""

_PART = re.compile(r"requests-[^/\\\x00]{1,200}\.jsonl(\.gz)?")
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file of a snapshot: its name, its size in bytes, its sha256 (hex)."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a landed snapshot says of itself. `collector` names the machine that uploaded it, `version` its Evenkeel."""

    cluster: str
    started_at: datetime
    finished_at: datetime
    has_configuration: bool
    files: tuple[StoredFile, ...]
    collector: str
    version: str
    cycle_at: datetime | None = None

    @property
    def moment(self) -> datetime:
        """The moment that the snapshot stands for: of its cycle where it was taken for one, else of its end."""
        return self.cycle_at or self.finished_at

    @property
    def digest(self) -> str:
        """sha256 (hex) of names, sizes and digests of the files, whatever their order."""
        listed = sorted([file.name, file.size, file.sha256] for file in self.files)
        return hashlib.sha256(json.dumps(listed).encode()).hexdigest()

    @property
    def is_document(self) -> bool:
        """Whether the snapshot is one JSON document; else it is a folder."""
        return self.files[0].name in DOCUMENTS

    def to_bytes(self) -> bytes:
        """JSON with sorted members: the same snapshot makes the same bytes."""
        body = {
            "format": FORMAT,
            "cluster": self.cluster,
            "started_at": self.started_at.isoformat(),
            "finished_at": self.finished_at.isoformat(),
            "cycle_at": self.cycle_at.isoformat() if self.cycle_at else None,
            "has_configuration": self.has_configuration,
            "files": [{"name": file.name, "size": file.size, "sha256": file.sha256} for file in self.files],
            "digest": self.digest,
            "uploaded_by": {"collector": self.collector, "version": self.version},
        }
        return (json.dumps(body, sort_keys=True, ensure_ascii=False, indent=1) + "\n").encode("utf-8")


def read_manifest(data: bytes) -> Manifest:
    """The manifest in these bytes; `BadInput` says which member cannot be what it should be."""
    try:
        body = parse_json(data)
    except NotJson as error:
        raise BadInput(f"it is not JSON ({error})") from None
    if not isinstance(body, dict):
        raise BadInput(f"it is a JSON {type(body).__name__}, not an object")
    if body.get("format") != FORMAT:
        raise BadInput(f"format is {body.get('format')!r}; this version reads format {FORMAT}")
    uploaded_by = body.get("uploaded_by")
    if not isinstance(uploaded_by, dict):
        uploaded_by = {}
    manifest = Manifest(
        cluster=_text(body, "cluster"),
        started_at=utc(body.get("started_at")),
        finished_at=utc(body.get("finished_at")),
        cycle_at=utc(body["cycle_at"]) if body.get("cycle_at") is not None else None,
        has_configuration=body.get("has_configuration") is True,
        files=_files(body.get("files")),
        collector=str(uploaded_by.get("collector") or "unknown"),
        version=str(uploaded_by.get("version") or "unknown"),
    )
    if body.get("digest") != manifest.digest:
        raise BadInput("its digest is not the one of the files that it lists: it was altered, or written by other code")
    return manifest


def _text(body: Mapping[str, Any], member: str) -> str:
    value = body.get(member)
    if not isinstance(value, str) or not value:
        raise BadInput(f"member {member} is missing or no text")
    return value


def _files(listed: object) -> tuple[StoredFile, ...]:
    if not isinstance(listed, list) or not listed:
        raise BadInput("member files lists nothing")
    files = tuple(_file(entry) for entry in listed)
    check_names([file.name for file in files])
    return files


def _file(entry: object) -> StoredFile:
    if not isinstance(entry, dict):
        raise BadInput(f"an entry of files is a JSON {type(entry).__name__}, not an object")
    name, size, sha256 = entry.get("name"), entry.get("size"), entry.get("sha256")
    if not isinstance(name, str):
        raise BadInput(f"a file has the name {name!r}")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise BadInput(f"file {name} has the size {size!r}")
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise BadInput(f"file {name} has no sha256 of 64 hex digits")
    return StoredFile(name, size, sha256)


def check_names(names: Sequence[str]) -> None:
    """Demands the files of one document, or of one folder: anything else could leave the folder it is written to."""
    if len(names) == 1 and names[0] in DOCUMENTS:
        return
    strange = [name for name in names if name != FOLDER_HEADER and not _PART.fullmatch(name)]
    if strange:
        raise BadInput(
            f"file {strange[0]!r} belongs to no snapshot: expected {FOLDER_HEADER} and requests-*.jsonl[.gz]"
        )
    if len(set(names)) < len(names):
        raise BadInput("a file is listed twice")
    if FOLDER_HEADER not in names or len(names) == 1:
        raise BadInput(
            f"a snapshot's folder holds {FOLDER_HEADER} and requests-*.jsonl[.gz]; listed are {', '.join(names)}"
        )


# Where things lie in the landing zone: names of objects from moments and digests, and back.
#
#     PREFIX/CLUSTER/2026/03/01/1772366405000-0123456789ab-configuration/requests-0.jsonl.gz    data, written first
#     PREFIX/CLUSTER/2026/03/01/1772366405000.manifest.json                                     manifest, written last
#
# The number is the snapshot's moment in milliseconds since 1970, floored; the hex digits begin the digest of its files;
# `-configuration` stands there if the snapshot holds the brokers' configuration, so that a listing alone finds the
# snapshot that lends it. The manifest's name holds the moment and nothing else: whoever writes it first with
# `If-None-Match: *` has the moment, and the store itself is the judge. A folder without its manifest is half written.
#
# PREFIX is taken as it is given, CLUSTER is percent-encoded, so that any name makes exactly one level.

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
    """A cluster's name as one level of a path; different names stay different."""
    if not cluster:
        raise BadInput("a snapshot in S3 belongs to a cluster: its name is empty")
    if not cluster.strip("."):
        return cluster.replace(".", "%2E")
    try:
        return quote(cluster, safe="")
    except UnicodeEncodeError:
        raise BadInput(f"the cluster's name {cluster!r} is not valid Unicode") from None


def milliseconds(moment: datetime) -> str:
    """13 digits: names sort as times do, from 2001 to 2286; other years are refused."""
    number = as_number(moment)
    if not 10**12 <= number < 10**13:
        raise BadInput(f"{moment.isoformat()} is not a moment of a snapshot: is the collecting machine's clock set?")
    return str(number)


def manifest_number(name: str) -> int | None:
    """The milliseconds in the last part of a manifest's key, None if it is not a manifest's."""
    match = _MANIFEST.fullmatch(name)
    return int(match[1]) if match else None


def lends_configuration(name: str) -> int | None:
    """The milliseconds in the name of a data folder whose snapshot holds configuration, else None."""
    match = _DATA.fullmatch(name)
    return int(match[1]) if match and match[3] else None


def as_number(moment: datetime) -> int:
    """The moment in whole milliseconds since 1970."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


# Which snapshots a landing zone holds: by manifests, newest first, without listing more than the days in question.
#
# The date folders are walked from the top (years, months, days: one request each), and of a day only manifests and the
# names of data folders are listed, a thousand to a request; a year of snapshots costs no more than its last day.

_LEVELS = (re.compile(r"\d{4}/"), re.compile(r"\d{2}/"), re.compile(r"\d{2}/"))


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A manifest by its name: the snapshot's moment in milliseconds since 1970.

    `may_lend`: data of that moment claims to hold the brokers' configuration. It is a hint: the manifest decides.
    """

    number: int
    key: str
    may_lend: bool


def newest_first(
    client: Any, place: Place, cluster: str, *, until: datetime | None = None, since: datetime | None = None
) -> Iterator[ManifestEntry]:
    """The manifests of a cluster from `until` (included; None: from the newest) back to `since` (included)."""
    last = as_number(until) if until else None
    first = as_number(since) if since else None
    for day in days(client, place, cluster, until=until, since=since):
        yield from reversed(_of_day(client, place, day, first, last))


def first_since(client: Any, place: Place, cluster: str, moment: datetime) -> ManifestEntry | None:
    """The earliest manifest at or after a moment, None if there is none."""
    for day in days(client, place, cluster, since=moment, backwards=False):
        for entry in _of_day(client, place, day, as_number(moment), None):
            return entry
    return None


def days(
    client: Any,
    place: Place,
    cluster: str,
    *,
    until: datetime | None = None,
    since: datetime | None = None,
    backwards: bool = True,
) -> Iterator[str]:
    """The prefixes of days that hold anything, between the days of two moments, newest first or oldest first."""
    root = place.of_cluster(cluster)
    highest = f"{until.astimezone(UTC):%Y/%m/%d}/" if until else "9999/99/99/"
    lowest = f"{since.astimezone(UTC):%Y/%m/%d}/" if since else "0000/00/00/"

    def below(path: str, level: int) -> Iterator[str]:
        if level == len(_LEVELS):
            yield root + path
            return
        names = [name for name in children(client, place, root + path) if _LEVELS[level].fullmatch(name)]
        for name in sorted(names, reverse=backwards):
            deeper = path + name
            if lowest[: len(deeper)] <= deeper <= highest[: len(deeper)]:
                yield from below(deeper, level + 1)

    return below("", 0)


def children(client: Any, place: Place, prefix: str) -> list[str]:
    """The names of the folders right below a prefix, each with its slash."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=place.bucket, Prefix=prefix, Delimiter=DELIMITER)
    return [found["Prefix"].removeprefix(prefix) for page in pages for found in page.get("CommonPrefixes", ())]


def objects_below(client: Any, place: Place, prefix: str) -> dict[str, int]:
    """Key → size in bytes of every object whose key begins with the prefix."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=place.bucket, Prefix=prefix)
    return {found["Key"]: found["Size"] for page in pages for found in page.get("Contents", ())}


def _of_day(client: Any, place: Place, day: str, first: int | None, last: int | None) -> list[ManifestEntry]:
    """The manifests of a day between two numbers, oldest first; pages behind the last one are not asked for."""
    found: dict[int, str] = {}
    lenders: set[int] = set()
    for page in _pages(client, place, day, first):
        highest = 0
        for folder in page.get("CommonPrefixes", ()):
            number = lends_configuration(folder["Prefix"].removeprefix(day))
            if number is not None:
                lenders.add(number)
        for file in page.get("Contents", ()):
            number = manifest_number(file["Key"].removeprefix(day))
            if number is not None:
                found[number] = file["Key"]
                highest = max(highest, number)
        if last is not None and highest > last:
            break
    return [
        ManifestEntry(number, found[number], may_lend=number in lenders)
        for number in sorted(found)
        if (first is None or number >= first) and (last is None or number <= last)
    ]


def _pages(client: Any, place: Place, day: str, first: int | None) -> Iterable[dict[str, Any]]:
    bounds = {"StartAfter": f"{day}{first - 1:013d}~"} if first is not None else {}
    pages: Iterable[dict[str, Any]] = client.get_paginator("list_objects_v2").paginate(
        Bucket=place.bucket, Prefix=day, Delimiter=DELIMITER, **bounds
    )
    return pages
