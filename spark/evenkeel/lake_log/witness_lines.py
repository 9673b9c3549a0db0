"""The witnesses of a lake's log, as an operator names them: one a line, in the environment or in a file."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from evenkeel.errors import BadInput, BadNote, SettingsError
from evenkeel.lake_log import WITNESSES
from evenkeel.lake_log.private_keys import IN_FILE
from evenkeel.transparency.keys import COSIGNATURE, VerifierKey, shown
from evenkeel.transparency.witness_client import WitnessAddress


@dataclass(frozen=True, slots=True)
class LakeWitness:
    """A witness of a lake's log: one that listens at an address, or a file that keeps every checkpoint.

    `name` is the URL or the path as it was given; one of `address` and `path` is set.
    """

    name: str
    address: WitnessAddress | None = None
    path: Path | None = None


def witnesses_from_environment(environment: Mapping[str, str] = os.environ) -> tuple[LakeWitness, ...]:
    """The witnesses that `EVENKEEL_WITNESSES` names; none where it is not set."""
    text = environment.get(WITNESSES, "")
    return witnesses_of(text, WITNESSES) if text.strip() else ()


def witnesses_of(text: str, place: str) -> tuple[LakeWitness, ...]:
    """The witnesses in a text, or in the file that `file:PATH` names: one a line (or with commas between them).

    A line is `<vkey> <URL>`, or the path of a file that keeps every checkpoint; lines that begin with `#` are passed
    over. Raises SettingsError, which names the place and the line.
    """
    if text.startswith(IN_FILE):
        file = text.removeprefix(IN_FILE).strip()
        try:
            text = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise SettingsError(f"{place} names {file}, which cannot be read: {reason}") from None
    lines = [line.strip() for line in re.split(r"[,\n]", text)]
    found = tuple(_witness(line, place) for line in lines if line and not line.startswith("#"))
    if len({one.name for one in found}) < len(found):
        raise SettingsError(f"{place} names a witness twice")
    return found


def _witness(line: str, place: str) -> LakeWitness:
    vkey, blank, url = line.rpartition(" ")
    try:
        if not blank and "://" not in line:
            return LakeWitness(line, path=Path(line))
        if not vkey or urlsplit(url).scheme not in ("http", "https"):
            raise BadNote("a line is `<verifier key> <URL>`, or the path of a file")
        key = VerifierKey.read(vkey)
        if key.kind != COSIGNATURE:
            raise BadNote("the key is one of a log, and not of a witness")
        return LakeWitness(url, WitnessAddress(url, (key,)))
    except (BadInput, ValueError) as error:
        raise SettingsError(f"{place}: the witness {shown(line)} cannot be read: {error}") from None
