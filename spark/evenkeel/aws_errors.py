"""Errors of boto3 for S3 and SQS, in an operator's words: what is wrong, where, and what to do.

Only an error's code and message are shown. The rest of an answer to a refused request repeats what was signed, and a
URL may hold credentials: neither goes into a text.

A process that only sends to a cluster needs no boto3, so the rooms of S3 and SQS load this module when they use one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from botocore import exceptions as boto
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from s3transfer.exceptions import RetriesExceededError

RAISED_BY_BOTO = (BotoCoreError, ClientError, ResponseParserError, RetriesExceededError)
"""Exceptions of a client call that the service or the network causes. A `ValueError` may come too, for an endpoint that
is not a URL."""
LONGEST_MESSAGE = 300

_BROKEN_OFF = (boto.ConnectionError, boto.HTTPClientError, boto.IncompleteReadError)


def code_of(error: ClientError) -> str:
    """Return the code that the service's answer names; digits (its status) or "" if it had no body."""
    return str(error.response.get("Error", {}).get("Code", ""))


def _answer_of(error: ClientError) -> tuple[str, int | None, str]:
    """Return code, status and message of a refused request; missing parts are "" or None."""
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    return code_of(error), status, str(error.response.get("Error", {}).get("Message", ""))


def one_line(text: str, longest: int = LONGEST_MESSAGE) -> str:
    """Return the text cut short, on one line, and without the user part of any URL."""
    return re.sub(r"//[^/@\s]*@", "//", " ".join(text.split()))[:longest]


_CREDENTIALS = (
    "Check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, the profile (AWS_PROFILE) or the connection that holds them."
)
_RIGHTS = (
    "Uploading needs s3:ListBucket on the bucket and s3:GetObject and s3:PutObject below the prefix; "
    "reading needs the first two."
)
_REGION = "Set AWS_REGION to the region of the bucket, or AWS_ENDPOINT_URL_S3 to the store that holds it."
_ENDPOINT = "Check AWS_ENDPOINT_URL_S3 (or the profile's endpoint_url), the network, and the proxy settings."
_PROXY = f"Is a proxy in between? {_ENDPOINT}"
_LATER = "Nothing is lost: run it again later."

