"""Recorded snapshots that are repeated at other times."""

import gzip
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks.repeated import RECORDING, moved_file
from evenkeel.sources.recordings import Recording


def reported(document: dict[str, Any]) -> list[int]:
    bodies = [one["body"] for one in document["requests"] if one["path"].endswith("/load-report")]
    return [json.loads(body)["lastUpdate"] for body in bodies]


def test_all_times_of_a_snapshot_are_moved_alike() -> None:
    document = json.loads(gzip.decompress(Path(Recording(RECORDING).snapshots[0].path).read_bytes()))
    later = json.loads(gzip.decompress(moved_file(document, 7, timedelta(days=3, seconds=5))))
    assert later["n"] == 7
    assert reported(later) == [at + 1000 * (3 * 86_400 + 5) for at in reported(document)] != []
    times = [(document[name], later[name]) for name in ("started_at", "finished_at")]
    times += [(old["at"], new["at"]) for old, new in zip(document["requests"], later["requests"], strict=True)]
    assert {datetime.fromisoformat(new) - datetime.fromisoformat(old) for old, new in times} == {
        timedelta(days=3, seconds=5)
    }
