"""A cycle by every shedder under every load manager that Pulsar lets it run under, through the real tasks."""

from pathlib import Path

import pytest

from evenkeel.errors import SettingsError
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.lake.record import Attempt, read_cycles, read_rows
from evenkeel.pipeline import run_cycle
from evenkeel.settings import resolve
from tests.shed.fitted import FITTED

CHECKOUT = Path(__file__).resolve().parents[2]
RECORDINGS = {
    "modular": CHECKOUT / "demo" / "recordings" / "own-threshold",
    "extensible": CHECKOUT / "tests" / "recordings" / "own-transfer",
}
SHEDDERS = ("OverloadShedder", "ThresholdShedder", "UniformLoadShedder", "AvgShedder", "TransferShedder")
ALLOWED = {"modular": SHEDDERS[:4], "extensible": SHEDDERS[4:]}


@pytest.mark.parametrize("manager", RECORDINGS)
@pytest.mark.parametrize("shedder", SHEDDERS)
def test_a_pair_that_pulsar_refuses_is_refused_with_those_it_allows(manager: str, shedder: str) -> None:
    overrides = {"evenkeelManager": manager, "loadBalancerLoadSheddingStrategy": shedder}
    if shedder in ALLOWED[manager]:
        assert resolve(observed=None, overrides=overrides).settings.loadBalancerLoadSheddingStrategy == shedder
        return
    with pytest.raises(SettingsError) as refused:
        resolve(observed=None, overrides=overrides)
    assert all(name in str(refused.value) for name in (shedder, *ALLOWED[manager]))


@pytest.fixture(scope="module")
def lake(spark, empty_lake, tmp_path_factory) -> Path:
    """One run over a cluster for each allowed pair, named after its shedder."""
    folder = tmp_path_factory.mktemp("strategies")
    lines = []
    for manager, shedders in ALLOWED.items():
        for shedder in shedders:
            lines += [f"[clusters.{shedder}]", f'recording = "{RECORDINGS[manager]}"', f"[clusters.{shedder}.settings]"]
            lines += [f'loadBalancerLoadSheddingStrategy = "{shedder}"']
            lines += [f"{key} = {_toml(value)}" for key, value in FITTED[shedder].items()]
    configuration = folder / "evenkeel.toml"
    configuration.write_text("\n".join(lines))
    made: Path = empty_lake(folder / "lake")
    run_cycle(spark, CycleRequest(lake=str(made), configuration=str(configuration)), lambda *_: None)
    return made


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize("shedder", SHEDDERS)
def test_each_shedder_sheds_and_every_bundle_it_sheds_is_placed(lake: Path, shedder: str) -> None:
    attempt = _attempt(lake, shedder)
    assert attempt.status == "closed", attempt.reason
    assert attempt.planned["shedder"] == shedder
    decided = read_rows(lake, attempt, "unload_decisions")
    assert {row["strategy"] for row in decided} == {shedder}
    shed = {row["subject"] for row in decided if row["subject_kind"] == "bundle" and row["outcome"] == "unload"}
    placed = {row["subject"]: row for row in read_rows(lake, attempt, "placement_decisions") if row["cause"] == "shed"}
    assert shed
    assert placed.keys() == shed
    assert all(row["sentence"] for row in (*decided, *placed.values()))
    assert attempt.planned["unloads"] == sum(row["outcome"] == "placed" for row in placed.values()) > 0
    assert all(row["destination"] != row["broker"] for row in placed.values() if row["outcome"] == "placed")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.exhaustive
def test_what_a_shedder_remembers_is_on_record(lake: Path) -> None:
    left = {
        shedder: {row["name"] for row in read_rows(lake, _attempt(lake, shedder), "strategy_state")}
        for shedder in SHEDDERS
    }
    assert left["ThresholdShedder"] == {"usage_average", "shed_at"}
    assert left["TransferShedder"] >= {"hits", "weighted_max_ema", "msg_throughput_ema", "shed_at"}


def _attempt(lake: Path, shedder: str) -> Attempt:
    (attempt,) = read_cycles(lake, cluster=shedder)
    return attempt
