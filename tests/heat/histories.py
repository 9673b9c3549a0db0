"""Small histories of bundle loads, written as the pipeline writes them, and what a picture should show of them."""

import tarfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from evenkeel.heat.scale import LAYERS, SEVERAL
from evenkeel.heat.tables import HeatTables
from evenkeel.model.bundles import BundleRange
from tests.lakes.small_lake import SmallLake

KEPT = Path(__file__).resolve().parents[1] / "kept_lakes"
BEGIN = datetime(2026, 11, 21, 12, tzinfo=UTC)
CLUSTER = "eu-1"
HALVES = ((0, 1 << 31), (1 << 31, 0xFFFFFFFF))
WHOLE = ((0, 0xFFFFFFFF),)
Row = dict[str, Any]


def load(namespace: str, bundle: tuple[int, int], rate: float | None, owner: str | None = "b1", **more: Any) -> Row:
    """A row of `bundle_load`: `rate` messages and a hundred times as many bytes a second, half in, half out."""
    half = None if rate is None else rate / 2
    bytes_ = None if rate is None else 50 * rate
    return {
        "bundle": f"{namespace}/{BundleRange(*bundle)}", "namespace": namespace, "lower": bundle[0], "upper": bundle[1],
        "owner": owner, "last_owner": owner, "topics": 3, "producers": 1, "consumers": 4,
        "used_msg_rate_in": half, "used_msg_rate_out": half,
        "used_msg_throughput_in": bytes_, "used_msg_throughput_out": bytes_, **more,
    }  # fmt: skip


class History:
    """A lake of one cluster whose cycles come minute by minute from BEGIN on."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lake = SmallLake(root)

    def cycle(
        self, minute: float, rows: Sequence[Row], tables: Mapping[str, list[Row]] | None = None, **more: Any
    ) -> None:
        at = BEGIN + timedelta(minutes=minute)
        self.lake.add(more.pop("cluster", CLUSTER), at, {"bundle_load": [*rows], **(tables or {})}, **more)


def at_minute(minute: float) -> datetime:
    return BEGIN + timedelta(minutes=minute)


def kept_lake(folder: Path) -> Path:
    """A lake as real cycles of version 1.0 left it."""
    with tarfile.open(KEPT / "schema_1.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return folder / "lake"


def cells(lake: Path, cluster: str = CLUSTER) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Layer, column, namespace and range -> codes of all metrics, the owner's name and whether it was shared."""
    tables = HeatTables(str(lake))
    found: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for seconds, start in sorted({(seconds, start) for seconds, _, start in tables.places()[cluster] if seconds}):
        layer = next(one for one in LAYERS if one.seconds == seconds)
        block = tables.block(cluster, layer, start)
        for namespace, pieces in block.pieces.items():
            for piece in pieces:
                bounds = np.frombuffer(piece.boundaries, np.int64).reshape(2, -1).T.tolist()
                count, ranges = piece.count, piece.ranges
                codes = [np.frombuffer(b"".join(one), np.uint8).reshape(count, ranges) for one in piece.cells[:-1]]
                owner = np.frombuffer(b"".join(piece.cells[-1]), np.uint16).reshape(count, ranges)
                bits = np.frombuffer(b"".join(piece.shared), np.uint8).reshape(count, -1)
                for n in range(count):
                    for place, (lower, upper) in enumerate(bounds):
                        code = int(owner[n, place])
                        name = block.brokers[code - 1] if 0 < code < SEVERAL else code
                        key = (seconds, block.starts[piece.first + n], namespace, lower, upper)
                        assert key not in found, "one set of rows"
                        shared = bool(np.unpackbits(bits[n])[place])
                        found[key] = (*(int(one[n, place]) for one in codes), name, shared)
    return found


def marks(lake: Path, cluster: str = CLUSTER) -> list[tuple[Any, ...]]:
    """Moment, kind, namespace, lower and text of each mark."""
    tables = HeatTables(str(lake))
    names = ("at", "kind", "namespace", "lower", "text")
    rows = tables.marks(cluster, tables.mark_places(cluster)).to_pylist()
    return sorted(tuple(row[name] for name in names) for row in rows)


def digests(lake: Path, cluster: str = CLUSTER) -> dict[tuple[int, int], str]:
    """Layer and column -> what it was built from."""
    tables = HeatTables(str(lake))
    places = {(seconds, start) for seconds, _, start in tables.places()[cluster]}
    return {
        (layer.seconds, at): digest
        for layer in LAYERS
        for own in tables.heads(cluster, layer, [s for seconds, s in places if seconds == layer.seconds]).values()
        for at, digest in own.items()
    }
