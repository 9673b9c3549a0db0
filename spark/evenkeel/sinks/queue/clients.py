"""boto3's client for one queue, and its errors in two classes: try again, or somebody has to change something.

Credentials, profile and region come from where boto3 always takes them (environment, files, the machine's role). The
endpoint is `AWS_ENDPOINT_URL_SQS` or `AWS_ENDPOINT_URL` where set, else the host in the queue's own URL, as the other
AWS SDKs do it; so a queue in another region or behind a private endpoint needs no further setting.
"""

from __future__ import annotations

import os
import re
from typing import Any
from urllib.parse import urlsplit

from evenkeel.sinks.queue.errors import QueueError, QueueRefused, QueueUnreachable

CONNECT_SECONDS = 5
# Above the longest long poll: an answer that is late by this much is none.
READ_SECONDS = 25
TRIES = 2
ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL")

_AWS_HOST = re.compile(r"(?:^|\.)sqs(?:-fips)?\.([a-z0-9-]+)\.(?:vpce\.)?amazonaws\.com(?:\.cn)?$")


def sqs_client(url: str) -> Any:
    """A client for the queue of this URL; it is safe to be shared by threads. `QueueRefused` where none can be made."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    parts = _checked(url)
    named = _AWS_HOST.search(parts.hostname or "")
    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"mode": "standard", "total_max_attempts": TRIES},
        tcp_keepalive=True,
        max_pool_connections=20,
    )
    endpoint = None if any(os.environ.get(name) for name in ENDPOINT_VARIABLES) else f"{parts.scheme}://{parts.netloc}"
    try:
        session = boto3.session.Session()
        # AWS_REGION is what AWS itself sets for its own machines, though boto3 does not look at it.
        region = (named and named.group(1)) or session.region_name or os.environ.get("AWS_REGION")
        return session.client("sqs", region_name=region, endpoint_url=endpoint, config=config)
    except (BotoCoreError, ValueError) as error:
        raise as_queue_error(error, url) from None


def _checked(url: str) -> Any:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path.count("/") < 1:
        raise QueueRefused(f"{shown(url)!r} is not a queue's URL: write it as SQS shows it, https://sqs.…/….fifo")
    if parts.username or parts.password:
        raise QueueRefused(f"queue URL {shown(url)}: credentials do not belong into a URL; give them to boto3")
    if not parts.path.endswith(".fifo"):
        raise QueueRefused(f"queue {shown(url)} is no FIFO queue (its name does not end in .fifo): make one that is")
    return parts


def shown(url: str) -> str:
    """The URL without what may be secret in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def as_queue_error(error: Exception, url: str) -> QueueError:
    """An error of boto3 in our words."""
    from evenkeel.aws_errors import of_sqs

    fault, where = of_sqs(error), f"queue {shown(url)}"
    if fault.may_pass:
        return QueueUnreachable(f"{where} cannot be reached: {fault.what}")
    return QueueRefused(f"{where}: {fault.what}. {fault.advice}".rstrip())
