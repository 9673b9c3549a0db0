"""Recordings in which nearly everything is wrong at some moment, made of sound ones.

    python -m tests.pipeline.odd_recordings SOURCE … FOLDER --seed 7

writes such a recording, e.g. for `tools/windows_alike.py`.
"""

import argparse
import copy
import gzip
import json
import random
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from itertools import zip_longest
from pathlib import Path
from typing import Any

from benchmarks.repeated import moved
from evenkeel.sources.recordings import Recording
from tests.bad_input.snapshots import STATUSES
from tests.bad_input.values import BROKEN_JSON, JSON_VALUES
from tests.snapshot_lines import in_lines

Document = dict[str, Any]
MANAGERS = ("ModularLoadManagerImpl", "extensions.ExtensibleLoadManagerImpl", "Unheard")
VERSIONS = ("4.0.7", "4.2.4", "5.0.0", "", "new")
SETTINGS = {
    "loadBalancerNamespaceBundleMaxTopics": ("3", "8", "many", "-1"),
    "loadBalancerLoadSheddingStrategy": ("OverloadShedder", "ThresholdShedder", "UniformLoadShedder", "Own"),
    "loadBalancerLoadPlacementStrategy": ("RoundRobinBrokerSelector", "LeastResourceUsageWithWeight", ""),
    "loadBalancerSheddingIntervalMinutes": ("0", "1", "30"),
    "loadBalancerBrokerOverloadedThresholdPercentage": ("1", "85", "1000"),
    "defaultNamespaceBundleSplitAlgorithm": ("topic_count_equally_divide", "range_equally_divide", "own"),
}
FAR_OFF = ("2027-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z")
NAMES = (
    '["other"]',
    '["lab", "other"]',
    "[]",
    "nothing",
    json.dumps(["a\ud800b"]),
    '["../.."]',
    json.dumps(["n" * 10_000]),
)
RUNTIME = "/configuration/runtime"
STEP, GAP = timedelta(minutes=5), timedelta(days=1, minutes=3)


def write_odd(sources: Sequence[Path], folder: Path, seed: int, most: int | None = None) -> Path:
    """A recording in `folder`, of snapshots of the recordings `sources` in turn: a third as they are, the others each
    with one to three things wrong; and between them files that are no snapshots. The same for the same seed."""
    drawn = random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    each = [[Path(one.path) for one in Recording(source).snapshots] for source in sources]
    files = [file for turn in zip_longest(*each) for file in turn if file is not None][:most]
    sound = [json.loads(gzip.decompress(file.read_bytes())) for file in files]
    names = [f"{number:04d}" for number in range(len(sound))]
    if drawn.random() < 0.3:
        drawn.shuffle(names)
    at = datetime.fromisoformat(sound[0]["finished_at"])
    for number, (name, body) in enumerate(zip(names, copy.deepcopy(sound), strict=True)):
        body = moved(body, at - datetime.fromisoformat(body["finished_at"]))
        at += drawn.choice((STEP, STEP, STEP, GAP))
        for _ in range(drawn.choice((0, 1, 1, 2, 3)) if number else 0):
            drawn.choice(WRONG)(drawn, body, sound[number - 1])
        _write(drawn, folder, name, body)
        if drawn.random() < 0.2:
            (folder / f"{1000 + number}.json").write_bytes(drawn.choice(list(BROKEN_JSON.values())))
    return folder


def _write(drawn: random.Random, folder: Path, name: str, body: Document) -> None:
    kind = drawn.random()
    if kind < 0.15:
        packed = gzip.compress(in_lines(body, has_configuration=drawn.random() < 0.5))
        (folder / f"{name}.jsonl.gz").write_bytes(packed[:-40] if drawn.random() < 0.3 else packed)
        return
    packed = gzip.compress(json.dumps(body).encode())
    padded = packed + bytes(16)  # Python unpacks it, and Java does not
    (folder / f"{name}.json.gz").write_bytes(packed[:-200] if kind > 0.95 else padded if kind > 0.9 else packed)


def _requests(body: Document) -> list[dict[str, Any]]:
    return [one for one in body["requests"] if isinstance(one, dict)]


