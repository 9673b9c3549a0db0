"""A broker is emptied by commands to brokers that answer, and stays empty until that is ended.

How budgets spread a drain over cycles: tests/manual_requests/test_drain.py.
"""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from evenkeel.cli import main
from evenkeel.ingest.open_run import CycleRequest
from evenkeel.lake.record import Attempt, read_cycles, read_rows
from evenkeel.manual_requests.drain import BY_DRAINING
from evenkeel.pipeline import run_cycle
from evenkeel.publish.dispatch import Sending, reach_with
from tests.publish.acting import QUICK, LivingPulsar

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SETTINGS = {
    "evenkeelSheddingEnabled": False,
    "evenkeelSplitEnabled": False,
    "evenkeelMaxUnloadsPerCycle": -1,
    "evenkeelMaxUnloadsFromBroker": -1,
    "evenkeelMaxUnloadsToBroker": -1,
}


@pytest.fixture
def living() -> Iterator[LivingPulsar]:
    pulsar = LivingPulsar()
    yield pulsar
    pulsar.close()


def cycle(spark: Any, lake: Path, pulsar: LivingPulsar) -> Attempt:
    configuration = lake.parent / "evenkeel.toml"
    lines = [f"{name} = {json.dumps(value)}" for name, value in SETTINGS.items()]
    configuration.write_text(pulsar.described() + "\n".join(lines))
    time.sleep(1.0)  # each cycle has a second of its own
    at = datetime.now(UTC).replace(microsecond=0)
    request = CycleRequest(lake=str(lake), configuration=str(configuration), mode="auto", at=at.isoformat(), run_id="t")
    run_cycle(spark, request, lambda *_: None, Sending(reach_with(), timing=QUICK))
    (attempt,) = (one for one in read_cycles(lake) if one.cycle_at == at)
    return attempt


def about_brokers(lake: Path, attempt: Attempt) -> list[tuple[str, str, float | None]]:
    rows = read_rows(lake, attempt, "unload_decisions")
    drained = [row for row in rows if row["strategy"] == BY_DRAINING and row["subject_kind"] == "broker"]
    return [(row["subject"], row["rule"], row["measured"]) for row in drained]


@pytest.mark.exhaustive
@pytest.mark.parametrize("until", ["it is empty", "it is ended"])
def test_a_drain_empties_a_broker_says_so_and_holds_until_it_is_ended(
    spark: Any, engine: Any, living: LivingPulsar, new_lake: Path, monkeypatch: Any, capsys: Any, until: str
) -> None:
    monkeypatch.setenv("EVENKEEL_SPARK", engine.url)
    broker, other = living.brokers[0], living.brokers[0].replace("127", "137")
    held = sorted(bundle for bundle, owner in living.owner.items() if owner == broker)
    where = ["--lake", str(new_lake), "--cluster", "lab"]

    assert main(["wish", "drain", broker, *where]) == 2
    assert "A new cluster takes wishes after its first cycle" in capsys.readouterr().err
    cycle(spark, new_lake, living)
    assert main(["wish", "drain", broker, *where]) == 0
    assert f"until `evenkeel wish undrain {broker}`" in capsys.readouterr().out
    first = cycle(spark, new_lake, living)
    assert about_brokers(new_lake, first) == [(broker, "emptying", float(len(held)))]
    assert broker not in living.owner.values(), [r["sentence"] for r in read_rows(new_lake, first, "guard_decisions")]
    assert sorted(one[1] for one in living.effects) == held, "each of its bundles moved once, and no other"
    assert len({living.owner[bundle] for bundle in held}) == 2, "they are spread"
    assert main(["wish", "drain", broker, *where]) == 0
    assert "is being emptied already" in capsys.readouterr().out
    assert main(["wish", "drain", other, *where]) == 2
    assert f"Did you mean {broker!r}?" in capsys.readouterr().err

    second = cycle(spark, new_lake, living)
    assert about_brokers(new_lake, second) == [(broker, "emptied", 0.0)]
    assert first.planned["wishes"] == second.planned["wishes"] != []
    assert main(["wish", "list", "--lake", str(new_lake)]) == 0
    assert f"drain {broker}  as of {second.cycle_at.isoformat()}: empty" in capsys.readouterr().out

    assert main(["wish", "undrain", other, *where]) == 2
    assert f"{broker} is. Nothing was changed" in capsys.readouterr().err
    assert main(["wish", "undrain", broker, *where]) == 0
    if until == "it is ended":
        third = cycle(spark, new_lake, living)
        assert about_brokers(new_lake, third) == []
    assert len(living.effects) == len(held)
    capsys.readouterr()
    assert main(["explain", broker, *where, "--at", first.cycle_at.isoformat()]) == 0
    assert f"{broker} is being emptied" in capsys.readouterr().out
    assert main(["verify", "--lake", str(new_lake)]) == 0
    page = new_lake.parent / "report.html"
    assert main(["report", *where, "--cycle", second.cycle_at.isoformat(), "--out", str(page)]) == 0
    assert f"{broker} is empty: no bundle is left there that could move" in page.read_text()
