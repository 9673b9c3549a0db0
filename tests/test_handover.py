"""What one task hands to the next arrives as it was."""

from __future__ import annotations

import json
from dataclasses import replace

from evenkeel.handover import ClusterCycle, DataFile, Handover, Predecessor, Run, Snapshot, Write

AT = "2026-11-21T08:27:04.000000+00:00"
FILES = (DataFile("cluster=a%20b/part-0 é.parquet", 4711, "d1" * 32), DataFile("cluster=a%20b/part-1.parquet", 0, "d2"))


def handover() -> Handover:
    cycle = ClusterCycle("a b", AT, Snapshot("s", AT), {"evenkeelSplitEnabled": False})
    before = Predecessor("used", AT, "attempt", AT, (Write("bundle_load", "w0", 1, 2, "d", "a b"),))
    written = (Write("bundle_load", "w1", 3, 2, "d", "a b", FILES), Write("rejected", "w2", 1, 0, "d", "a b"))
    return Handover("lake", Run("cli", "run"), (replace(cycle, predecessor=before),), written)


def test_a_hand_over_comes_back_with_the_files_of_its_writes() -> None:
    back = Handover.from_json(handover().to_json())
    assert back == handover()
    assert [write.files for write in back.writes] == [FILES, ()]
    assert back.to_json() == handover().to_json()


def test_one_of_a_version_that_listed_no_files_is_still_understood() -> None:
    body = json.loads(handover().to_json())
    for write in (*body["writes"], *body["cycles"][0]["predecessor"]["writes"]):
        del write["files"]
    assert Handover.from_json(json.dumps(body)) == handover(), "files are no part of what a write is"
