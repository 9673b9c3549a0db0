"""The connection to a store that speaks S3.

Credentials come from where every tool of AWS finds them (environment, profile, the instance's role), or from a named
connection that the caller resolves. They stand in no message and in no `repr`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import ClientError, FlexibleChecksumError, HTTPClientError, IncompleteReadError

from evenkeel import __version__
from evenkeel.aws_errors import RAISED_BY_BOTO, is_absent, of_s3
from evenkeel.errors import BadInput, LandingError, SettingsError
from evenkeel.object_store import Resolver, S3Connection
from evenkeel.retrying import at_once, retry
from evenkeel.sources.landing_zone.layout import Place

TRIES = 5
"""How often a request is sent in all. botocore waits in between, with jitter, and repeats only what may be repeated."""
CONNECT_SECONDS = 5
READ_SECONDS = 30
CONNECTIONS = 16


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


# Small objects whole, in this process.

MOST_BYTES = 16 << 20
BODY_TRIES = 4
_BROKEN_OFF = (HTTPClientError, IncompleteReadError, FlexibleChecksumError)


def read_object(client: Any, place: Place, key: str) -> bytes | None:
    """The object's bytes, None if there is none. A body that breaks off is asked for again, a few times.

    (botocore repeats requests, but not the reading of an answer's body.) `BadInput`: it is not a small object.
    """
    return retry(
        lambda: _read(client, place, key),
        tries=BODY_TRIES,
        pause=at_once,
        if_raised=lambda error: isinstance(error, _BROKEN_OFF),
    )


def _read(client: Any, place: Place, key: str) -> bytes | None:
    try:
        answer = client.get_object(Bucket=place.bucket, Key=key)
        if answer["ContentLength"] > MOST_BYTES:
            raise BadInput(f"it has {answer['ContentLength']} bytes; a manifest has at most {MOST_BYTES}")
        return bytes(answer["Body"].read())
    except ClientError as error:
        if is_absent(error):
            return None
        raise


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
