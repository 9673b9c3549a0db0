"""Eight landed snapshots of rubbish in one run: the process of the task that takes them in stays below 2 GB.

Test plan: what was landed may have come from a recording or a landing zone, so the snapshots are rubbish of four kinds,
as large as their limits allow; the task runs in a process of its own, whose memory is read when it ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from evenkeel.handover import ClusterCycle, Handover, Run, Snapshot
from tests.pulsar.small_cluster import SmallCluster
from tests.snapshot_lines import land_lines

if TYPE_CHECKING:
    from evenkeel.spark.server import Engine

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.exhaustive]

MIB = 1 << 20
MOST_MEGABYTES = 2_000
AT = "2026-03-01T12:00:05.000000+00:00"
REPORT = "/admin/v2/broker-stats/load-report"
INGEST = """
import json, sys
from pathlib import Path
from evenkeel.handover import Handover
from evenkeel.ingest import task
from evenkeel.spark.session import close, connect
spark = connect(sys.argv[1], "rubbish")
handover = task.run(spark, Handover.from_json(Path(sys.argv[2]).read_text()))
most = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) // 1024
print(json.dumps({"megabytes": most, "cycles": {one.cluster: [one.status, one.reason] for one in handover.cycles}}))
close(spark)
"""


def rubbish(kind: int, cluster: str) -> SmallCluster:
    small = SmallCluster(4, cluster=cluster)
    owned = f"/admin/v2/brokers/{cluster}/b2:8080/ownedNamespaces"
    if kind == 0:  # rows up to the limit
        small.reply(owned, {f"a/b/{n:06d}": {"is_active": True} for n in range(140_000)}, broker="b2:8080")
    if kind == 1:  # values up to the limit, twenty times as large once they are read
        for n in range(2):
            small.reply(f"/admin/v2/namespaces/shop/v{n}", '{"bundles": {}, "x": [' + "[]," * 1_900_000 + "[]]}")
    if kind == 2:  # texts that take four times their size
        for n in range(8):
            small.reply(f"/admin/v2/namespaces/shop/t{n}", json.dumps({"x": "🙂" + "x" * 3 * MIB}, ensure_ascii=False))
    if kind == 3:  # figures that are none: a record each
        stats = {f"a/b/{n:06d}": dict.fromkeys(("msgRateIn", "topics", "cacheSize"), "x") for n in range(40_000)}
        small.reply(REPORT, {"lastStats": stats}, broker="b3:8080")
    return small


def test_eight_snapshots_of_rubbish_keep_the_task_small(engine: Engine, new_lake: Path, tmp_path: Path) -> None:
    cycles = []
    for n in range(8):
        small = rubbish(n % 4, f"c{n}")
        place = land_lines(small.document(), tmp_path / f"c{n}" / "0000.jsonl.gz", ["{}"] * (250_000 if n == 7 else 0))
        cycles.append(ClusterCycle(f"c{n}", AT, Snapshot(str(place), AT), {}))
    cycles.append(ClusterCycle("good", AT, Snapshot(str(SmallCluster(cluster="good").land(tmp_path / "good")), AT), {}))
    handover = tmp_path / "handover.json"
    handover.write_text(Handover(str(new_lake), Run("cli", "test"), tuple(cycles)).to_json())
    command = [sys.executable, "-c", INGEST, engine.url, handover]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr[-2_000:]
    found = json.loads(done.stdout.splitlines()[-1])
    print(f"peak {found['megabytes']} MB", {name: status for name, (status, _) in found["cycles"].items()})
    assert found["megabytes"] < MOST_MEGABYTES
    assert found["cycles"]["good"] == ["open", None]
    for name, (status, reason) in found["cycles"].items():
        assert status == "open" or "beyond the limit of" in reason, name
