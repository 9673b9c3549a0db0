"""The error of a store that speaks S3, told to the operator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from evenkeel.aws_errors import RAISED_BY_BOTO, of_s3
from evenkeel.errors import LandingError


class S3Error(LandingError):
    """The store cannot be reached, refuses, or holds what must not be trusted."""


@contextmanager
def told(doing: str) -> Iterator[None]:
    """Turns what boto3 raises inside into an `S3Error` that begins with `doing`."""
    try:
        yield
    except RAISED_BY_BOTO as error:
        raise explained(error, doing) from None


def explained(error: Exception, doing: str) -> S3Error:
    """The error for the operator's eyes."""
    what, advice = of_s3(error)
    return S3Error(f"{doing}: {what}. {advice}")
