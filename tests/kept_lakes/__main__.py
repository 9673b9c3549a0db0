"""Writes a small lake with the version of this checkout, to be kept: `python -m tests.kept_lakes`.

A kept lake is never written anew. Where tables or manifests have changed, add a further one beside it; the version of
the tables (`SCHEMA_VERSION`) gives it its name. The lake holds four clusters:

* `modular`: two cycles with splits; the second one takes a manual wish for an unload, and refuses it;
* `extensible`: two cycles, the second with twelve transfers by the TransferShedder;
* `lab`: one cycle whose commands were sent to simulated brokers, with the outcomes that were seen;
* `silent`: one cycle that was skipped, since its recording has no snapshot of that time.
"""

from __future__ import annotations

import os
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from evenkeel.cli.options import session
from evenkeel.ingest.open_run import CycleRequest, open_cycles
from evenkeel.ingest.wish_intake import Maker, wish_row
from evenkeel.lake.schema import SCHEMA_VERSION
from evenkeel.lake.store import Lake
from evenkeel.lake.wishes import append_wishes
from evenkeel.pipeline import DECIDING, run_cycle
from evenkeel.publish.task import run as publish
from evenkeel.sources.recordings import Recording
from tests.publish.acting import Lab

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).resolve().parent
RECORDINGS = HERE.parent / "recordings"
# Three small brokers have little to split or to shed within Pulsar's defaults.
OVERRIDES = {
    "modular": {
        "loadBalancerNamespaceBundleMaxTopics": 8,
        "loadBalancerNamespaceMaximumBundles": 16,
        "loadBalancerLoadSheddingStrategy": "OverloadShedder",
        "loadBalancerBrokerOverloadedThresholdPercentage": 1,
    },
    "extensible": {},
}
FOLDERS = {"modular": "lost-modular", "extensible": "own-transfer", "silent": "lost-modular"}
WISH = {"kind": "unload", "namespace": "acme/ns0", "bundle": "0x20000000_0x40000000"}
AFTER_THE_RECORDING = {"after": "2026-11-21T08:36:00+00:00", "at": "2026-11-21T08:37:00+00:00"}


def main() -> int:
    """Writes `schema_N.tar.gz`; 1 where it is there already."""
    kept = HERE / f"schema_{SCHEMA_VERSION}.tar.gz"
    if kept.exists():
        print(f"{kept} is kept as it is; a kept lake is never written anew.", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as folder, _inside(Path(folder)):
        for name in set(FOLDERS.values()):
            Path(name).symlink_to(RECORDINGS / name)
        with session("kept lake") as spark:
            write(spark, Path("lake"))
        with tarfile.open(kept, "w:gz") as archive:
            archive.add("lake", filter=_without_owner)
    print(kept)
    return 0


def write(spark: SparkSession, lake: Path) -> None:
    """Runs the cycles. Recordings are named relative to the current folder, so that no machine's path is on record."""
    for cluster in ("modular", "extensible"):
        for place in (0, -1):
            at = Recording(FOLDERS[cluster]).snapshots[place].cycle_at
            if (cluster, place) == ("modular", -1):
                append_wishes(spark, Lake(str(lake)), [wish_row(WISH, cluster, Maker("operator", at))])
            run_cycle(spark, replace(_request(lake, cluster), at=at), _say)
    run_cycle(spark, replace(_request(lake, "silent"), kind="backfill", **AFTER_THE_RECORDING), _say)
    lab = Lab(Path("lab"))
    try:
        handover = open_cycles(spark, lab.request(lake))
        admin = {"admin": [lab.pulsar.url]}
        handover = handover.with_cycles(replace(one, admin=admin) for one in handover.cycles)
        for task in DECIDING:
            handover = task(spark, handover)
        publish(spark, handover, lab.sending)
    finally:
        lab.pulsar.close()


def _request(lake: Path, cluster: str) -> CycleRequest:
    source, overrides = f"recording:{FOLDERS[cluster]}", OVERRIDES.get(cluster, {})
    return CycleRequest(str(lake), source=source, clusters=(cluster,), overrides=overrides, run_id="kept lake")


def _say(name: str, seconds: float) -> None:
    print(f"{name:<12}{seconds:6.1f} s", file=sys.stderr, flush=True)


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


if __name__ == "__main__":
    sys.exit(main())
