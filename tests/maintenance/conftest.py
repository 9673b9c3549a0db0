"""A recorded history of fourteen months, shared and copied; nobody writes to the original."""

import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from evenkeel.lake.controls import LEASE, PAUSE, RESUME
from evenkeel.lake.store import Lake, append_row
from tests.maintenance.recorded_lake import Recorded, day

# The first day lies before the audit period of 400 days, and nothing inside rests on it.
NOW = day(420, hour=18)
DAYS = (0, 1, 30, 391, 407, 419)


@pytest.fixture(scope="session")
def history(
    engine: Any, empty_lake: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Recorded]:
    """Cluster `lab` on some days of those months, twice on one of them, and a try on day 411 that no manifest lists."""
    from evenkeel.spark.session import close, connect

    spark = connect(engine.url, "tests")
    made = Recorded(spark, Lake(str(empty_lake(tmp_path_factory.mktemp("kept") / "lake"))))
    for number in DAYS:
        made.cycle(day(number), wishes=[f"w{number}"] if number in (0, 391) else [])
        if number == 391:
            made.cycle(day(number, hour=13))
    made.cycle(day(411), listed=False)
    _operators(made)
    yield made
    close(spark)


def _operators(made: Recorded) -> None:
    """What operators said: wishes that were taken and one that waits, a pause that still holds, leases, answers."""
    for name, number in (("w0", 0), ("old", 3), ("w391", 3), ("waiting", 419)):
        wish = {"wish_id": name, "made_at": day(number), "made_by": "ann", "run_id": None, "kind": "unload"}
        wish |= {"namespace": "acme/web", "bundle": "0x00000000_0x80000000", "algorithm": None}
        _put(made, "wishes", **wish, positions=None, unload_children=None, destination=None)
    for kind, number, token in ((PAUSE, 0, 0), (RESUME, 1, 0), (PAUSE, 2, 0), (LEASE, 0, 1), (LEASE, 1, 2)):
        until = day(number) + timedelta(minutes=1) if kind == LEASE else None
        _put(
            made, "controls", kind=kind, at=day(number), by="ann", reason=None, token=token, until=until, switches=None
        )
    for number in (0, 419):
        _put(made, "approvals", plan_id="p", answer="approved", by="ann", at=day(number), note=None)


def _put(made: Recorded, table: str, **columns: Any) -> None:
    from tests.builders import frame

    row = {"cluster": "lab", **columns}
    if table == "wishes":
        frame(made.spark, table, [row]).write.format("delta").mode("append").save(made.lake.path(table))
    else:
        append_row(made.lake, table, row)


@pytest.fixture
def kept(spark: Any, history: Recorded, tmp_path: Path) -> Recorded:
    """A copy of the history to keep."""
    shutil.copytree(history.lake.root, tmp_path / "lake")
    copy = Recorded(spark, type(history.lake)(str(tmp_path / "lake")))
    copy.writes, copy.last = dict(history.writes), dict(history.last)
    return copy
