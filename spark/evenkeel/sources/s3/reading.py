"""Small objects whole, in this process."""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError, FlexibleChecksumError, HTTPClientError, IncompleteReadError

from evenkeel.aws_errors import is_absent
from evenkeel.errors import BadInput
from evenkeel.retrying import at_once, retry
from evenkeel.sources.s3.place import Place

MOST_BYTES = 16 << 20
BODY_TRIES = 4
_BROKEN_OFF = (HTTPClientError, IncompleteReadError, FlexibleChecksumError)


def read_object(client: Any, place: Place, key: str) -> bytes | None:
    """The object's bytes, None if there is none. A body that breaks off is asked for again, a few times.

    (botocore repeats requests, but not the reading of an answer's body.) `BadInput`: it is no small object.
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