# Code of the error → what is wrong and what to do. Codes that are digits come from answers without a body (HEAD).
_S3_CODES: Mapping[str, tuple[str, str]] = {
    "NoSuchBucket": ("there is no such bucket at this store", f"Create it, or correct the address. {_ENDPOINT}"),
    "AccessDenied": ("access is denied", f"{_RIGHTS} Without the right to list, a missing object is denied too."),
    "403": ("access is denied", f"{_RIGHTS} {_CREDENTIALS}"),
    "AllAccessDisabled": ("the store has closed the bucket", "Ask its owner."),
    "InvalidAccessKeyId": ("the store does not know the access key id", _CREDENTIALS),
    "SignatureDoesNotMatch": ("the secret key does not belong to the access key id", _CREDENTIALS),
    "ExpiredToken": ("the session token has expired", "Log in again, or assume the role again."),
    "InvalidToken": ("the session token is not valid for this store", _CREDENTIALS),
    "PermanentRedirect": ("the bucket is in another region", _REGION),
    "301": ("the bucket is in another region", _REGION),
    "AuthorizationHeaderMalformed": ("the request was signed for another region", _REGION),
    "IllegalLocationConstraintException": ("the bucket is in another region", _REGION),
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


def of_s3(error: Exception) -> tuple[str, str]:
    """Return the fault of the store or the network, and what to do: two texts, the second of whole sentences."""
    return _of_answer(error) if isinstance(error, ClientError) else _of_connection(error)


def is_absent(error: ClientError) -> bool:
    """Return True if S3 answers that an existing bucket has no such object."""
    return code_of(error) in ("NoSuchKey", "404", "NotFound")


def _of_answer(error: ClientError) -> tuple[str, str]:
    code, status, message = _answer_of(error)
    shown_status = "?" if status is None else status
    if code == "RequestTimeTooSkewed":
        return _skewed(error.response["Error"])
    if code in _S3_CODES:
        return _S3_CODES[code]
    if not code or code.isdigit():
        return f"the answer is not one of S3 (HTTP status {shown_status})", _PROXY
    words = one_line(message) or "without a word"
    return f"the store answered {code}, HTTP status {shown_status}: {words}", _ENDPOINT


def _skewed(answer: Mapping[str, Any]) -> tuple[str, str]:
    ours, theirs = answer.get("RequestTime"), answer.get("ServerTime")
    times = f" (this machine {one_line(str(ours))}, the store {one_line(str(theirs))})" if ours and theirs else ""
    return (
        f"this machine's clock and the store's are too far apart{times}",
        "Set the clock by NTP; snapshots taken meanwhile have the wrong time.",
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
    if isinstance(error, _BROKEN_OFF):
        return f"no whole answer from {_host(error)} ({type(error).__name__})", f"{_ENDPOINT} {_LATER}"
    if isinstance(error, ResponseParserError):
        return "the answer is not one of S3", _PROXY
    if isinstance(error, ValueError):
        return "the endpoint is not a URL like https://store.example:9000", _ENDPOINT
    return one_line(str(error)), _ENDPOINT


def _host(error: Exception) -> str:
    """Return scheme://host:port of the URL in the error, without user, path and query."""
    try:
        url = urlsplit(str(getattr(error, "kwargs", {}).get("endpoint_url", "")))
        port = f":{url.port}" if url.port else ""
    except ValueError:
        return "the store"
    return f"{url.scheme}://{url.hostname}{port}" if url.hostname else "the store"


_COME_AGAIN = ("Throttl", "RequestLimitExceeded", "OverLimit", "ServiceUnavailable", "InternalError", "InternalFailure")
# A part of the error's code or of its class' name → what to do.
_SQS_ADVICE = {
    "NonExistentQueue": "Make the queue, or correct its URL.",
    "QueueDoesNotExist": "Make the queue, or correct its URL.",
    "AccessDenied": "Allow this identity to use the queue (sqs:SendMessage, ReceiveMessage, DeleteMessage, "
    "ChangeMessageVisibility, GetQueueAttributes).",
    "InvalidClientTokenId": "Check the credentials that boto3 finds (environment, ~/.aws, the machine's role).",
    "UnrecognizedClient": "Check the credentials that boto3 finds (environment, ~/.aws, the machine's role).",
    "SignatureDoesNotMatch": "Check the secret key, the region and this machine's clock.",
    "ExpiredToken": "Renew the session's credentials.",
    "NoCredentials": "Give boto3 credentials: environment, ~/.aws, or the machine's role.",
    "NoRegion": "Set AWS_DEFAULT_REGION.",
}


def of_sqs(error: Exception) -> tuple[str, str | None]:
    """Return the fault of a queue or the network, and what to do ("" if nothing is known to help).

    None instead of the latter: the fault may pass by itself, so trying again may help.
    """
    if isinstance(error, ClientError):
        name, status, text = _answer_of(error)
        may_pass = (status or 0) >= 500 or status == 429 or any(word in name for word in _COME_AGAIN)
    else:
        name, text = type(error).__name__, str(error)
        # An answer that is not from SQS (a proxy's page, say) raises an error of the parser.
        passing = (*_BROKEN_OFF, ResponseParserError, boto.CredentialRetrievalError, boto.MetadataRetrievalError)
        may_pass = isinstance(error, passing)
    advice = next((advice for part, advice in _SQS_ADVICE.items() if part in name), "")
    return f"{name} ({_first_line(text)})", None if may_pass else advice


def _first_line(text: str) -> str:
    line = text.strip().splitlines()[0] if text.strip() else "no text"
    return one_line(line.rstrip("."), 200)
