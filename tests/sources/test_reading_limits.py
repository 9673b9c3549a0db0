"""What a folder may hold in place of snapshots: bombs, lines and headers without end, pipes, a million names.

Test plan: each is refused with a sentence that names file, size, limit and what to do, before it costs memory or time;
the snapshots beside it are read.
"""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from evenkeel.errors import BadInput
from evenkeel.pulsar.limits import DEFAULT, BeyondLimit, Limits
from evenkeel.sources.configuration import read_configuration
from evenkeel.sources.landed_answers import read_small_answers
from evenkeel.sources.landing import Landing
from evenkeel.sources.recordings import Recording, cluster_name
from evenkeel.sources.snapshot_files import open_bytes
from evenkeel.sources.snapshot_requests import read_requests
from tests.pulsar.small_cluster import SmallCluster

MIB = 1 << 20
HEAD = '{"format": 1, "started_at": "2026-03-01T12:00:00Z", "finished_at": "2026-03-01T12:00:05Z"'
SMALL = Limits(document_mib=2, snapshot_mib=4, packed_mib=1, answer_mib=1, requests=1_000)


def zeros(mib: int, begin: bytes = b"", end: bytes = b"") -> bytes:
    """A gzip file of spaces: a thousandth of what it unpacks to, made without holding that."""
    pieces = [gzip.compress(begin, mtime=0), *[gzip.compress(b" " * MIB)] * mib, gzip.compress(end)]
    return b"".join(pieces)


def lines(place: Path, data: bytes, requests: int = 1) -> Path:
    """A snapshot in lines: a head, and these bytes, packed or not."""
    head = f'{HEAD}, "requests": {requests}}}\n'.encode()
    place.write_bytes((gzip.compress(head, mtime=0) if place.name.endswith(".gz") else head) + data)
    return place


def beside_a_good_one(place: Path, make: Callable[[Path], object]) -> str:
    """Why the snapshot that `make` lays down is refused, beside one that is read."""
    SmallCluster().land(place, "0000.json")
    make(place)
    recording = Recording(place, SMALL)
    assert [Path(snapshot.path).name for snapshot in recording.snapshots] == ["0000.json"]
    (problem,) = recording.problems
    return problem.reason


def test_a_packed_document_is_unpacked_up_to_its_limit(tmp_path: Path) -> None:
    bomb = zeros(300, HEAD.encode() + b', "requests": [', b"]}")
    reason = beside_a_good_one(tmp_path, lambda place: (place / "0001.json.gz").write_bytes(bomb))
    assert "larger than 2,097,152 bytes, unpacked, beyond the limit of 2 MiB (`document_mib`, set in [limits]" in reason
    assert "write it as NNNN.jsonl.gz, one request a line" in reason


def test_a_document_of_which_all_has_to_be_read_is_bounded_too(tmp_path: Path) -> None:
    place = tmp_path / "0000.json.gz"
    place.write_bytes(zeros(300, b'{"requests": [', b"], " + HEAD.encode()[1:] + b"}"))
    with pytest.raises(BeyondLimit, match="document_mib"):
        next(read_requests(place, SMALL))


def test_a_file_is_not_read_where_it_is_too_large_as_it_lies_there(tmp_path: Path) -> None:
    def large(place: Path) -> None:
        with (place / "0001.json").open("wb") as file:
            file.truncate(100 << 30)  # 100 GiB, of which nothing is on disk

    reason = beside_a_good_one(tmp_path, large)
    assert "0001.json has 107,374,182,400 bytes as stored, beyond the limit of 1 MiB (`packed_mib`" in reason
    long = lines(tmp_path / "0002.jsonl", b"{}\n")
    os.truncate(long, 100 << 30)
    with pytest.raises(BeyondLimit, match="packed_mib"):
        read_small_answers(str(long), SMALL)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (zeros(300), "line 2 of 0000.jsonl.gz is longer than 2,162,688 bytes"),
        (zeros(1, b"{}\n" * 8) + zeros(300), "line 10 of 0000.jsonl.gz is longer than"),
        (
            gzip.compress(b"{" + b" " * 600_000 + b"}\n", mtime=0) * 9,
            r"0000.jsonl.gz has 4,\d{3},\d{3} bytes and more, unpacked, beyond the limit of 4 MiB \(`snapshot_mib`",
        ),
        (
            gzip.compress(b"{}\n" * 1_001, mtime=0),
            r"0000.jsonl.gz has 1,001 requests and more, beyond the limit of 1,000 \(`requests`",
        ),
    ],
    ids=["bomb", "long-line", "sum", "tiny"],
)
def test_lines_are_bounded_in_bytes_number_and_length(tmp_path: Path, data: bytes, words: str) -> None:
    with pytest.raises(BeyondLimit, match=words):
        read_small_answers(str(lines(tmp_path / "0000.jsonl.gz", data)), SMALL)


