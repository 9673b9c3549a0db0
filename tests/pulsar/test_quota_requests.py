"""Which resource quotas a snapshot asks for, how many, where they lie, and what becomes of a refusal."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from evenkeel.cli import main
from evenkeel.ingest.open_run import CycleRequest, cycles_of
from evenkeel.pulsar.admin import AdminClient, AdminConnection
from evenkeel.pulsar.answers import Answer as Told
from evenkeel.pulsar.answers import Answers
from evenkeel.pulsar.limits import Limits
from evenkeel.pulsar.observed_rows import ObservedRows, observe
from evenkeel.pulsar.quotas import bundles_to_ask
from evenkeel.pulsar.snapshot import SnapshotView
from evenkeel.sources.collecting import TakenSnapshot, WantedSnapshot, take_snapshot
from evenkeel.sources.landing import FolderStore
from evenkeel.times import utc_seconds
from tests.pulsar.admin.books import DEFAULT_QUOTA, Size, sized
from tests.pulsar.admin.simulated import Answer, SimulatedCluster
from tests.snapshot_lines import requests_of

SIZE = Size(topics=20, namespaces=2, bundles=4)
BUSY = "acme/ns0001/0x7ffffffe_0xbffffffd"
QUOTAS = {BUSY: DEFAULT_QUOTA | {"msgRateIn": 5_000.0}}
ALL = sorted(f"acme/ns000{n}/{bounds}" for n in range(2) for bounds in (
    "0x00000000_0x3fffffff", "0x3fffffff_0x7ffffffe", "0x7ffffffe_0xbffffffd", "0xbffffffd_0xffffffff",
))  # fmt: skip
ROOT = "/admin/v2/resource-quotas"


def take(
    cluster: SimulatedCluster, folder: Path, limits: Limits | None = None, **wanted: Any
) -> tuple[TakenSnapshot, list[str]]:
    """A snapshot, and the bundles that were asked about ("" for the default), as they came."""
    asked = WantedSnapshot(**wanted)
    before = len(cluster.seen)
    with AdminClient(AdminConnection((cluster.url,))) as client:
        taken = take_snapshot(client, FolderStore(folder).begin(f"{asked.n:04d}"), asked, limits=limits or Limits())
    paths = [one.path for one in cluster.seen[before:] if one.path.startswith(ROOT)]
    return taken, [path.removeprefix(ROOT).removeprefix("/") for path in paths]


def observed(snapshot: Path) -> ObservedRows:
    answers = Answers(
        Told(r["n"], r["broker"], r["path"], r["status"], r["body"], None, r["location"], r["method"])
        for r in requests_of(snapshot)
    )
    now = datetime.now(UTC)
    return observe(SnapshotView("sim", str(snapshot), now, now, answers, Answers(()), None))


def test_the_default_is_asked_first_and_then_each_owned_bundle_once(tmp_path: Path) -> None:
    with SimulatedCluster(sized(SIZE, quotas=QUOTAS)) as cluster:
        taken, asked = take(cluster, tmp_path)
    assert (asked[0], sorted(asked[1:])) == ("", ALL)
    assert taken.quotas == frozenset(ALL)
    rows = observed(tmp_path / "0000.jsonl.gz").rows["resource_quotas"]
    assert [(row["bundle"], row["msg_rate_in"]) for row in rows] == [(BUSY, 5_000.0)]


def test_quotas_are_read_with_the_rest(tmp_path: Path) -> None:
    with SimulatedCluster(sized(SIZE, quotas=QUOTAS)) as cluster:
        taken, _ = take(cluster, tmp_path)
    requests = list(requests_of(tmp_path / "0000.jsonl.gz"))
    assert sorted(one["n"] for one in requests) == list(range(taken.tally.requests))
    assert sum(one["path"].startswith(ROOT) for one in requests) == 1 + len(ALL)


def test_where_all_bundles_are_known_nothing_is_asked(tmp_path: Path) -> None:
    with SimulatedCluster(sized(SIZE, quotas=QUOTAS)) as cluster:
        taken, asked = take(cluster, tmp_path, known=frozenset(ALL))
    assert (asked, taken.quotas) == ([], frozenset())


def test_known_bundles_are_not_asked_about(tmp_path: Path) -> None:
    with SimulatedCluster(sized(SIZE, quotas=QUOTAS)) as cluster:
        _, asked = take(cluster, tmp_path, known=frozenset(ALL) - {BUSY})
    assert asked == ["", BUSY]


def test_the_extensible_manager_knows_no_quotas_so_none_is_asked_for(tmp_path: Path) -> None:
    with SimulatedCluster(sized(SIZE, manager="Extensible", quotas=QUOTAS)) as cluster:
        _, asked = take(cluster, tmp_path)
    assert asked == []


@pytest.mark.parametrize("status", [401, 403, 404, 405, 500])
def test_a_refused_default_ends_it_with_one_question_and_the_snapshot_stays(tmp_path: Path, status: int) -> None:
    with SimulatedCluster(sized(SIZE, quotas=QUOTAS)) as cluster:
        cluster.fault(f"{ROOT}$", Answer(status, '{"reason": "This operation requires super-user access"}'))
        taken, asked = take(cluster, tmp_path)
    assert (asked, taken.committed, taken.quotas) == ([""], True, frozenset())
    found = observed(tmp_path / "0000.jsonl.gz")
    assert found.left_out is None
    assert [one.rule for one in found.rejections] == ["unknown_quotas"]
    assert len(found.rows["namespace_bundles"]) == 2


def test_a_refused_bundle_ends_it_and_one_that_is_gone_does_not(tmp_path: Path) -> None:
    with SimulatedCluster(sized(SIZE, quotas=QUOTAS)) as cluster:
        cluster.fault(f"{ROOT}/", Answer(403, "{}"))
        _, asked = take(cluster, tmp_path)
        assert asked == ["", ALL[0]]
    with SimulatedCluster(sized(SIZE, quotas=QUOTAS)) as cluster:
        cluster.fault(f"{ROOT}/{ALL[0]}", Answer(404, '{"reason": "Namespace does not exist"}'))
        taken, asked = take(cluster, tmp_path, n=1)
    assert sorted(asked[1:]) == ALL
    assert taken.quotas == frozenset(ALL[1:])


def test_no_more_are_asked_for_than_the_limit_allows(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with SimulatedCluster(sized(SIZE, quotas=QUOTAS)) as cluster:
        _, asked = take(cluster, tmp_path, Limits(quotas=3))
    assert sorted(asked[1:]) == ALL[:3]
    assert "the resource quotas of 8 bundles are wanted and 3 are asked for" in caplog.text


def test_brokers_own_namespaces_and_strangers_are_left_out() -> None:
    claimed = ["pulsar/b1:8080/0x00000000_0xffffffff", "acme/web/0x00000000_0xffffffff", "nonsense"]
    assert bundles_to_ask(claimed, {"acme/web"}, (), Limits()) == [claimed[1]]


def test_a_bundle_that_only_a_report_names_is_asked_about(tmp_path: Path) -> None:
    with SimulatedCluster(sized(SIZE, quotas=QUOTAS)) as cluster:
        cluster.fault("/ownedNamespaces", Answer(500, "{}"))
        _, asked = take(cluster, tmp_path)
    assert sorted(asked[1:]) == ALL


def test_collect_asks_about_all_in_a_full_snapshot_and_about_new_ones_in_between(tmp_path: Path) -> None:
    with SimulatedCluster(sized(SIZE, quotas=QUOTAS)) as cluster:
        options = ["--count", "4", "--every", "0.01", "--full-every", "3"]
        assert main(["collect", "--admin", cluster.url, "--to", str(tmp_path), *options]) == 0
    asked = [sum(one["path"].startswith(ROOT) for one in requests_of(tmp_path / f"000{n}.jsonl.gz")) for n in range(4)]
    assert asked == [1 + len(ALL), 0, 0, 1 + len(ALL)]


def test_a_run_asks_only_about_bundles_that_the_lake_has_not_measured(tmp_path: Path) -> None:
    at = datetime.now(UTC).replace(microsecond=0)
    with SimulatedCluster(sized(SIZE, quotas=QUOTAS)) as cluster:
        config = tmp_path / "clusters.toml"
        config.write_text(f'[clusters.east]\nadmin = ["{cluster.url}"]\n')
        request = CycleRequest(lake="none", configuration=str(config), at=utc_seconds(at))
        moments: list[Any] = []

        def histories(clusters: Any, moment: datetime) -> dict[str, frozenset[str]]:
            moments.append((list(clusters), moment))
            return {"east": frozenset(ALL) - {BUSY}}

        (cycle,) = cycles_of(request, histories=histories)
    assert moments == [(["east"], at)]
    paths = [one["path"] for one in requests_of(Path(cycle.snapshot.path)) if one["path"].startswith(ROOT)]
    assert paths == [ROOT, f"{ROOT}/{BUSY}"]
