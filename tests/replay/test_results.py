"""What `evenkeel simulate` leaves in a lake: told apart from replays of the record, and named by its seed."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from evenkeel.cli import main
from evenkeel.lake.delta_log import newest_version
from evenkeel.lake.record import read_table
from evenkeel.lake.schemas import OF_RECORD
from tests.replay.recorded_lake import CLUSTERS

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "replay.md"
RESULTS = ("replay_cycles", "replay_decisions")
SMALL = ["--scenario", "zipf", "--cycles", "12", "--bundles", "24", "--strategy", "UniformLoadShedder",
         "--set", "loadBalancerMsgRateDifferenceShedderThreshold=20", "--set", "maxUnloadPercentage=0.5",
         "--set", "evenkeelGuardsEnabled=false",
         "--set", "loadBalancerDistributeBundlesEvenlyEnabled=false"]  # fmt: skip


@pytest.fixture(autouse=True)
def server(engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVENKEEL_SPARK", engine.url)


def simulated(lake: Path, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """What the command printed."""
    assert main(["simulate", "--lake", str(lake), "--json", *words]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def rows_of(lake: Path, table: str, replay_id: str) -> list[dict[str, Any]]:
    rows = [row for row in read_table(lake, table) if row["replay_id"] == replay_id]
    rows = [{name: value for name, value in row.items() if name not in ("write_id", "replay_id")} for row in rows]
    return sorted(rows, key=lambda row: str([row[name] for name in sorted(row)]))


def run_of(lake: Path, replay_id: str) -> dict[str, Any]:
    (run,) = (row for row in read_table(lake, "replay_runs") if row["replay_id"] == replay_id)
    return dict(run)


def test_a_simulation_is_kept_with_its_scenario_and_seed_and_comes_out_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, same, other = (simulated(tmp_path, capsys, *SMALL, "--seed", seed) for seed in ("7", "7", "8"))
    run = run_of(tmp_path, one["replay_id"])
    assert (run["kind"], run["cycles"], run["cluster"]) == ("closed_loop", 12, "model")
    scenario = json.loads(run["scenario"])
    assert (scenario["name"], scenario["seed"], scenario["bundles"]) == ("zipf", 7, 24)
    assert len(scenario["model"]) == 3
    assert all(fit["base"] > 0 and fit["per_byte"] > 0 for fit in scenario["model"].values())
    assert json.loads(run["summary"]) == one["variants"]
    assert json.loads(run_of(tmp_path, other["replay_id"])["scenario"])["seed"] == 8

    kept = {table: rows_of(tmp_path, table, one["replay_id"]) for table in RESULTS}
    listed = {write["table"]: write["rows"] for write in run["writes"]}
    assert listed == {table: len(rows) for table, rows in kept.items()}
    assert listed["replay_cycles"] == 2 * 12
    assert sum(row["moves"] + row["splits"] for row in kept["replay_cycles"]) == sum(
        row["outcome"] == "asked" for row in kept["replay_decisions"]
    ) > 0  # fmt: skip
    assert {table: rows_of(tmp_path, table, same["replay_id"]) for table in RESULTS} == kept
    assert rows_of(tmp_path, "replay_cycles", other["replay_id"]) != kept["replay_cycles"]


@pytest.mark.exhaustive
def test_recorded_traffic_is_simulated_beside_the_record(spark, lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    versions = {table: newest_version(str(lake / table)) for table in OF_RECORD}
    cluster = next(iter(CLUSTERS))
    found = simulated(lake, capsys, "--cluster", cluster)
    assert {table: newest_version(str(lake / table)) for table in OF_RECORD} == versions
    run = run_of(lake, found["replay_id"])
    scenario = json.loads(run["scenario"])
    assert (run["kind"], run["cluster"]) == ("closed_loop", cluster)
    assert (scenario["name"], scenario["seed"]) == ("recorded", None)
    assert scenario["error"]["points"] > 0
    rows = rows_of(lake, "replay_cycles", found["replay_id"])
    assert {row["cluster"] for row in rows} == {cluster}
    assert {(row["plan_id"], row["reproduced"], row["only_here"]) for row in rows} == {(None, None, None)}
    query = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)[0]
    told = {row["variant"]: row.asDict() for row in spark.sql(query.replace("LAKE", str(lake))).collect()}
    assert {(row["kind"], row["traffic"], row["seed"]) for row in told.values()} == {("closed_loop", "recorded", None)}
    assert {name: row["moves"] for name, row in told.items()} == {
        row["variant"]: row["moves"] for row in found["variants"]
    }
