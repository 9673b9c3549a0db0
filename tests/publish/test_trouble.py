"""Brokers that are slow, answer with errors, redirects or pages, or die while a plan is carried out or made."""

import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evenkeel.ingest.open_run import CycleRequest
from evenkeel.lake.record import Attempt, read_cycles, read_rows, read_table
from evenkeel.pipeline import run_cycle
from evenkeel.publish import task as publishing
from evenkeel.publish.dispatch import Sending, reach_with
from tests.publish.acting import QUICK, Case, LivingPulsar, with_settings
from tests.steering.simulated import Fault

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PAGE = "<html><head><title>502 Bad Gateway</title></head><body><h1>proxy says no</h1></body></html>"
TRACE = '{"reason": "\n --- An unexpected error ---\n\nMessage: out of cheese\n\nStacktrace:\n\nat x.Y(Z)"}'


class Once:
    """A fault of the first command's request; the others are answered as they should be."""

    def __init__(self, fault: Fault) -> None:
        self.fault: Fault | None = fault

    def __call__(self, _broker: str, method: str, _path: str) -> Fault | None:
        found = None
        if method == "PUT":
            found, self.fault = self.fault, None
        return found


@pytest.mark.parametrize(
    ("fault", "outcome", "words"),
    [
        pytest.param(Fault(wait_s=2.0), "done", "", marks=pytest.mark.exhaustive),
        pytest.param(
            Fault(status=500, body=TRACE, works=False), "refused", "out of cheese", marks=pytest.mark.exhaustive
        ),
        pytest.param(Fault(status=500, body=TRACE), "done", "out of cheese", marks=pytest.mark.exhaustive),
        pytest.param(
            Fault(status=307, works=False, headers={"Location": "http://127.0.0.9:1/x"}),
            "timed_out",
            "127.0.0.9",
            marks=pytest.mark.exhaustive,
        ),
        pytest.param(Fault(status=401, body=PAGE, works=False), "refused", "401", marks=pytest.mark.exhaustive),
        pytest.param(Fault(status=502, body=PAGE), "done", "502", marks=pytest.mark.exhaustive),
        pytest.param(Fault(status=0), "done", "", marks=pytest.mark.exhaustive),
        pytest.param(Fault(status=0, works=False), "timed_out", "", marks=pytest.mark.exhaustive),
    ],
    ids=["slow", "500", "500-done", "307-to-nowhere", "401", "page-done", "cut-done", "cut"],
)
def test_a_command_with_trouble_is_told_as_it_was_seen_and_the_others_go_on(
    case: Case, fault: Fault, outcome: str, words: str
) -> None:
    case.handover = with_settings(case.handover, evenkeelCommandsInFlight=1)
    case.lab.pulsar.faults = Once(fault)
    case.publish()
    first, *others = case.commands()
    last = case.last()
    assert last[first["command_id"]]["outcome"] == outcome
    assert words in last[first["command_id"]]["detail"]
    assert "Stacktrace" not in last[first["command_id"]]["detail"]
    assert "<" not in last[first["command_id"]]["detail"]
    assert {last[row["command_id"]]["outcome"] for row in others} == {"done"}
    before = len(case.sent())
    case.publish()
    assert (len(case.sent()), case.most_effects()) == (before, 1)


@pytest.mark.exhaustive
def test_the_owner_dies_between_plan_and_command(case: Case) -> None:
    """Its bundles are taken over by another broker; what was to leave the dead one is not sent any more."""
    pulsar = case.lab.pulsar
    asked = case.handover
    victim = Counter(pulsar.owner.values()).most_common(1)[0][0]
    before = pulsar.owner.copy()
    pulsar.alive.remove(victim)  # it takes no connection to an end any more, and is still listed
    pulsar.owner = {
        bundle: owner if owner != victim else next(one for one in pulsar.brokers if one != victim)
        for bundle, owner in before.items()
    }
    try:
        case.publish()
    finally:
        pulsar.alive.add(victim)
    assert asked.run.mode == "auto"
    assert case.attempt().status == "withheld"
    assert f"{victim} did not return its configuration" in (case.attempt().reason or "")
    assert case.sent() == []
    assert case.outcomes() == Counter(withheld=len(case.commands()))