def _one_of(drawn: random.Random, body: Document) -> dict[str, Any]:
    return drawn.choice(_requests(body) or [{}])


# What may be wrong with a snapshot.


def bent(drawn: random.Random, body: Document, _: Document) -> None:
    """A value somewhere inside an answer."""
    request = _one_of(drawn, body)
    try:
        answer = json.loads(request["body"])
    except (KeyError, TypeError, ValueError):
        return
    inner = {"root": answer}
    holder: Any = inner
    place: Any = "root"
    while isinstance(holder[place], dict | list) and holder[place] and drawn.random() < 0.85:
        holder = holder[place]
        place = drawn.choice(list(holder)) if isinstance(holder, dict) else drawn.randrange(len(holder))
    holder[place] = drawn.choice(list(JSON_VALUES.values()))
    request["body"] = json.dumps(inner["root"])


def broken(drawn: random.Random, body: Document, _: Document) -> None:
    """A whole answer."""
    _one_of(drawn, body)["body"] = drawn.choice(list(BROKEN_JSON.values())).decode("utf-8", "replace")


def refused(drawn: random.Random, body: Document, _: Document) -> None:
    """The status of an answer."""
    _one_of(drawn, body)["status"] = drawn.choice(STATUSES)


def dropped(drawn: random.Random, body: Document, _: Document) -> None:
    """Answers that are not there, or none at all."""
    kept = drawn.choice((0.0, 0.5, 0.9, 0.9, 0.97))
    body["requests"] = [one for one in body["requests"] if drawn.random() < kept]


def asked_twice(drawn: random.Random, body: Document, before: Document) -> None:
    """Answers of the snapshot before, beside this one's."""
    body["requests"] += drawn.sample(before["requests"], drawn.randint(1, 4))


def silent(drawn: random.Random, body: Document, _: Document) -> None:
    """A broker that does not answer."""
    lost = _one_of(drawn, body).get("broker")
    for request in _requests(body):
        if request.get("broker") == lost and "/broker-stats/" in str(request.get("path")):
            request |= {"status": 0, "body": None}


def other_request(drawn: random.Random, body: Document, _: Document) -> None:
    """A request that is none."""
    body["requests"].insert(0, drawn.choice((7, "text", None, [], {}, {"path": 5}, {"path": "/x", "status": "y"})))


def reconfigured(drawn: random.Random, body: Document, _: Document) -> None:
    """Settings of all brokers, their load manager and their version."""
    chosen = {key: drawn.choice(values) for key, values in SETTINGS.items() if drawn.random() < 0.5}
    manager, version = drawn.choice(MANAGERS), drawn.choice(VERSIONS)
    for request in _requests(body):
        path = str(request.get("path"))
        if path.endswith(RUNTIME) and request.get("status") == 200:
            told = json.loads(request["body"]) if str(request["body"]).startswith("{") else {}
            told |= chosen | ({"loadManagerClassName": manager} if drawn.random() < 0.4 else {})
            request["body"] = json.dumps(told)
        elif path.endswith("/brokers/version") and drawn.random() < 0.8:
            request["body"] = version


def ill_timed(drawn: random.Random, body: Document, before: Document) -> None:
    """The moment of the snapshot."""
    end = datetime.fromisoformat(body["finished_at"])
    moments = (end.isoformat(), before["finished_at"], (end - timedelta(days=3)).isoformat(), *FAR_OFF)
    body[drawn.choice(("started_at", "finished_at", "cycle_at"))] = drawn.choice(moments)


def another_cluster(drawn: random.Random, body: Document, _: Document) -> None:
    """The name of the cluster."""
    for request in _requests(body):
        if request.get("path") == "/admin/v2/clusters":
            request["body"] = drawn.choice(NAMES)


Wrong = Callable[[random.Random, Document, Document], None]
WRONG: Sequence[Wrong] = (
    *(bent, bent, bent, broken, refused, dropped, asked_twice, silent, reconfigured, reconfigured),
    *(ill_timed, another_cluster, other_request),
)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="writes a recording in which nearly everything is wrong")
    parser.add_argument("sources", type=Path, nargs="+")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--most", type=int, help="snapshots at most")
    given = parser.parse_args()
    write_odd(given.sources, given.folder, given.seed, given.most)
