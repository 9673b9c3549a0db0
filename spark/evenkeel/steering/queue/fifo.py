"""One FIFO queue: its operations, in batches of what SQS allows in one request, its errors, and sending many messages.

Every method raises `QueueUnreachable` or `QueueRefused` for faults of a whole request, and returns those of single
messages. Threads may share it.

Many messages are sent in waves (`send_all`): the first of every group, then the second of every group, and so on; so no
batch holds two of one group. Otherwise one could fail while a later one of its group is on the queue already, and stay
behind it for ever.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import zip_longest
from typing import Any
from urllib.parse import urlsplit

from evenkeel.errors import BadInput, EvenkeelError
from evenkeel.retrying import Doubling, retry

MOST_IN_BATCH = 10
MOST_BYTES = 256 * 1024  # of a message, and of a batch
LONGEST_POLL_SECONDS = 20


@dataclass(frozen=True, slots=True)
class Letter:
    """A message to be sent. `dedup_id`: SQS treats an equal one within five minutes as a duplicate."""

    body: str
    group: str
    dedup_id: str


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A message as received. `receipt` is the right to it until its visibility ends or another consumer receives it.

    `sent_at` is the service's own time; None without one. `dedup_id`: within five minutes the service takes no other
    message with it.
    """

    message_id: str
    receipt: str = field(repr=False)
    body: str
    group: str
    sent_at: datetime | None
    dedup_id: str = ""


@dataclass(frozen=True, slots=True)
class LetterFailure:
    """Why one message of a batch failed; `final`: the fault is in the message itself, a further try is of no use."""

    reason: str
    final: bool


class Fifo:
    """A queue by its URL. `heard`: called with the service's own time and the seconds that the answer took."""

    def __init__(self, url: str, *, heard: Callable[[datetime, float], None] | None = None) -> None:
        self.url = url
        self._heard = heard
        self._client = sqs_client(url)

    def send(self, letters: Sequence[Letter]) -> list[LetterFailure | None]:
        """Send up to ten; return one entry per letter, None for those that are on the queue (now, or since an earlier
        try).

        After a raised error, any of them may be on the queue: sending them again is safe within five minutes.
        """
        entries = [
            {
                "Id": str(place),
                "MessageBody": letter.body,
                "MessageGroupId": letter.group,
                "MessageDeduplicationId": letter.dedup_id,
            }
            for place, letter in enumerate(letters)
        ]
        answer = self._ask("send_message_batch", Entries=entries)
        failed = _failed(answer)
        sent = {entry["Id"] for entry in answer.get("Successful", ())}
        unheard = LetterFailure("the service reported no result for it", final=False)
        return [None if str(n) in sent else failed.get(str(n), unheard) for n in range(len(entries))]

    def receive(self, *, most: int, wait_s: int, visibility_s: int) -> list[ReceivedMessage]:
        """Return up to ten messages, in order within each group; wait up to `wait_s` for the first one."""
        answer = self._ask(
            "receive_message",
            MaxNumberOfMessages=min(most, MOST_IN_BATCH),
            WaitTimeSeconds=min(wait_s, LONGEST_POLL_SECONDS),
            VisibilityTimeout=visibility_s,
            MessageSystemAttributeNames=["MessageGroupId", "SentTimestamp", "MessageDeduplicationId"],
            # If the answer is lost, boto3's own second try gets the same messages.
            ReceiveRequestAttemptId=uuid.uuid4().hex,
        )
        return [_taken(message) for message in answer.get("Messages", ())]

    def renew(self, receipts: Sequence[str], seconds: int) -> set[str]:
        """Keep messages invisible to others for so long from now; return the receipts that are no longer good."""
        return self._by_receipt("change_message_visibility_batch", receipts, VisibilityTimeout=seconds)

    def delete(self, receipts: Sequence[str]) -> set[str]:
        """Remove messages; return the receipts that are no longer good: those messages will be given out again."""
        return self._by_receipt("delete_message_batch", receipts)

    def attributes(self) -> Mapping[str, str]:
        """Return the queue's attributes, by SQS's names."""
        attributes: Mapping[str, str] = self._ask("get_queue_attributes", AttributeNames=["All"]).get("Attributes", {})
        return attributes

    def _by_receipt(self, operation: str, receipts: Sequence[str], **values: int) -> set[str]:
        lost: set[str] = set()
        for start in range(0, len(receipts), MOST_IN_BATCH):
            part = receipts[start : start + MOST_IN_BATCH]
            entries = [{"Id": str(place), "ReceiptHandle": receipt, **values} for place, receipt in enumerate(part)]
            failed = _failed(self._ask(operation, Entries=entries))
            lost |= {part[int(place)] for place, failure in failed.items() if failure.final}
            transient = [failure for failure in failed.values() if not failure.final]
            if transient:
                raise as_queue_error(TimeoutError(transient[0].reason), self.url)
        return lost

    def _ask(self, operation: str, **values: Any) -> Mapping[str, Any]:
        from evenkeel.aws_errors import RAISED_BY_BOTO

        begin = time.monotonic()
        try:
            answer: Mapping[str, Any] = getattr(self._client, operation)(QueueUrl=self.url, **values)
        except (*RAISED_BY_BOTO, ValueError) as error:
            raise as_queue_error(error, self.url) from None
        kind = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("content-type", "")
        if "json" not in kind:  # boto3 takes a page with status 200 for an answer without content
            raise QueueUnreachable(
                f"queue {shown(self.url)} cannot be reached: an answer of type {kind[:40]!r} is none of SQS; "
                "is a proxy in between?"
            )
        text = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        try:
            moment = parsedate_to_datetime(text) if text else None
        except ValueError:
            moment = None
        if self._heard is not None and moment is not None and moment.tzinfo is not None:
            self._heard(moment, time.monotonic() - begin)
        return answer


