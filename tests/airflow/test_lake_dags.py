"""The DAGs of several lakes, and what keeps two lakes from one cluster."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evenkeel.airflow.dag_names import (
    APPROVAL_DAG,
    DECIDING_DAG,
    HEAT_DAG,
    dag_id_of,
    dag_of_rights,
    deciding_lakes,
    every_lake,
    expected_dags,
    kind_of_dag,
    lake_in,
    lake_tags,
)
from evenkeel.airflow.lake_guard import LakeGuard, without_moved
from evenkeel.errors import BadInput, SettingsError
from evenkeel.handover import OPEN, SKIPPED, ClusterCycle, Handover, Run, Snapshot
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.settings.names import MAIN
from evenkeel.settings.operation import CONFIGURATION
from tests.lakes.several_lakes import MOVED, Installation, configuration, lakes_in_force

AT = "2026-11-20T12:00:00+00:00"
PLAIN = {"rebalance", "rebalance_approval", "rebalance_history", "replay", "heat", "upkeep"}


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    return lakes_in_force(tmp_path, monkeypatch)


def move(made: Installation, cluster: str, lake: str) -> None:
    lakes = {"north": ["eu-*"], "south": ["us-*", MOVED], "old": list[str]()}
    own = {name: [one for one in named if one != cluster] for name, named in lakes.items()}
    own[lake].append(cluster)
    made.file.write_text(configuration(own, ["eu-1", "eu-2", "us-1", MOVED]))


def test_an_installation_of_one_lake_has_the_dags_that_it_had(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for environment in ({}, {"EVENKEEL_LAKE": "/lake"}):
        monkeypatch.delenv(CONFIGURATION, raising=False)
        monkeypatch.delenv("EVENKEEL_LAKE", raising=False)
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        assert deciding_lakes() == every_lake() == (MAIN,)
        assert expected_dags() == PLAIN
        assert lake_tags(MAIN) == []
        assert dag_of_rights(DECIDING_DAG) == "rebalance"


def test_each_lake_has_its_own_and_main_keeps_the_plain_ones(
    made: Installation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert deciding_lakes() == ("north", "south")
    assert every_lake() == ("north", "south", "old")
    assert "rebalance.old" not in expected_dags()
    assert {"upkeep.old", "heat.old", "rebalance.north", "rebalance_approval.south", "replay"} <= expected_dags()
    assert dag_of_rights(DECIDING_DAG) == "rebalance.north", "without `main` there is no DAG `rebalance`"
    more = '[clusters.asia]\nrecording = "r"\n'
    made.file.write_text(f"lake = '{tmp_path / 'main'}'\n{made.file.read_text()}{more}")
    assert deciding_lakes() == (MAIN, "north", "south")
    assert expected_dags() >= PLAIN
    assert dag_of_rights(DECIDING_DAG) == "rebalance"


def test_a_main_lake_that_nothing_belongs_to_decides_nothing(
    made: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_LAKE", "/var/lib/evenkeel/lake")
    assert deciding_lakes() == ("north", "south")
    assert every_lake()[0] == MAIN


def test_the_id_of_a_dag_says_its_lake() -> None:
    for dag in (DECIDING_DAG, APPROVAL_DAG, HEAT_DAG):
        assert (lake_in(dag), kind_of_dag(dag)) == (MAIN, dag)
        own = dag_id_of(dag, "north-2")
        assert own == f"{dag}.north-2"
        assert (lake_in(own), kind_of_dag(own)) == ("north-2", dag)


def test_a_run_is_over_the_lake_of_its_dag_and_over_its_clusters_alone(made: Installation) -> None:
    from evenkeel.airflow.steps import lake_root, lake_root_of

    assert lake_root("rebalance.north") == made.path("north")
    assert lake_root("upkeep.old") == made.path("old")
    assert lake_root_of(MOVED) == made.path("south")
    with pytest.raises(SettingsError, match="no lake 'nort' is configured"):
        lake_root("rebalance.nort")
    with pytest.raises(SettingsError, match="EVENKEEL_LAKE is not set"):
        lake_root("rebalance")
    with pytest.raises(BadInput, match="the param `cluster` says which"):
        lake_root_of("")
    with pytest.raises(BadInput, match="belongs to none of the lakes north, south, old"):
        lake_root_of("asia")


def sources(made: Installation, lake: str, *clusters: str) -> list[str | None]:
    request = CycleRequest(made.path(lake), configuration=str(made.file), clusters=clusters)
    return [source.cluster for source in request.sources()]


def test_a_run_takes_the_clusters_of_its_lake_and_refuses_others(made: Installation, tmp_path: Path) -> None:
    assert sources(made, "north") == ["eu-1", "eu-2"]
    assert sources(made, "south", "us-1") == ["us-1"]
    with pytest.raises(SettingsError, match="the cluster us-1 belongs to the lake south, not to north"):
        sources(made, "north", "eu-1", "us-1")
    with pytest.raises(SettingsError, match="no configured cluster belongs to the lake old"):
        sources(made, "old")
    scratch = CycleRequest(str(tmp_path / "scratch"), configuration=str(made.file))
    assert len(scratch.sources()) == 4, "a lake that is not configured takes all, as a copy or a trial does"


def handover(made: Installation, *clusters: str) -> Handover:
    snapshot = Snapshot("s", AT)
    cycles = tuple(ClusterCycle(name, AT, snapshot, {}) for name in clusters)
    return Handover(made.path("north"), Run("rebalance.north", "r", "live", "auto", None), cycles)


def test_a_run_that_is_under_way_leaves_out_what_was_moved_meanwhile(made: Installation) -> None:
    given = handover(made, "eu-1", "eu-2")
    assert without_moved(given) == given
    move(made, "eu-2", "south")
    first, second = without_moved(given).cycles
    assert (first.status, second.status) == (OPEN, SKIPPED)
    assert second.reason is not None
    assert "belongs to the lake south by the configuration now" in second.reason


def test_nothing_goes_out_from_the_lake_that_a_cluster_was_taken_from(made: Installation) -> None:
    guard = LakeGuard(made.path("north"), lambda cluster: "paused" if cluster == "eu-1" else None)
    assert guard("eu-1") == "paused"
    assert guard("eu-2") is None
    move(made, "eu-2", "south")
    assert (
        guard("eu-2") == "eu-2 belongs to the lake south by the configuration now: nothing more of it is written to "
        "this lake"
    )


def lease(made: Installation, lake: str, cluster: str, until: datetime, token: int = 1) -> None:
    from tests.lakes.small_lake import SmallLake

    at = until - timedelta(minutes=2)
    row = {"cluster": cluster, "kind": "lease", "at": at, "by": "host/1/a", "token": token, "until": until}
    SmallLake(Path(made.path(lake))).append("controls", [row])


def test_nothing_goes_out_while_the_other_lakes_lease_lasts(made: Installation) -> None:
    until = datetime.now(UTC) + timedelta(minutes=5)
    lease(made, "old", MOVED, until)
    reason = LakeGuard(made.path("south"), lambda _: None)(MOVED)
    assert reason is not None
    assert reason.startswith(f"a publisher of the lake old holds {MOVED} until {until.isoformat()}")
    assert LakeGuard(made.path("south"), lambda _: None)("us-1") is None
    lease(made, "old", MOVED, datetime.now(UTC) - timedelta(seconds=1), token=2)
    assert LakeGuard(made.path("south"), lambda _: None)(MOVED) is None, "its last step counts"


def test_another_lake_that_cannot_be_read_holds_nothing_up(made: Installation) -> None:
    made.lose("old")
    for file in Path(made.path("north"), "cycles", "_delta_log").glob("*.json"):
        file.write_text("{")
    assert LakeGuard(made.path("south"), lambda _: None)(MOVED) is None


def test_an_approval_looks_for_the_plan_in_the_deciding_dag_of_its_lake(made: Installation) -> None:
    from evenkeel.airflow.approval import waiting_plan

    asked: list[Any] = []
    ti = SimpleNamespace(
        dag_id="rebalance_approval.north", xcom_pull=lambda *words, **more: asked.append(more["dag_id"])
    )
    with pytest.raises(BadInput, match="has no plan"):
        waiting_plan(ti, {"run_id": "r", "cluster": "eu-1", "plan_id": "p"})
    assert asked == ["rebalance.north"]
