"""From a cluster by `evenkeel collect` into the landing zone, and from there into the cycles of a run."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from evenkeel.cli import main
from evenkeel.handover import FAILED, OPEN, SKIPPED
from evenkeel.ingest.open_run import CycleRequest, cycles_of
from evenkeel.object_store import S3Connection
from evenkeel.secret import Secret
from evenkeel.sources.configuration import LiveSource, ZoneSource, read_configuration
from evenkeel.sources.landing_zone import s3 as client
from evenkeel.sources.landing_zone.spool import spool_folder, store_of, upload_snapshot
from evenkeel.sources.recordings import Recording
from tests.pulsar.admin.books import Size, sized
from tests.pulsar.admin.simulated import SimulatedCluster
from tests.sources.landing_zone.conftest import Bucket
from tests.sources.landing_zone.faults import refuse
from tests.sources.landing_zone.snapshots import snapshot
from tests.sources.landing_zone.stand_in import ACCESS_KEY, SECRET_KEY

pytestmark = pytest.mark.slow

TOKEN = "t0k3n-of-the-test"


@pytest.fixture
def cluster() -> Iterator[SimulatedCluster]:
    with SimulatedCluster(sized(Size(20, 2, 2)), 2, token=TOKEN) as running:
        yield running


@pytest.fixture(autouse=True)
def beside_the_cluster(bucket: Bucket, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MY_TOKEN", TOKEN)
    monkeypatch.setenv("EVENKEEL_TOKEN_ANY", TOKEN)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", bucket.faults.url)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(client, "TRIES", 2)


def collect(cluster: SimulatedCluster, bucket: Bucket, *options: str) -> int:
    return main(["collect", "--admin", cluster.url, "--to", bucket.url, "--token-env", "MY_TOKEN", *options])


def request_for(folder: Path, bucket: Bucket, *more: str, **asked: str) -> CycleRequest:
    file = folder / "clusters.toml"
    file.write_text("\n".join([f'[clusters.lab]\ns3 = "{bucket.url}"', *more]), encoding="utf-8")
    return CycleRequest(lake=str(folder / "lake"), configuration=str(file), **asked)  # type: ignore[arg-type]


def test_what_was_collected_is_what_a_run_opens(
    cluster: SimulatedCluster, bucket: Bucket, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert collect(cluster, bucket, "--cluster", "lab", "--count", "3", "--every", "0.01", "--full-every", "2") == 0
    told = capsys.readouterr().err
    assert "[3/3]" in told
    assert not list((tmp_path / "state").rglob("*.jsonl.gz")), "nothing waits here"
    (newest,) = cycles_of(request_for(tmp_path, bucket))
    taken = newest.snapshot
    assert (newest.cluster, newest.status, newest.source, newest.unreadable) == ("lab", OPEN, "s3", ())
    assert Path(taken.path).parent == tmp_path / "landing/lab"
    assert newest.cycle_at == taken.cycle_at == taken.configuration_at
    (before,) = cycles_of(request_for(tmp_path, bucket, at=str(taken.previous_at)))
    assert before.snapshot.configuration_at == before.snapshot.previous_at, "the first one lends its topic lists"
    assert [one.cycle_at for one in Recording(tmp_path / "landing/lab").snapshots] == [
        before.snapshot.previous_at,
        before.cycle_at,
        newest.cycle_at,
    ]


def test_a_cluster_names_itself(cluster: SimulatedCluster, bucket: Bucket) -> None:
    assert collect(cluster, bucket) == 0
    (key,) = bucket.names()
    assert key.startswith("land/sim/")


def test_what_cannot_be_uploaded_is_kept_and_said(
    cluster: SimulatedCluster, bucket: Bucket, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spool = tmp_path / "here"
    bucket.faults.on("PUT", r"jsonl\.gz$", refuse(403, "AccessDenied"))
    assert collect(cluster, bucket, "--cluster", "lab", "--spool", str(spool)) == 2
    told = capsys.readouterr().err
    assert "access is denied" in told
    assert f"The snapshot is kept at {spool}/" in told
    assert SECRET_KEY not in told
    assert collect(cluster, bucket, "--cluster", "lab", "--spool", str(spool)) == 0
    assert len(bucket.names()) == 2
    assert list(spool.iterdir()) == []


def test_of_many_one_that_cannot_be_uploaded_stops_nothing(
    cluster: SimulatedCluster, bucket: Bucket, capsys: pytest.CaptureFixture[str]
) -> None:
    bucket.faults.on("PUT", r"jsonl\.gz$", refuse(403, "AccessDenied"))
    assert collect(cluster, bucket, "--cluster", "lab", "--count", "2", "--every", "0.01") == 1
    assert len(bucket.names()) == 2
    assert "[1/2]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--to", "s3://"), "names no bucket"),
        (("--to", "gs://bucket/x"), "to folders and to s3://, and knows no gs://"),
        (("--to", "folder", "--spool", "x"), "--spool goes with --to s3://"),
        (("--to", "folder", "--cluster", "x"), "--cluster goes with --config or with S3"),
    ],
)
def test_options_that_do_not_fit(
    cluster: SimulatedCluster, options: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["collect", "--admin", cluster.url, "--token-env", "MY_TOKEN", *options]) == 2
    assert expected in capsys.readouterr().err
    assert cluster.seen == []


def test_the_same_configuration_serves_beside_the_cluster_and_far_from_it(
    cluster: SimulatedCluster, bucket: Bucket, tmp_path: Path
) -> None:
    request = request_for(tmp_path, bucket, f'admin = "{cluster.url}"\nconnection = "any"')
    assert main(["collect", "--config", str(request.configuration), "--to", bucket.url]) == 0
    assert bucket.names()[0].startswith("land/lab/")
    cluster.close()
    asked = len(cluster.seen)
    (cycle,) = cycles_of(request)
    assert (cycle.status, cycle.source) == (OPEN, "s3")
    assert len(cluster.seen) == asked


def test_a_cluster_without_a_usable_snapshot_is_left_out_and_the_others_go_on(
    cluster: SimulatedCluster, bucket: Bucket, tmp_path: Path
) -> None:
    assert collect(cluster, bucket, "--cluster", "lab") == 0
    request = request_for(
        tmp_path,
        bucket,
        f'[clusters.empty]\ns3 = "{bucket.url}"',
        '[clusters.nowhere]\ns3 = "s3://nobodys-bucket"',
        f'[clusters.unnamed]\ns3 = "{bucket.url}"\ns3_connection = "unnamed"',
    )
    cycles = {cycle.cluster: cycle for cycle in cycles_of(request)}
    assert {name: cycle.status for name, cycle in cycles.items()} == {
        "lab": OPEN, "empty": SKIPPED, "nowhere": SKIPPED, "unnamed": FAILED,
    }  # fmt: skip
    reasons = {name: str(cycle.reason) for name, cycle in cycles.items()}
    assert "its snapshot was not fetched" in reasons["empty"]
    assert "holds no snapshot of empty; it holds lab" in reasons["empty"]
    assert "there is no such bucket" in reasons["nowhere"]
    assert "connection 'unnamed' is unknown" in reasons["unnamed"]


def test_a_connection_brings_the_keys(
    cluster: SimulatedCluster, bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert collect(cluster, bucket, "--cluster", "lab") == 0
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name)
    known = {"aws_far": S3Connection(ACCESS_KEY, Secret(SECRET_KEY), endpoint=bucket.faults.url)}
    (cycle,) = cycles_of(request_for(tmp_path, bucket, 's3_connection = "aws_far"'), stores=known.get)
    assert cycle.status == OPEN
    assert SECRET_KEY not in repr((cycle, known))


def test_a_backfill_takes_the_snapshots_of_its_time(cluster: SimulatedCluster, bucket: Bucket, tmp_path: Path) -> None:
    assert collect(cluster, bucket, "--cluster", "lab", "--count", "2", "--every", "0.01") == 0
    request = request_for(tmp_path, bucket)
    (newest,) = cycles_of(request)
    at = str(newest.snapshot.previous_at)
    (older,) = cycles_of(replace(request, kind="backfill", at=at))
    assert (older.status, older.cycle_at) == (OPEN, at)


def test_a_snapshot_of_a_time_to_come_is_left_for_then(
    cluster: SimulatedCluster, bucket: Bucket, tmp_path: Path
) -> None:
    assert collect(cluster, bucket, "--cluster", "lab") == 0
    ahead = datetime.now(UTC) + timedelta(minutes=3)  # no further than clocks may be apart
    upload_snapshot(snapshot(tmp_path, cycle_at=ahead), bucket.url, "lab", client=bucket.plain)
    request = request_for(tmp_path, bucket)
    (cycle,) = cycles_of(request)
    assert cycle.at < datetime.now(UTC)
    (cycle,) = cycles_of(replace(request, at=ahead.isoformat()))
    assert cycle.at == ahead


def test_a_damaged_snapshot_is_handed_on_as_unreadable(
    cluster: SimulatedCluster, bucket: Bucket, tmp_path: Path
) -> None:
    assert collect(cluster, bucket, "--cluster", "lab", "--count", "2", "--every", "0.01") == 0
    bucket.plain.put_object(Bucket=bucket.name, Key=max(bucket.names()), Body=b"<html>")
    (cycle,) = cycles_of(request_for(tmp_path, bucket))
    assert cycle.status == OPEN
    assert [(file, place) for file, place, _ in cycle.unreadable] == [
        (f"s3://{bucket.name}/{max(bucket.names())}", "snapshot")
    ]


def test_landed_snapshots_expire_here_and_stay_in_the_zone(
    cluster: SimulatedCluster, bucket: Bucket, tmp_path: Path
) -> None:
    assert collect(cluster, bucket, "--cluster", "lab", "--count", "3", "--every", "0.01", "--full-every", "1") == 0
    request = request_for(tmp_path, bucket)
    (newest,) = cycles_of(request)
    cycles_of(replace(request, at=newest.snapshot.previous_at))
    folder = tmp_path / "landing/lab"
    assert len(Recording(folder).snapshots) == 2
    cycles_of(request_for(tmp_path, bucket, "landing_days = 1e-9"))
    assert [one.cycle_at for one in Recording(folder).snapshots] == [newest.cycle_at]
    assert len(bucket.names()) == 3


def test_what_a_configuration_says_of_a_zone(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(
        '[clusters.a]\ns3 = "s3://b/p"\ns3_connection = "aws"\nlanding = "/data/a"\nlanding_days = 3\n'
        '[clusters.b]\ns3 = "s3://b"\nadmin = "http://b1:8080"\n'
    )
    first, second = read_configuration(file)
    assert (first.zone, first.live, first.recording) == (ZoneSource("s3://b/p", "aws", 3.0), None, Path("/data/a"))
    assert (second.zone, second.live) == (ZoneSource("s3://b"), LiveSource(("http://b1:8080",)))
    assert second.recording == tmp_path / "landing/b"


def test_each_target_and_cluster_has_a_spool_of_its_own(tmp_path: Path) -> None:
    folders = {spool_folder(target, name) for target in ("s3://a", "s3://b") for name in (None, "east", "west")}
    assert len(folders) == 6
    assert {folder.parent for folder in folders} == {tmp_path / "state/evenkeel/uploads"}
    assert store_of(str(tmp_path)).next_number() == 0
