"""Bundles: names, ranges, boundaries, and the bundle of a topic.

Pulsar: NamespaceBundle, NamespaceBundles, NamespaceBundleFactory, PoliciesUtil, NamespacesBase. A bundle is the
half-open range [lower, upper) of hashes, the last one of a namespace closed at 0xffffffff.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from evenkeel.errors import BadName, BadRange
from evenkeel.model.topics import (
    HIGHEST_HASH,
    SYSTEM_NAMESPACE,
    TopicName,
    broker_of,
    is_heartbeat,
    is_heartbeat_or_sla,
    is_sla,
    is_system,
    parse_topic,
    partition_of,
    topic_hash,
)

__all__ = [
    "FULL_RANGE",
    "HIGHEST_HASH",
    "SYSTEM_NAMESPACE",
    "BundleRange",
    "Split",
    "TopicName",
    "apply_split",
    "are_in_two_parts",
    "boundary_text",
    "broker_of",
    "bundle_name",
    "bundle_of",
    "decode_number",
    "initial_boundaries",
    "is_heartbeat",
    "is_heartbeat_or_sla",
    "is_sla",
    "is_system",
    "namespace_of",
    "parse_boundaries",
    "parse_range",
    "parse_topic",
    "partition_of",
    "range_of",
    "ranges_of",
    "topic_hash",
    "validate_boundaries",
]

_DECODE = re.compile(r"([+-]?)(?:(0[xX]|#)([0-9a-fA-F]+)|0([0-9]+)|([0-9]+))")
_USUAL_LENGTH = len("0x00000000")
_HASHES = 1 << 32
_LONG_HIGHEST = (1 << 63) - 1
_SLASHES = b"//\n"
"""of a line with the name of a bundle in a namespace of two parts"""
_NO_SLASHES = bytes({*range(256)} - {*b"/\n"})
"""all bytes but slashes and ends of lines"""


@dataclass(frozen=True, slots=True, order=True)
class BundleRange:
    """The range of one bundle: 0 <= lower < upper <= 0xffffffff."""

    lower: int
    upper: int

    def __str__(self) -> str:
        return f"{boundary_text(self.lower)}_{boundary_text(self.upper)}"

    @property
    def width(self) -> int:
        """upper - lower; a bundle of width 1 or less cannot be split."""
        return self.upper - self.lower

    def includes(self, topic_hash: int) -> bool:
        """Return True if a topic with that hash is in the bundle."""
        closed = self.upper == HIGHEST_HASH and topic_hash == HIGHEST_HASH
        return self.lower <= topic_hash < self.upper or closed

    def covers(self, other: BundleRange) -> bool:
        """Return True if another range is inside this one, or equal."""
        return self.lower <= other.lower and other.upper <= self.upper


FULL_RANGE = BundleRange(0, HIGHEST_HASH)


@dataclass(frozen=True, slots=True)
class Split:
    """A namespace after a split: its boundaries, and the children in order."""

    boundaries: tuple[int, ...]
    children: tuple[BundleRange, ...]


def boundary_text(boundary: int) -> str:
    """Return a boundary in Pulsar's spelling, `0x%08x`."""
    return f"0x{boundary:08x}"


def decode_number(text: str) -> int:
    """Return a boundary by Java's Long.decode: hex by 0x or #, octal by a leading zero; else raise `BadRange`."""
    if len(text) == _USUAL_LENGTH and text.startswith("0x") and text.isascii() and text.isalnum():
        # Pulsar's own spelling, of which a cycle has thousands.
        try:
            return int(text, 16)
        except ValueError:
            pass
    match = _DECODE.fullmatch(text)
    if match is None:
        raise BadRange(f"{text!r} is not a boundary: write it like 0x40000000")
    sign, _, hexadecimal, octal, decimal = match.groups()
    try:
        number = int(hexadecimal, 16) if hexadecimal else int(octal, 8) if octal else int(decimal)
    except ValueError:
        raise BadRange(f"{text!r} is not a boundary: a leading zero means octal digits follow") from None
    number = -number if sign == "-" else number
    if not -_LONG_HIGHEST - 1 <= number <= _LONG_HIGHEST:
        raise BadRange(f"{text!r} is not a boundary: more than 64 bits")
    return number


def parse_range(text: str) -> BundleRange:
    """Return the range in a text like `0x00000000_0x40000000`; raises `BadRange` for any other text."""
    parts = text.split("_")
    if len(parts) != 2:
        raise BadRange(f"{text!r} is not a bundle range: write it like 0x00000000_0x40000000")
    lower, upper = decode_number(parts[0]), decode_number(parts[1])
    if not 0 <= lower < upper <= HIGHEST_HASH:
        raise BadRange(f"bundle range {text!r} is empty or outside 0x00000000_0xffffffff")
    return BundleRange(lower, upper)


def bundle_name(namespace: str, bundle_range: BundleRange | str) -> str:
    """Return `tenant/namespace/0x%08x_0x%08x`."""
    return f"{namespace}/{bundle_range}"


def namespace_of(bundle: str) -> str:
    """Return the namespace in a bundle's name; raises `BadName` if there is none."""
    namespace, slash, _ = bundle.rpartition("/")
    if not slash or "/" not in namespace:
        raise BadName(f"{bundle!r} is not a bundle's name: expected tenant/namespace/0x00000000_0x40000000")
    return namespace