def _failed(answer: Mapping[str, Any]) -> dict[str, LetterFailure]:
    return {
        entry["Id"]: LetterFailure(
            f"{entry.get('Code', '')} ({entry.get('Message', '')})"[:300], bool(entry["SenderFault"])
        )
        for entry in answer.get("Failed", ())
    }


def _taken(message: Mapping[str, Any]) -> ReceivedMessage:
    attributes = message.get("Attributes", {})
    sent = attributes.get("SentTimestamp")
    return ReceivedMessage(
        message["MessageId"],
        message["ReceiptHandle"],
        message["Body"],
        attributes.get("MessageGroupId", ""),
        None if sent is None else datetime.fromtimestamp(int(sent) / 1000, UTC),
        attributes.get("MessageDeduplicationId", ""),
    )


# boto3's client for one queue, and its errors in two classes: try again, or an operator has to change something.
#
# Credentials, profile and region come from boto3's usual places (environment, files, the machine's role). The endpoint
# is `AWS_ENDPOINT_URL_SQS` or `AWS_ENDPOINT_URL` if set, else the host in the queue's own URL, as in the other AWS
# SDKs. So a queue in another region or behind a private endpoint needs no further setting.

CONNECT_SECONDS = 5
# Above the longest long poll: an answer that is late by this much counts as missing.
READ_SECONDS = 25
TRIES = 2
ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL")

_AWS_HOST = re.compile(r"(?:^|\.)sqs(?:-fips)?\.([a-z0-9-]+)\.(?:vpce\.)?amazonaws\.com(?:\.cn)?$")


def sqs_client(url: str) -> Any:
    """Return a client for the queue of this URL; threads may share it. Raises `QueueRefused` if none can be made."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    import evenkeel.aws_errors  # noqa: F401 (threads share the client)

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
        # AWS sets AWS_REGION for its own machines, though boto3 does not read it.
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
        raise QueueRefused(f"queue {shown(url)} is not a FIFO queue (its name does not end in .fifo): make one that is")
    return parts


def shown(url: str) -> str:
    """Return the URL without its secrets."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def as_queue_error(error: Exception, url: str) -> QueueError:
    """Return an error of boto3 as one of this module."""
    from evenkeel.aws_errors import of_sqs

    fault, advice = of_sqs(error)
    if advice is None:
        return QueueUnreachable(f"queue {shown(url)} cannot be reached: {fault}")
    return QueueRefused(f"queue {shown(url)}: {fault}. {advice}".rstrip())


class QueueError(EvenkeelError):
    """A queue did not do what was requested; the text is for operators and holds no credentials."""


class QueueUnreachable(QueueError):
    """No answer, or one that says to come again: trying later may help. The request may have been carried out."""


class QueueRefused(QueueError):
    """The service understood and refuses, or no request can be made at all: an operator has to change something."""


class BadMessage(BadInput):
    """A message is not valid. `known` are all readable fields of its command: id, plan, cluster and cycle."""

    def __init__(self, reason: str, /, **known: Any) -> None:
        super().__init__(reason)
        self.known = known


# Message groups: SQS keeps order within a group, and gives a group to one consumer at a time.

# SQS allows a group id letters, digits and punctuation of ASCII, 1 to 128 of them.
_ALLOWED = re.compile(r"[!-~]{1,128}")


