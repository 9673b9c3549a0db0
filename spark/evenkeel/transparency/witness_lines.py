"""The witnesses of a lake's log, as an operator names them: one a line, in the environment or in a file."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from evenkeel.errors import BadInput, BadNote, SettingsError
from evenkeel.object_store import SCHEME, access, load_client
from evenkeel.settings.operation import ENVIRONMENT
from evenkeel.transparency import WITNESSES
from evenkeel.transparency.keys import COSIGNATURE, VerifierKey, shown
from evenkeel.transparency.private_keys import IN_FILE
from evenkeel.transparency.stamps import DEFAULT_EVERY, StampAuthority
from evenkeel.transparency.time_stamp import rfc3161_library
from evenkeel.transparency.witness_bucket import BucketPlace, WitnessBucket
from evenkeel.transparency.witness_client import WitnessAddress

STAMP = "rfc3161"
"""First word of the line of a time stamp authority."""
BUCKET = "s3://"
"""Prefix of the line of a bucket."""
_USER = re.compile(r"//[^/\s]*@")
_RETAIN = re.compile(r"retain_days=([1-9][0-9]{0,5})")
_PERIOD = re.compile(r"([1-9][0-9]{0,5})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_LEAST_EVERY = 300


@dataclass(frozen=True, slots=True)
class LakeWitness:
    """A witness of a lake's log.

    It is a server at an address, a file or a bucket that keeps every checkpoint, or an authority that stamps some of
    them with the time. `name` is the given URL or path; one of `address`, `path`, `authority` and `bucket` is set.
    """

    name: str
    address: WitnessAddress | None = None
    path: Path | None = None
    authority: StampAuthority | None = None
    bucket: BucketPlace | None = None

    def load_libraries(self) -> None:
        """Import the client of the witness. For callers that start threads: two must not import one package at once."""
        if self.bucket is not None:
            load_client(SCHEME)
        if self.authority is not None:
            with suppress(SettingsError):  # a missing one is reported with the witness's answer
                rfc3161_library()

    def bucket_of(
        self, origin: str, log_keys: Collection[VerifierKey], *, timeout_seconds: float = 30.0
    ) -> WitnessBucket:
        """Return the checkpoints of a log in the bucket; raises SettingsError if no keys of the store are found."""
        assert self.bucket is not None
        client = access(what=f"the witness {self.name}").for_boto(timeout_seconds=timeout_seconds, tries=2)
        return WitnessBucket(client, self.bucket, origin, log_keys)


def witnesses_from_environment(environment: Mapping[str, str] = ENVIRONMENT) -> tuple[LakeWitness, ...]:
    """Return the witnesses that `EVENKEEL_WITNESSES` names; none if it is not set."""
    text = environment.get(WITNESSES, "")
    return witnesses_of(text, WITNESSES) if text.strip() else ()


def witnesses_of(text: str, place: str) -> tuple[LakeWitness, ...]:
    """Return the witnesses in a text, or in the file that `file:PATH` names: one a line (or separated by commas).

    A line has one of these forms; lines that begin with `#` are passed over:

    - `<vkey> <URL>`.
    - The path of a file that keeps every checkpoint.
    - `s3://<bucket>/<prefix>` of a bucket with Object Lock, optionally with `retain_days=<number>`.
    - `rfc3161 <URL> ca_file=<path>`, optionally with `every=<number><s, m, h or d>` and `plain_http=true`.

    Raises SettingsError, which names the place and the line.
    """
    if text.startswith(IN_FILE):
        file = text.removeprefix(IN_FILE).strip()
        try:
            text = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise SettingsError(f"{place} names {file}, which cannot be read: {reason}") from None
    lines = [line.strip() for line in re.split(r"[,\n]", text)]
    witnesses = tuple(_witness(line, place) for line in lines if line and not line.startswith("#"))
    if len({witness.name for witness in witnesses}) < len(witnesses):
        raise SettingsError(f"{place} names a witness twice")
    return witnesses


def _witness(line: str, place: str) -> LakeWitness:
    vkey, blank, url = line.rpartition(" ")
    try:
        if line.split()[0] == STAMP:
            return _authority(line.split()[1:])
        if line.startswith(BUCKET):
            return _bucket(line.split())
        if not blank and "://" not in line:
            return LakeWitness(line, path=Path(line))
        if not vkey or urlsplit(url).scheme not in ("http", "https"):
            raise BadNote(
                "a line is `<verifier key> <URL>`, `rfc3161 <URL> ca_file=PATH`, `s3://BUCKET/PREFIX`, or the path of "
                "a file"
            )
        key = VerifierKey.read(vkey)
        if key.kind != COSIGNATURE:
            raise BadNote("the key is one of a log, and not of a witness")
        return LakeWitness(url, WitnessAddress(url, (key,)))
    except (BadInput, ValueError) as error:
        line = _USER.sub("//…@", line)  # the part of a URL that may be secret
        raise SettingsError(f"{place}: the witness {shown(line)} cannot be read: {error}") from None


def _bucket(words: list[str]) -> LakeWitness:
    """Return the bucket that a line names."""
    url, *options = words
    days = _RETAIN.fullmatch(options[0]) if options else None
    if len(options) > 1 or (options and days is None):
        raise BadInput("a line is `s3://BUCKET/PREFIX`, with `retain_days=NUMBER` as one likes")
    return LakeWitness(url, bucket=BucketPlace(url) if days is None else BucketPlace(url, int(days[1])))


def _authority(words: list[str]) -> LakeWitness:
    """Return the time stamp authority that the words after `rfc3161` name."""
    url, *options = words or [""]
    given = dict(option.partition("=")[::2] for option in options)
    every, plain = given.pop("every", f"{DEFAULT_EVERY}s"), given.pop("plain_http", "false")
    ca_file, period = given.pop("ca_file", ""), _PERIOD.fullmatch(every)
    if not ca_file or given or len(options) > len({option.partition("=")[0] for option in options}):
        raise BadInput(f"a line is `{STAMP} <URL> ca_file=PATH`, and each of every= and plain_http= once at most")
    if period is None or (seconds := int(period[1]) * _SECONDS[period[2]]) < _LEAST_EVERY:
        raise BadInput(f"every={shown(every)}: write 1h, 90m or 1d; {_LEAST_EVERY}s is the least")
    if plain not in ("true", "false"):
        raise BadInput(f"plain_http={shown(plain)}: write true or false")
    return LakeWitness(url, authority=StampAuthority(url, Path(ca_file), seconds, plain == "true"))
