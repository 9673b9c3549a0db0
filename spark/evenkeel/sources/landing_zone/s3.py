"""The connection to a store that speaks S3.

Credentials come from the usual places of AWS's tools (environment, profile, the instance's role), or from a named
connection that the caller resolves. No message and no `repr` shows them.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from botocore.exceptions import ClientError, FlexibleChecksumError, HTTPClientError, IncompleteReadError

from evenkeel import __version__
from evenkeel.aws_errors import RAISED_BY_BOTO, is_absent, of_s3
from evenkeel.errors import BadInput, LandingError, SettingsError
from evenkeel.object_store import Resolver, S3Connection
from evenkeel.pulsar.limits import Limits
from evenkeel.retrying import at_once, retry
from evenkeel.sources.landing_zone.layout import Place
from evenkeel.sources.snapshot_files import MOST_HEADER_BYTES, SEE, Header, header_of_line

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


# Objects; each is a whole snapshot.

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


# Errors of a store that speaks S3, for the operator.


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
