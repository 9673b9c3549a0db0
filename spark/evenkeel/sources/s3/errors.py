"""What a store's answer means for the operator: what is wrong, where, and what to do.

Only an error's code and message are shown. The rest of an answer to a refused request repeats what was signed, and a
URL may hold credentials: neither goes into a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from botocore import exceptions as boto
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from s3transfer.exceptions import RetriesExceededError

from evenkeel.errors import LandingError

LONGEST_MESSAGE = 300
RAISED_BY_BOTO = (BotoCoreError, ClientError, ResponseParserError, RetriesExceededError)

_CREDENTIALS = (
    "Check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, the profile (AWS_PROFILE) or the connection that holds them."
)
_RIGHTS = (
    "Uploading needs s3:ListBucket on the bucket and s3:GetObject, s3:PutObject, s3:DeleteObject below the prefix; "
    "reading needs the first two."
)
_REGION = "Set AWS_REGION to the region of the bucket, or AWS_ENDPOINT_URL_S3 to the store that holds it."
_ENDPOINT = "Check AWS_ENDPOINT_URL_S3 (or the profile's endpoint_url), the network, and the proxy settings."
_PROXY = f"Is a proxy in between? {_ENDPOINT}"
_LATER = "Nothing is lost: run it again later."

# Code of the error → what is wrong and what to do. Codes that are digits come from answers without a body (HEAD).
_CODES: Mapping[str, tuple[str, str]] = {
    "NoSuchBucket": ("there is no such bucket at this store", f"Create it, or correct the address. {_ENDPOINT}"),
    "AccessDenied": ("access is denied", f"{_RIGHTS} Without the right to list, a missing object is denied too."),
    "403": ("access is denied", f"{_RIGHTS} {_CREDENTIALS}"),
    "AllAccessDisabled": ("the store has closed the bucket", "Ask its owner."),
    "InvalidAccessKeyId": ("the store does not know the access key id", _CREDENTIALS),
    "SignatureDoesNotMatch": ("the secret key does not belong to the access key id", _CREDENTIALS),
    "ExpiredToken": ("the session token has expired", "Log in again, or let the role be taken anew."),
    "InvalidToken": ("the session token is not valid here", _CREDENTIALS),
    "PermanentRedirect": ("the bucket lies in another region", _REGION),
    "301": ("the bucket lies in another region", _REGION),
    "AuthorizationHeaderMalformed": ("the request was signed for another region", _REGION),
    "IllegalLocationConstraintException": ("the bucket lies in another region", _REGION),
    "NotImplemented": (
        "the store does not know a request that the landing zone needs",
        "It must know conditional writes (If-None-Match), without which two collectors could overwrite each other.",
    ),
    "SlowDown": ("the store asks to slow down", _LATER),
    "503": ("the store is not available", _LATER),
    "ServiceUnavailable": ("the store is not available", _LATER),
    "InternalError": ("the store failed inside", _LATER),
    "RequestTimeout": ("the store did not get the whole request in time", _LATER),
    "BadDigest": ("the bytes changed on their way, or the file while it was read", _LATER),
    "XAmzContentSHA256Mismatch": ("the bytes changed on their way, or the file while it was read", _LATER),
    "KeyTooLongError": (
        "the prefix and the cluster's name are too long for a key (1,024 bytes)",
        "Shorten the prefix.",
    ),
}


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
    what, advice = _of_answer(error) if isinstance(error, ClientError) else _of_connection(error)
    return S3Error(f"{doing}: {what}. {advice}")


def code_of(error: ClientError) -> str:
    """The code that the store's answer names; digits (its status) where it had no body."""
    return str(error.response.get("Error", {}).get("Code", ""))


def is_absent(error: ClientError) -> bool:
    """Whether the answer says that there is no such object (in a bucket that is there)."""
    return code_of(error) in ("NoSuchKey", "404", "NotFound")


def _of_answer(error: ClientError) -> tuple[str, str]:
    code = code_of(error)
    if code == "RequestTimeTooSkewed":
        return _skewed(error)
    if code in _CODES:
        return _CODES[code]
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", "?")
    message = one_line(str(error.response.get("Error", {}).get("Message", "")))
    if not code or code.isdigit():
        return f"the answer is not one of S3 (HTTP status {status})", _PROXY
    return f"the store answered {code}, HTTP status {status}: {message or 'without a word'}", _ENDPOINT


def _skewed(error: ClientError) -> tuple[str, str]:
    told_by_store: Mapping[str, Any] = error.response.get("Error", {})
    ours, theirs = told_by_store.get("RequestTime"), told_by_store.get("ServerTime")
    times = f" (here {one_line(str(ours))}, there {one_line(str(theirs))})" if ours and theirs else ""
    return (
        f"this machine's clock and the store's are too far apart{times}",
        "Set the clock by NTP; snapshots taken meanwhile bear the wrong time.",
    )


def _of_connection(error: Exception) -> tuple[str, str]:
    if isinstance(error, boto.NoCredentialsError):
        return "no credentials were found", _CREDENTIALS
    if isinstance(error, boto.PartialCredentialsError | boto.CredentialRetrievalError | boto.TokenRetrievalError):
        return "the credentials are incomplete or cannot be had", _CREDENTIALS
    if isinstance(error, boto.ProfileNotFound | boto.ConfigParseError | boto.ConfigNotFound):
        return f"AWS's configuration does not fit: {one_line(str(error))}", "Check AWS_PROFILE and ~/.aws."
    if isinstance(error, boto.NoRegionError | boto.InvalidRegionError):
        return "no usable region is set", _REGION
    if isinstance(error, boto.SSLError):
        return f"TLS to {_host(error)} failed: {one_line(str(error.kwargs.get('error', '')))}", (
            "Check the certificate; a company's own authority goes into AWS_CA_BUNDLE."
        )
    if isinstance(error, RetriesExceededError):
        return "answers break off in the middle, again and again", f"{_ENDPOINT} {_LATER}"
    if isinstance(error, boto.ConnectionError | boto.HTTPClientError | boto.IncompleteReadError):
        return f"no whole answer from {_host(error)} ({type(error).__name__})", f"{_ENDPOINT} {_LATER}"
    if isinstance(error, ResponseParserError):
        return "the answer is not one of S3", _PROXY
    if isinstance(error, ValueError):
        return "the endpoint is no URL like https://store.example:9000", _ENDPOINT
    return one_line(str(error)), _ENDPOINT


def _host(error: Exception) -> str:
    """scheme://host:port of the URL that the error is about, without user, path and query."""
    try:
        url = urlsplit(str(getattr(error, "kwargs", {}).get("endpoint_url", "")))
        port = f":{url.port}" if url.port else ""
    except ValueError:
        return "the store"
    return f"{url.scheme}://{url.hostname}{port}" if url.hostname else "the store"


def one_line(text: str) -> str:
    """Short, on one line, and without the user part of any URL."""
    return re.sub(r"//[^/@\s]*@", "//", " ".join(text.split()))[:LONGEST_MESSAGE]
