"""The connection to a store that speaks S3.

Credentials come from where every tool of AWS finds them (environment, profile, the instance's role), or from a named
connection that the caller resolves. They stand in no message and in no `repr`.
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
"""How often a request is sent in all. botocore waits in between, with jitter, and repeats only what may be repeated."""
CONNECT_SECONDS = 5
READ_SECONDS = 30
CONNECTIONS = 16
_Read = TypeVar("_Read")


def connect(name: str | None = None, resolve: Resolver | None = None) -> Any:
    """A boto3 client for S3, safe to share between threads. `name` is a connection that `resolve` knows, None for none.

    The endpoint is the connection's, else AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL or the profile's, else Amazon's; on any
    but Amazon's the bucket stands in the path, unless the profile asks for another style.
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
    found = resolve(name) if resolve is not None else None
    if found is None:
        raise SettingsError(
            f"connection {name!r} is not known here: make it, or leave it out and let boto3 find credentials itself "
            "(AWS_ACCESS_KEY_ID, AWS_PROFILE, the instance's role)"
        )
    return found


def _is_amazons(session: Any, client: Any) -> bool:
    from botocore.config import Config

    own = session.client("s3", config=Config(ignore_configured_endpoint_urls=True))
    return bool(client.meta.endpoint_url == own.meta.endpoint_url)


def _style_of_profile(session: Any) -> bool:
    profile = session._session.get_scoped_config()
    return "addressing_style" in (profile.get("s3") or {})


# Objects, of which one is a whole snapshot.

BODY_TRIES = 4
SHA256 = "sha256"
"""The member of an object's metadata with its SHA-256 (hex)."""
_BROKEN_OFF = (HTTPClientError, IncompleteReadError, FlexibleChecksumError)
_HEAD_BYTES = 1 << 16
_CHUNK = 1 << 20


def read_head(client: Any, place: Place, key: str) -> Header:
    """Read the header of a snapshot from the beginning of its object; `BadInput` if it has none."""
    try:
        found = _again(
            lambda: client.get_object(Bucket=place.bucket, Key=key, Range=f"bytes=0-{_HEAD_BYTES - 1}")["Body"].read()
        )
        line, _, _ = zlib.decompressobj(wbits=31).decompress(found, MOST_HEADER_BYTES).partition(b"\n")
    except zlib.error as error:
        raise BadInput(f"it cannot be unpacked ({error})") from None
    except ClientError as error:
        raise _gone(error) from None
    return header_of_line(line)


def fetch(client: Any, place: Place, key: str, to: Path, limits: Limits) -> None:
    """Write the bytes of an object to a new file, settled on disk. Its SHA-256 is compared on the way.

    `BadInput`: the object is not there, is larger than a snapshot may be, or differs from its checksum.
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
    limits.demand("packed_mib", size, f"the snapshot has {size:,} bytes as it lies there", SEE)
    found = hashlib.sha256()
    with to.open("wb") as file:
        for chunk in iter(lambda: answer["Body"].read(_CHUNK), b""):
            file.write(chunk)
            found.update(chunk)
        file.flush()
        os.fsync(file.fileno())
    due = answer["Metadata"].get(SHA256, found.hexdigest())
    if due != found.hexdigest():
        raise BadInput(f"its SHA-256 is {found.hexdigest()}, it was uploaded with {due}: it was replaced or damaged")


def _again(read: Callable[[], _Read]) -> _Read:
    """A body that breaks off is asked for again, a few times: botocore repeats requests, but not the reading of an
    answer's body."""
    return retry(read, tries=BODY_TRIES, pause=at_once, if_raised=lambda error: isinstance(error, _BROKEN_OFF))


def _gone(error: ClientError) -> Exception:
    return BadInput("it was removed after it was listed") if is_absent(error) else error


# The error of a store that speaks S3, for the operator.


class S3Error(LandingError):
    """The store cannot be reached, refuses, or holds what must not be trusted."""


@contextmanager
def as_s3_error(doing: str) -> Iterator[None]:
    """Turns what boto3 raises inside into an `S3Error` that begins with `doing`."""
    try:
        yield
    except RAISED_BY_BOTO as error:
        raise explained(error, doing) from None


def explained(error: Exception, doing: str) -> S3Error:
    """The error for the operator's eyes."""
    what, advice = of_s3(error)
    return S3Error(f"{doing}: {what}. {advice}")