def test_plain_lines_are_bounded_as_well(tmp_path: Path) -> None:
    limits = Limits(answer_mib=1, requests=5)
    long = lines(tmp_path / "0000.jsonl", b"{}\n" + b"x" * 3 * MIB)
    with pytest.raises(BeyondLimit, match=r"line 3 of 0000\.jsonl is longer"):
        read_small_answers(str(long), limits)
    with pytest.raises(BeyondLimit, match=r"6 requests"):
        read_small_answers(str(lines(tmp_path / "0001.jsonl", b"{}\n" * 6, 6)), limits)
    assert len(read_small_answers(str(lines(tmp_path / "0003.jsonl", b"{}\n" * 5, 5)), limits).requests) == 5


def test_a_head_without_end_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "0000.jsonl"
    place.touch()
    os.truncate(place, 1 << 30)
    with pytest.raises(BadInput, match="first line has more than 1,048,576 bytes"):
        read_small_answers(str(place), DEFAULT)


LINE = b'{"n": 0, "path": "/a", "status": 200, "body": ""}\n'


@pytest.mark.parametrize(
    ("place", "data", "requests", "words"),
    [
        ("0000.jsonl", LINE * 2, 3, "it holds 2 requests, and its head says 3: it is not whole"),
        ("0000.jsonl.gz", gzip.compress(LINE * 3, mtime=0)[:-9], 3, "the gzip file ends too early"),
        ("0000.jsonl.gz", b"no gzip", 1, "cannot be unpacked"),
    ],
)
def test_a_half_written_snapshot_is_none(tmp_path: Path, place: str, data: bytes, requests: int, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        read_small_answers(str(lines(tmp_path / place, data, requests)))


@pytest.mark.parametrize("end", ["", "}", '"x"}'])
def test_a_long_line_that_breaks_off_is_set_aside_with_its_beginning(tmp_path: Path, end: str) -> None:
    members = {"n": 0, "path": "/admin/v2/broker-stats/topics", "status": 200, "body": "é" * 50_000}
    whole = json.dumps(members)
    found = read_small_answers(str(lines(tmp_path / "0000.jsonl", f"{whole}\n".encode())))
    (answer,) = [request for request in found.requests if request.unread is None]
    assert (answer.n, answer.body, answer.is_left) == (0, "é" * 2_000, True)
    broken = read_small_answers(str(lines(tmp_path / "0000.jsonl", f"{whole[:-2]}{end}\n".encode())))
    if end == '"x"}':  # Spark finds the fault behind the beginning
        assert broken.requests[0].is_left
    else:
        assert broken.requests[0].unread == whole[:2_000]


def test_a_long_line_without_its_position_is_set_aside_since_spark_would_not_find_it(tmp_path: Path) -> None:
    for members in ({"path": "/metrics", "body": "x" * 3_000}, {"path": "/metrics", "body": "x" * 100_000}):
        found = read_small_answers(str(lines(tmp_path / "0000.jsonl", json.dumps(members).encode() + b"\n")))
        assert [request.unread is None for request in found.requests] == [False]


def test_a_document_nested_without_end_is_refused(tmp_path: Path) -> None:
    deep = '{"format": 1, "requests": [], "x": ' + "[" * 100_000 + "]" * 100_000 + "}"
    reason = beside_a_good_one(tmp_path, lambda place: (place / "0001.json").write_text(deep))
    assert reason == "its members are nested too deep: more than 100 levels"


@pytest.mark.parametrize("name", ["0001.json", "0001.json.gz", "0001.jsonl", "0001.jsonl.gz"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, name: str) -> None:
    reason = beside_a_good_one(tmp_path, lambda place: os.mkfifo(place / name))
    assert reason == f"{name} is not a regular file (a link, a pipe, a device, a socket or a folder): remove it"


def test_links_are_not_followed(tmp_path: Path) -> None:
    there = SmallCluster().land(tmp_path / "elsewhere", "0000.json")
    place = tmp_path / "recording"
    place.mkdir()
    for number, target in enumerate((there, "/dev/zero", "0002.json", "gone.json")):
        (place / f"{number:04}.json").symlink_to(target)
    shutil.copy(there, place / "0004.json")
    recording = Recording(place)
    assert [Path(snapshot.path).name for snapshot in recording.snapshots] == ["0004.json"]
    reasons = [problem.reason for problem in recording.problems]
    begins = "is not a regular file (a link"
    assert [begins in reason for reason in reasons] == [True, True, False, False], "the others lead nowhere"
    assert [reason[:17] for reason in reasons[2:]] == ["it cannot be read"] * 2
    with pytest.raises(BadInput, match="is not a regular file"):
        open_bytes(Path("/dev/zero"))


def test_other_names_cost_nothing_and_snapshots_are_counted(tmp_path: Path) -> None:
    SmallCluster().land(tmp_path, "0000.json")
    for n in range(2_000):
        (tmp_path / f"other-{n}").touch()
    assert len(Recording(tmp_path, Limits(snapshots=1)).snapshots) == 1
    assert Landing(tmp_path).find(SmallCluster().finished_at) is None
    (tmp_path / "0001.json").touch()
    with pytest.raises(BeyondLimit, match=r"has more than 1 snapshots, beyond the limit of 1 \(`snapshots`"):
        Recording(tmp_path, Limits(snapshots=1))


def test_a_name_is_not_looked_for_in_a_request_that_is_none(tmp_path: Path) -> None:
    for n, line in enumerate([b"7\n", b"[" * 100_000 + b"\n", b"\x1f\n"]):
        lines(tmp_path / f"{n:04d}.jsonl", line)
    for snapshot in [*Recording(tmp_path).snapshots]:
        with pytest.raises(BadInput, match="the cluster's name is unknown"):
            cluster_name(snapshot)


def test_a_bomb_costs_no_memory(tmp_path: Path) -> None:
    """Hundreds of megabytes in one, in either layout: the process that refuses them stays below 300 MB."""
    (tmp_path / "0000.json.gz").write_bytes(zeros(600, HEAD.encode() + b', "requests": [', b"]}"))
    lines(tmp_path / "0001.jsonl.gz", zeros(600))
    (tmp_path / "0002.json.gz").write_bytes(gzip.compress(b'{"requests": [' + b"[]," * 5_000_000 + b"[]]}", mtime=0))
    program = (
        "import sys; from evenkeel.sources.landed_answers import read_small_answers\n"
        "from evenkeel.errors import BadInput\n"
        "for name in ('0000.json.gz', '0001.jsonl.gz', '0002.json.gz'):\n"
        "    try: read_small_answers(sys.argv[1] + '/' + name)\n"
        "    except BadInput as error: print(error)\n"
        # The most of this program alone: what getrusage knows of begins with the process that started it.
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True)
    *reasons, kilobytes = done.stdout.splitlines()
    assert "`document_mib`" in reasons[0]
    assert "line 2 of 0001.jsonl.gz is longer" in reasons[1]
    assert reasons[2] == "it has more than 8,000,000 values"
    assert int(kilobytes) < 300_000


CONFIGURATION = """
[limits]
answer_mib = 3
rows = 5

[clusters.east]
recording = "east"

[clusters.west]
recording = "west"
[clusters.west.limits]
rows = 7
"""


def test_limits_are_set_for_all_clusters_and_for_one(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(CONFIGURATION)
    east, west = read_configuration(file)
    assert east.limits == Limits(answer_mib=3, rows=5)
    assert west.limits == Limits(answer_mib=3, rows=7)
    assert (east.overrides, DEFAULT.to_dict()) == ({}, None), "limits are no settings: they enter no digest"
    assert json.loads(json.dumps(west.limits.to_dict()))["rows"] == 7


def test_the_page_lists_every_limit_with_its_default() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "configuration.md").read_text(encoding="utf-8")
    _, _, limits = page.partition("## `[limits]`")
    listed = dict(re.findall(r"^\|`(\w+)`\|[^|]*\|`([\d,]+)`\|", limits.partition("\n## ")[0], re.MULTILINE))
    assert {name: int(value.replace(",", "")) for name, value in listed.items()} == asdict(DEFAULT)