def group_of(name: str) -> str:
    """Return the group for a name: the name itself if SQS accepts it, else a digest of it.

    A namespace has a slash, so it equals neither a digest nor the group of a control.
    """
    if _ALLOWED.fullmatch(name):
        return name
    return "sha256-" + hashlib.sha256(name.encode("utf-8", "backslashreplace")).hexdigest()


def command_group(bundle: str) -> str:
    """Return the group of a command: its bundle's namespace, so that a namespace's splits stay before its unloads."""
    return group_of(bundle.rpartition("/")[0])


def report_group(command_id: str) -> str:
    """Return the group of a report: one for each command.

    A group gives out nothing more while a message of it is taken and not deleted. A taker of reports deletes them only
    once they are recorded, and must not wait for that to see the others.
    """
    return group_of(command_id)


def control_group(control_id: str) -> str:
    """Return the group of a control: one for each, so that none waits behind another that stays on the queue.

    Their order does not matter: the one made last counts.
    """
    return f"control-{control_id}"


SEND_TRIES = 4
PAUSE = Doubling(first_s=0.2, longest_s=60.0, least=0.5, most=1.5)
Sleep = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Unsent:
    """A letter that is not known to be on the queue. `possible`: it may still be on it."""

    letter: Letter
    reason: str
    possible: bool = False


def send_all(
    queue: Fifo, letters: Sequence[Letter], *, tries: int = SEND_TRIES, sleep: Sleep = time.sleep
) -> list[Unsent]:
    """Send the letters and repeat failed ones, with growing pauses; never raises for faults of the network.

    Once a letter could not be sent, the later ones of its group are not sent either. Once the queue as a whole does not
    answer or refuses, nothing more is sent.
    """
    unsent: list[Unsent] = []
    stopped: dict[str, str] = {}
    dead = ""
    for wave in waves(letters):
        held_back = [letter for letter in wave if dead or letter.group in stopped]
        unsent += [
            Unsent(letter, dead or f"an earlier one was not sent: {stopped[letter.group]}") for letter in held_back
        ]
        for batch in batches([letter for letter in wave if letter not in held_back]):
            trial = _Trial(queue, batch)
            if dead:
                unsent += [Unsent(letter, dead) for letter in batch]
            else:
                dead = trial.run(tries, sleep)
                unsent += trial.unsent
                stopped |= {letter.letter.group: letter.reason for letter in trial.unsent}
    return unsent


def waves(letters: Iterable[Letter]) -> list[list[Letter]]:
    """Return the waves: the n-th consists of the n-th letter of every group."""
    groups: dict[str, list[Letter]] = {}
    for letter in letters:
        groups.setdefault(letter.group, []).append(letter)
    return [[letter for letter in wave if letter is not None] for wave in zip_longest(*groups.values())]


def batches(letters: Sequence[Letter]) -> Iterator[list[Letter]]:
    """Yield batches of as many letters as a request may hold, by number and by size in bytes (bodies are ASCII)."""
    batch: list[Letter] = []
    size = 0
    for letter in letters:
        if batch and (len(batch) == MOST_IN_BATCH or size + len(letter.body) > MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(letter)
        size += len(letter.body)
    if batch:
        yield batch


class _Trial:
    """One batch, until every letter of it is on the queue or given up."""

    def __init__(self, queue: Fifo, batch: Sequence[Letter]) -> None:
        self._queue = queue
        self._left = dict.fromkeys(batch, "")  # letter: why it is not sent yet
        self._unheard = False  # a request was sent and no answer came
        self.unsent: list[Unsent] = []

    def run(self, tries: int, sleep: Sleep) -> str:
        """Send the batch; return why nothing can be sent to this queue at all, if so."""
        dead = retry(self._once, tries=tries, pause=PAUSE, if_returned=lambda _: bool(self._left), sleep=sleep)
        self._give_up()
        return dead

    def _once(self) -> str:
        try:
            answers = self._queue.send(list(self._left))
        except QueueUnreachable as error:
            self._unheard = True
            self._left = dict.fromkeys(self._left, str(error))
            return str(error)
        except QueueRefused as error:
            self._left = dict.fromkeys(self._left, str(error))
            self._give_up()
            return str(error)
        failed = {letter: failure for letter, failure in zip(self._left, answers, strict=True) if failure is not None}
        self.unsent += [
            Unsent(letter, failure.reason, self._unheard) for letter, failure in failed.items() if failure.final
        ]
        self._left = {letter: failure.reason for letter, failure in failed.items() if not failure.final}
        return ""

    def _give_up(self) -> None:
        self.unsent += [Unsent(letter, reason, self._unheard) for letter, reason in self._left.items()]
        self._left = {}