def are_in_two_parts(bundles: Collection[str]) -> bool:
    """Return True if each name has the two slashes of a bundle whose namespace is tenant/namespace."""
    # Searching all names together takes less than half the time of one by one.
    slashes = "\n".join(bundles).encode(errors="surrogatepass").translate(None, _NO_SLASHES)
    return slashes == (_SLASHES * len(bundles))[:-1]


def range_of(bundle: str) -> BundleRange:
    """Return the range in a bundle's name."""
    return parse_range(bundle.rpartition("/")[2])


def initial_boundaries(bundles: int) -> tuple[int, ...]:
    """Return the boundaries of a namespace created with so many bundles: equal parts, the last one takes the rest."""
    if not 0 < bundles <= _HASHES:
        raise BadRange(f"a namespace cannot have {bundles} bundles: allowed is 1 to 2^32")
    part = _HASHES // bundles
    return (*(i * part for i in range(bundles)), HIGHEST_HASH)


def parse_boundaries(texts: Iterable[str]) -> tuple[int, ...]:
    """Return boundaries as `GET …/bundles` answers them, in their order; `validate_boundaries` checks them."""
    return tuple(decode_number(text) for text in texts)


def ranges_of(boundaries: Sequence[int]) -> tuple[BundleRange, ...]:
    """Return the ranges between boundaries, in order."""
    return tuple(BundleRange(lower, upper) for lower, upper in pairwise(boundaries))


def bundle_of(boundaries: Sequence[int], topic_hash: int) -> BundleRange:
    """Return the bundle of a hash; 0xffffffff is in the last bundle, where Pulsar's own look-up raises.

    `boundaries` are those of one namespace, ascending. Raises `BadRange` if they leave the hash out: it is below the
    first or above the last boundary, or there are fewer than two of them.
    """
    index = min(bisect_right(boundaries, topic_hash), len(boundaries) - 1) - 1
    if index >= 0:
        bundle = BundleRange(boundaries[index], boundaries[index + 1])
        if bundle.includes(topic_hash):
            return bundle
    edges = f"{boundary_text(boundaries[0])} to {boundary_text(boundaries[-1])}" if boundaries else "none"
    raise BadRange(
        f"hash {boundary_text(topic_hash)} lies in no bundle: the boundaries ({edges}) must ascend from 0x00000000 to "
        "0xffffffff"
    )


def apply_split(
    boundaries: Sequence[int], bundle: BundleRange, cuts: Sequence[int] = (), *, parts: int | None = None
) -> Split | None:
    """Cut one bundle of a namespace: at `cuts`, or without cuts into `parts` equal parts (the last takes the rest).

    Returns None if the namespace does not have the bundle (it was split meanwhile). Raises `BadRange` if Pulsar
    refuses: a bundle too narrow, cuts outside it or twice, more parts than hashes. Without cuts and parts nothing
    changes.
    """
    if bundle.width <= 1:
        raise BadRange(f"bundle {bundle} cannot be split: its range is not larger than 1")
    inner = sorted(cuts)
    if inner and not (bundle.lower < inner[0] and inner[-1] < bundle.upper):
        raise BadRange(f"cuts {[boundary_text(c) for c in inner]} are not inside bundle {bundle}")
    if not inner:
        count = 1 if parts is None else parts
        if count < 1:
            raise BadRange(f"bundle {bundle} cannot be split into {count} parts")
        inner = [bundle.lower + i * (bundle.width // count) for i in range(1, count)]
    edges = [bundle.lower, *inner, bundle.upper]
    if any(lower >= upper for lower, upper in pairwise(edges)):
        raise BadRange(f"a child of bundle {bundle} would be empty: cuts {[boundary_text(c) for c in inner]}")
    for i, (lower, upper) in enumerate(pairwise(boundaries)):
        if (lower, upper) == (bundle.lower, bundle.upper):
            return Split((*boundaries[: i + 1], *inner, *boundaries[i + 1 :]), ranges_of(edges))
    return None


def validate_boundaries(texts: Sequence[str], bundles: int | None = None) -> list[str]:
    """Return the faults of a namespace's boundaries in words; empty if they cover all hashes without hole or overlap.

    `bundles` is the cluster's own number of the namespace's bundles, if it reports one.
    """
    problems = []
    numbers = []
    for text in texts:
        try:
            numbers.append(decode_number(text))
        except BadRange as error:
            problems.append(str(error))
    if len(numbers) < 2:
        return [*problems, "fewer than two boundaries: no bundle"]
    if numbers[0] != 0:
        problems.append(f"hole: the first boundary is {boundary_text(numbers[0])}, not 0x00000000")
    if numbers[-1] != HIGHEST_HASH:
        problems.append(f"hole: the last boundary is {boundary_text(numbers[-1])}, not 0xffffffff")
    for lower, upper in pairwise(numbers):
        if lower >= upper:
            problems.append(f"overlap: boundary {boundary_text(upper)} follows {boundary_text(lower)}")
    if bundles is not None and bundles != len(texts) - 1:
        problems.append(f"{len(texts)} boundaries make {len(texts) - 1} bundles, but the namespace says {bundles}")
    return problems
