"""Clusters that answer with rubbish of any size: the task's process stays small, and the others go on.

Test plan: one snapshot beyond each limit leaves nothing behind and says which limit; then eight clusters at once, each
sending all that a broker could send, observed in a process of their own whose memory is read when it ends.
"""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from evenkeel.pulsar.admin import AdminClient, AdminConnection
from evenkeel.pulsar.limits import MOST_BROKERS, BeyondLimit, Limits
from evenkeel.sources.collecting import TakenSnapshot, WantedSnapshot, take_snapshot
from evenkeel.sources.landed_answers import read_small_answers
from evenkeel.sources.landing import FolderStore
from tests.pulsar.admin.rubbish import RubbishServer, body, chunked, listing, of_json, repeated
from tests.snapshot_lines import requests_of

pytestmark = pytest.mark.slow

MIB = 1 << 20
TOPICS = "/admin/v2/broker-stats/topics"


@pytest.fixture
def server() -> Iterator[RubbishServer]:
    with RubbishServer() as running:
        running.answers |= listing(running)
        yield running


def collect(server: RubbishServer, folder: Path, limits: Limits) -> TakenSnapshot:
    with AdminClient(AdminConnection((server.url,)), limits=limits, folder=folder) as client:
        writer = FolderStore(folder, limits).begin("0000")
        return take_snapshot(client, writer, WantedSnapshot(), limits=limits)


