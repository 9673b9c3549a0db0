"""Small snapshots to travel."""

import random
from datetime import datetime, timedelta
from pathlib import Path

from tests.pulsar.small_cluster import FINISHED_AT, SmallCluster
from tests.snapshot_lines import land_lines

RUNTIME = "/admin/v2/brokers/configuration/runtime"


def moment(minutes: float = 0) -> datetime:
    """When the snapshot of that minute ends."""
    return FINISHED_AT + timedelta(minutes=minutes)


def snapshot(
    folder: Path,
    name: str = "0000.jsonl.gz",
    *,
    minutes: float = 0,
    configuration: bool = True,
    mark: str = "",
    cycle_at: datetime | None = None,
    collector: str = "c1",
    size: int = 0,
) -> Path:
    """A snapshot in lines; `mark` makes its bytes differ, `size` is how large it is at least, packed."""
    cluster = SmallCluster()
    cluster.finished_at = moment(minutes)
    cluster.started_at = cluster.finished_at - timedelta(seconds=1)
    if not configuration:
        cluster.never_asked(RUNTIME, "b1:8080").never_asked(RUNTIME, "b2:8080")
    cluster.reply("/admin/v2/brokers/version", mark or "4.2.4")
    if size:
        cluster.reply("/admin/v2/padding", random.Random(1).randbytes(size).hex())
    more = {"cycle_at": cycle_at.isoformat()} if cycle_at is not None else {}
    document = {"collector": collector, **more, **cluster.document()}
    return land_lines(document, folder / name, has_configuration=configuration)