@pytest.mark.parametrize(
    ("off", "words"),
    [(-10, "ahead of this machine's clock"), pytest.param(10, "min old", marks=pytest.mark.exhaustive)],
)
def test_a_publishers_clock_ten_minutes_off_sends_nothing_and_names_the_clock(
    case: Case, monkeypatch: pytest.MonkeyPatch, off: int, words: str
) -> None:
    """The cycle was decided this very minute; where the clock is behind, it lies in the future, and else it is old."""
    now = case.handover.cycles[0].at
    monkeypatch.setattr(publishing, "_now", lambda: now + timedelta(minutes=off))
    case.handover = with_settings(case.handover, evenkeelMaxReportAgeSeconds=300.0)
    case.publish()
    assert case.attempt().status == "withheld"
    assert words in (case.attempt().reason or "")
    assert case.sent() == []


@pytest.fixture
def living() -> Iterator[LivingPulsar]:
    pulsar = LivingPulsar()
    yield pulsar
    pulsar.close()


def cycle(spark: Any, folder: Path, pulsar: LivingPulsar) -> Attempt:
    """One live cycle in mode `auto`: collected, decided, sent."""
    configuration = folder / "evenkeel.toml"
    configuration.write_text(pulsar.described())
    request = CycleRequest(
        lake=str(folder / "lake"), configuration=str(configuration), mode="auto",
        at=datetime.now(UTC).replace(microsecond=0).isoformat(), run_id="test",
    )  # fmt: skip
    run_cycle(spark, request, lambda *_: None, Sending(reach_with(), timing=QUICK))
    (attempt,) = (one for one in read_cycles(folder / "lake") if one.cycle_at.isoformat() == request.at)
    return attempt


def outcomes(folder: Path) -> Counter[str]:
    rows = sorted(read_table(folder / "lake", "outcomes"), key=lambda row: row["seen_at"])
    return Counter({row["command_id"]: row["outcome"] for row in rows}.values())


FAILING = Fault(status=500, body=TRACE, works=False)
REFUSING = Fault(status=401, body=PAGE, works=False)
PROXY = Fault(status=200, body=PAGE, works=False)
ASTRAY = Fault(status=307, works=False, headers={"Location": "http://127.0.0.9:1/x"})
CUT = Fault(status=0, works=False)


@pytest.mark.exhaustive
@pytest.mark.usefixtures("new_lake")
@pytest.mark.parametrize(
    "faults",
    [
        pytest.param((FAILING, REFUSING), id="500-401"),
        pytest.param((PROXY, ASTRAY), id="page-307"),
        pytest.param((PROXY, CUT), id="page-cut"),
    ],
)
def test_a_cluster_that_is_half_visible_is_not_steered(
    spark: Any, living: LivingPulsar, tmp_path: Path, faults: tuple[Fault, Fault]
) -> None:
    """Two of three brokers answer nothing that can be used: more than may be missing."""
    dumb = dict(zip(living.brokers[1:], faults, strict=True))
    living.faults = lambda broker, method, path: dumb.get(broker)
    attempt = cycle(spark, tmp_path, living)
    assert living.effects == []
    assert attempt.status in ("skipped", "withheld", "closed")
    states = {row["broker"]: row["state"] for row in read_rows(tmp_path / "lake", attempt, "broker_reports")}
    assert states[living.brokers[0]] == "reported"
    assert "reported" not in {states[broker] for broker in dumb}
    assert attempt.status != "closed" or not read_table(tmp_path / "lake", "commands")
    assert attempt.reason or read_rows(tmp_path / "lake", attempt, "guard_decisions")


@pytest.mark.exhaustive
@pytest.mark.usefixtures("new_lake")
def test_a_run_of_which_every_cluster_is_left_out_says_so_and_once_it_is_sound_the_next_one_steers_it(
    spark: Any, living: LivingPulsar, tmp_path: Path
) -> None:
    living.faults = lambda broker, method, path: REFUSING
    attempt = cycle(spark, tmp_path, living)
    assert attempt.status == "skipped"
    assert "401" in (attempt.reason or "")
    living.faults = lambda broker, method, path: None
    time.sleep(max(0.0, 1.0 - (datetime.now(UTC) - attempt.cycle_at).total_seconds()))  # the next one's second
    sound = cycle(spark, tmp_path, living)
    assert sound.status == "closed", sound.reason
    assert set(outcomes(tmp_path)) == {"done"}
    assert living.effects
