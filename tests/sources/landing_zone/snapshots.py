"""Small snapshots to travel."""

from __future__ import annotations

import gzip
import json
import random
from datetime import datetime, timedelta
from pathlib import Path

from tests.pulsar.small_cluster import FINISHED_AT, SmallCluster

RUNTIME = "/admin/v2/brokers/configuration/runtime"


def moment(minutes: float = 0) -> datetime:
    """When the snapshot of that minute ends."""
    return FINISHED_AT + timedelta(minutes=minutes)


def document(
    folder: Path,
    name: str = "0000.json.gz",
    *,
    minutes: float = 0,
    configuration: bool = True,
    mark: str = "",
    cycle_at: datetime | None = None,
) -> Path:
    """A snapshot as one JSON document; `mark` makes its bytes differ."""
    cluster = SmallCluster()
    cluster.finished_at = moment(minutes)
    cluster.started_at = cluster.finished_at - timedelta(seconds=1)
    if not configuration:
        cluster.never_asked(RUNTIME, "b1:8080").never_asked(RUNTIME, "b2:8080")
    cluster.reply("/admin/v2/brokers/version", mark or "4.2.4")
    if cycle_at is None:
        return cluster.land(folder, name)
    body = json.dumps({"cycle_at": cycle_at.isoformat(), **cluster.document()})
    (folder / name).write_bytes(gzip.compress(body.encode()))
    return folder / name


def parts(folder: Path, name: str = "0000", *, minutes: float = 0, count: int = 3, part_bytes: int = 0) -> Path:
    """A snapshot as a folder of packed parts, each at least `part_bytes` long."""
    cluster = SmallCluster()
    cluster.finished_at = moment(minutes)
    body = cluster.document()
    requests = body.pop("requests")
    place = folder / name
    place.mkdir(parents=True)
    (place / "snapshot.json").write_text(json.dumps({**body, "has_configuration": True}))
    padding = random.Random(1).randbytes(part_bytes // 2).hex()
    for part in range(count):
        lines = [json.dumps({**request, "n": n}) for n, request in enumerate(requests) if n % count == part]
        if padding:
            lines.append(json.dumps({"n": 9_000 + part, "path": "/padding", "status": 0, "body": padding}))
        (place / f"requests-{part}.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode(), 0))
    return place