def noise(total: int) -> Any:
    """An answer that does not pack."""
    piece = random.Random(7).randbytes(MIB).hex().encode()
    return chunked(lambda: (piece for _ in range(total // len(piece) + 1)))


def test_a_large_answer_is_in_the_snapshot_as_it_came(server: RubbishServer, tmp_path: Path) -> None:
    text = '{"t/n": "' + "ü\n🙂\\u0001" * 400_000 + '"}'
    server.answers[TOPICS] = body(text.encode())
    server.answers["/admin/v2/namespaces/t"] = of_json([f"t/{n:0500d}" for n in range(600)])
    taken = collect(server, tmp_path, Limits())
    by_path = {request["path"]: request for request in requests_of(tmp_path / "0000.jsonl.gz")}
    assert by_path[TOPICS]["body"] == text
    assert len(json.loads(by_path["/admin/v2/namespaces/t"]["body"])) == 600
    assert f"/admin/v2/namespaces/t/{599:0500d}" in by_path, "a list that lies on disk is read as well"
    assert taken.tally.requests == len(list(requests_of(tmp_path / "0000.jsonl.gz")))
    read_small_answers(str(tmp_path / "0000.jsonl.gz"))
    assert [entry.name for entry in tmp_path.iterdir()] == ["0000.jsonl.gz"]


@pytest.mark.parametrize(
    ("path", "answer", "words"),
    [
        (
            TOPICS,
            repeated(b"x", 3 * MIB),
            "its answers up to .*broker-stats/topics .* characters, beyond .*`snapshot_mib`",
        ),
        ("/admin/v2/namespaces/t", of_json([f"t/{n}" for n in range(99)]), "lists 99 namespaces, beyond .*`requests`"),
        ("/admin/v2/tenants", of_json([f"t{n}" for n in range(99)]), "comes to .* requests, beyond .*`requests`"),
        ("/admin/v2/brokers", of_json([f"h{n}:1" for n in range(MOST_BROKERS + 1)]), "lists 10,001 brokers"),
    ],
    ids=["bytes", "namespaces", "tenants", "brokers"],
)
def test_a_snapshot_beyond_a_limit_is_none(
    server: RubbishServer, tmp_path: Path, path: str, answer: Any, words: str
) -> None:
    server.answers[path] = answer
    with pytest.raises(BeyondLimit, match=words):
        collect(server, tmp_path, Limits(snapshot_mib=2, requests=50))
    assert list(tmp_path.iterdir()) == []


def test_what_does_not_pack_is_bounded_as_it_lies_there(server: RubbishServer, tmp_path: Path) -> None:
    for name in ("load-report", "metrics", "topics"):
        server.answers[f"/admin/v2/broker-stats/{name}"] = noise(18 * MIB)
    with pytest.raises(BeyondLimit, match=r"file comes to .* bytes, beyond the limit of 8 MiB \(`packed_mib`"):
        collect(server, tmp_path, Limits(packed_mib=8))
    assert list(tmp_path.iterdir()) == []


def test_an_answer_beyond_its_limit_is_a_row_and_the_snapshot_goes_on(server: RubbishServer, tmp_path: Path) -> None:
    server.answers["/admin/v2/namespaces/t/n"] = repeated(b"x", 3 * MIB)
    server.answers[TOPICS] = of_json({})
    collect(server, tmp_path, Limits(small_answer_mib=1))
    by_path = {request["path"]: request for request in requests_of(tmp_path / "0000.jsonl.gz")}
    found = by_path["/admin/v2/namespaces/t/n"]
    assert (found["status"], found["body"].partition(":")[0]) == (0, "answer too large")
    assert "`small_answer_mib`" in found["body"]


# Eight clusters at once.

CLUSTERS = 8
WITHOUT_END = ("c0",)
VALUES = b'{"bundles": {}, "x": [' + b"[]," * 3_900_000 + b"[]]}"
"""Policies that are within every limit, and become twenty times their size."""
MOST_MEGABYTES = 2_000
OBSERVE = """
import json, sys
from evenkeel.ingest.open_run import CycleRequest, cycles_of
cycles = cycles_of(CycleRequest(lake="none", configuration=sys.argv[1]))
# The most of this program alone: what getrusage knows of begins with the process that started it.
most = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) // 1024
print(json.dumps({"megabytes": most, "cycles": {cycle.cluster: [cycle.status, cycle.reason] for cycle in cycles}}))
"""


def rubbish(server: RubbishServer, cluster: str) -> None:
    """All at once what a broker could send: too large, not text, texts that take four times their size, values that
    take twenty times theirs, secrets without end, very many names."""
    root = "/admin/v2"
    server.answers |= listing(server, cluster)
    server.otherwise = repeated(b"\xf0\x9f\x99\x82", MIB, b'"')
    server.answers |= {
        f"{root}/brokers/leaderBroker": repeated(b"[" * 1_000, MIB),
        f"{root}/brokers/configuration/runtime": repeated(b'"password": "x", ', 2 * MIB, b"{"),
        f"{root}/broker-stats/load-report": repeated(b"\xff", 33 * MIB),
        f"{root}/broker-stats/metrics": repeated(b"[],", 6 * MIB, b"["),
        TOPICS: repeated(b"\xf0\x9f\x99\x82\x01", 6 * MIB),
        f"{root}/namespaces/t": body(json.dumps([f"t/{n}" for n in range(3)]).encode()),
        f"{root}/persistent/t/0": repeated(b'"persistent://t/n/x",', 2 * MIB, b"["),
        **{f"{root}/namespaces/t/{n}": body(VALUES) for n in range(3)},
    }
    if cluster in WITHOUT_END:
        server.answers[TOPICS] = repeated(b"\xf0\x9f\x99\x82", 1_024 * MIB)


@pytest.mark.slow
@pytest.mark.exhaustive
def test_eight_clusters_of_rubbish_at_once_keep_the_process_small(tmp_path: Path) -> None:
    with ExitStack() as stack:
        lines = ['[clusters.missing]\nrecording = "nowhere"\n']
        for n in range(CLUSTERS):
            server = stack.enter_context(RubbishServer())
            rubbish(server, f"c{n}")
            lines.append(f'[clusters.c{n}]\nadmin = ["{server.url}"]\n')
        good = stack.enter_context(RubbishServer())
        good.answers |= listing(good, "good")
        lines.append(f'[clusters.good]\nadmin = ["{good.url}"]\n')
        file = tmp_path / "c.toml"
        file.write_text("\n".join(lines))
        done = subprocess.run([sys.executable, "-c", OBSERVE, file], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2_000:]
    found = json.loads(done.stdout)
    assert found["megabytes"] < MOST_MEGABYTES
    statuses = {name: status for name, (status, _) in found["cycles"].items()}
    assert statuses == {"missing": "skipped", "good": "open", **{f"c{n}": "open" for n in range(CLUSTERS)}}
    print(f"peak {found['megabytes']} MB")
