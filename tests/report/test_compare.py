import gzip
from datetime import timedelta
from pathlib import Path

import pytest

from evenkeel.errors import BadInput
from evenkeel.lake.record import Attempt
from evenkeel.report.compare import Cycle, LoggedMove, Overload, compare, parse_rounds, read_rounds
from evenkeel.report.gather import _comparable as comparable
from tests.lakes.small_lake import moment

A, B, C = (f"127.0.0.{n}:19080" for n in (1, 2, 3))
HOT = "acme/ns1/0x70000000_0x80000000"
NEXT = "acme/ns0/0xe0000000_0xffffffff"

# As Pulsar 4.2.4 wrote them, one line each; order and the lines between them as recorded.
LOG = f"""\
broker-1 2026-11-21T08:27:29,365+00:00 INFO  NamespacesBase [pulsar-web-44-3] [null] Unloading namespace bundle {HOT}
broker-2 2026-11-21T08:27:28,663+00:00 INFO  ThresholdShedder [pulsar-load-manager-1-1] Attempting to shed load \
on {A}, which has max resource usage above avgUsage and threshold 36.423222351074216% > 24.622142028808593% + 10.0% -- \
Offloading at least 0.1693161675857143 MByte/s of traffic, left throughput 2.320231956576279 MByte/s (cpu: 33.84%, \
memory: 39.11%, directMemory: 15.63%, bandwidthIn: 0.00%, bandwidthOut: 0.00%)
broker-2 2026-11-21T08:27:28,672+00:00 INFO  ModularLoadManagerImpl [pulsar-load-manager-1-1] 2 brokers being \
considered for assignment of {HOT}
broker-2 2026-11-21T08:27:28,673+00:00 INFO  ModularLoadManagerImpl [pulsar-load-manager-1-1] [ThresholdShedder] \
Unloading bundle: {HOT} from broker {A} to dest broker {B}
broker-2 2026-11-21T08:28:29,516+00:00 INFO  ModularLoadManagerImpl [pulsar-load-manager-1-1] [ThresholdShedder] \
Unloading bundle: {NEXT} from broker {A} to dest broker {C}
broker-1 2026-11-21T08:27:27,397+00:00 garbage [ThresholdShedder] Unloading bundle: without a bundle
no time at all [ThresholdShedder] Unloading bundle: {HOT} from broker {A}
""".splitlines()
FIRST, SECOND = moment("2026-11-21T08:27:28.663"), moment("2026-11-21T08:28:29.516")


def cycle(seconds_before: float, moves: tuple[LoggedMove, ...] = (), **more: object) -> Cycle:
    compared = {A: (0.341, 0.24), B: (0.2, 0.24), C: (0.18, 0.24)}
    figures = {"usage": {A: 0.338}, "compared": compared, "threshold": 0.1, **more}
    return Cycle(at=FIRST - timedelta(seconds=seconds_before), moves=moves, **figures)  # type: ignore[arg-type]


def test_a_round_holds_its_figures_and_its_moves_in_time_order() -> None:
    first, second = parse_rounds(LOG)

    assert first.at == FIRST
    assert first.shedder == "ThresholdShedder"
    assert first.overloads == (Overload(A, 36.423222351074216, 24.622142028808593),)
    assert first.moves == (LoggedMove(HOT, A, B),)
    assert (second.at, second.overloads, second.moves) == (SECOND, (), (LoggedMove(NEXT, A, C),))


def test_rounds_do_not_depend_on_the_order_of_lines() -> None:
    assert parse_rounds(reversed(LOG)) == parse_rounds(LOG)


def test_moves_of_the_extensible_manager_are_read_too() -> None:
    line = (
        "broker-1 2026-11-21T08:27:27,397+00:00 INFO  UnloadScheduler [pulsar-load-manager-1-1] [TransferShedder] "
        f"Unloading bundle: Unload[sourceBroker={C}, serviceUnit={HOT}, destBroker=Optional[{B}], force=false]"
    )
    (only,) = parse_rounds([line, line.replace(f"Optional[{B}]", "Optional.empty").replace(HOT, NEXT)])

    assert only.shedder == "TransferShedder"
    assert only.moves == (LoggedMove(NEXT, C, None), LoggedMove(HOT, C, B))


def test_a_time_in_another_zone_is_the_same_moment() -> None:
    moved = [line.replace("T08:27", "T10:27").replace("+00:00", "+02:00") for line in LOG if "T08:27" in line]
    assert parse_rounds(moved)[0].at == FIRST


def test_a_recording_without_logs_of_shedding_has_no_rounds(tmp_path: Path) -> None:
    assert read_rounds(tmp_path) is None
    with gzip.open(tmp_path / "broker-logs.txt.gz", "wt") as log:
        log.write("broker-1 2026-11-21T08:27:29,365+00:00 INFO  OwnershipCache [x] nothing was shed\n")
    assert read_rounds(tmp_path) is None


def test_logs_cut_off_in_the_middle_are_refused_with_their_place(tmp_path: Path) -> None:
    (tmp_path / "broker-logs.txt.gz").write_bytes(gzip.compress("\n".join(LOG).encode())[:-20])
    with pytest.raises(BadInput, match=r"broker-logs\.txt\.gz cannot be read"):
        read_rounds(tmp_path)


def test_the_same_bundle_from_the_same_broker_agrees_and_a_differing_destination_is_explained() -> None:
    rounds = parse_rounds(LOG)[:1]
    (verdict,) = compare("own", rounds, [cycle(5.3, (LoggedMove(HOT, A, C),))]).verdicts

    assert verdict.agrees
    assert verdict.sentences == (
        "Evenkeel's snapshot was taken 5.3 s earlier, at 08:27:23.",
        f"Both take {HOT} from {A}; Pulsar sends it to {B}, Evenkeel to {C}: the destination rests on long-term "
        "averages, which the leader has kept since it started and Evenkeel since its first cycle.",
    )


def test_a_broker_that_stays_below_in_the_snapshot_explains_why_nothing_was_decided() -> None:
    below = {A: (0.335, 0.24)}
    (verdict,) = compare("own", parse_rounds(LOG)[:1], [cycle(5.3, compared=below)]).verdicts

    assert not verdict.agrees
    assert verdict.sentences[1] == (
        f"The leader saw {A} at 36.4 % against an average of 24.6 %; from the snapshots Evenkeel remembers 33.5 % "
        "against an average of 24.0 %, which stays below the limit of 34.0 %."
    )
    assert verdict.sentences[2] == f"Only Pulsar unloads {HOT} (unknown in the snapshot)."


def test_a_refusal_gives_its_own_sentence() -> None:
    why = f"{A} at 36.0 % is over its limit, but 4.0 KiB/s is less than the 10.0 KiB/s worth moving."
    (verdict,) = compare("own", parse_rounds(LOG)[:1], [cycle(5.3, refusals={A: why})]).verdicts
    assert verdict.sentences[1].endswith(f"against an average of 24.0 %. {why}")


def test_other_bundles_are_named_with_the_traffic_that_the_snapshot_saw() -> None:
    traffic = {HOT: 98_304.0, NEXT: 196_608.0}
    (verdict,) = compare(
        "own", parse_rounds(LOG)[:1], [cycle(5.3, (LoggedMove(NEXT, A, C),), bundle_bytes_per_s=traffic)]
    ).verdicts

    assert verdict.sentences[-3:-1] == (
        f"Only Pulsar unloads {HOT} (96.0 KiB/s in the snapshot).",
        f"Only Evenkeel unloads {NEXT} (192.0 KiB/s in the snapshot).",
    )


def test_where_the_nearest_cycle_was_not_due_the_nearest_due_one_serves_and_it_is_said() -> None:
    not_due = cycle(5.3, due=False, why_not_due="Shedding is due once a minute; the last one was 40 s ago.")
    due = cycle(45.3, (LoggedMove(HOT, A, B),))
    (verdict,) = compare("own", parse_rounds(LOG)[:1], [due, not_due]).verdicts

    assert verdict.cycle == due
    assert verdict.sentences[0] == (
        "Evenkeel's snapshot was taken 45 s earlier, at 08:26:43: in the nearest cycle before, 08:27:23, its shedder "
        "was not due."
    )


def test_a_shedder_that_was_never_due_gives_its_reason() -> None:
    why = "Shedding is switched off."
    (verdict,) = compare("own", parse_rounds(LOG)[:1], [cycle(5.3, due=False, why_not_due=why)]).verdicts
    assert verdict.sentences[0].endswith(f"its shedder was not due. {why}")


def test_a_round_without_a_cycle_near_it_says_so() -> None:
    (verdict,) = compare("own", parse_rounds(LOG)[:1], [cycle(300)]).verdicts
    assert (verdict.cycle, verdict.agrees) == (None, False)


def test_cycles_in_which_evenkeel_alone_unloads_are_listed() -> None:
    lonely = cycle(300, (LoggedMove(NEXT, A, C),))
    found = compare("own", parse_rounds(LOG), [lonely, cycle(5.3, (LoggedMove(HOT, A, B),))])
    assert found.alone == (lonely,)


def test_what_an_operator_wished_for_is_not_set_beside_pulsars_shedder() -> None:
    def unload(subject: str, strategy: str) -> dict[str, object]:
        return {"subject": subject, "subject_kind": "bundle", "outcome": "unload", "broker": A, "strategy": strategy}

    rows = {
        "unload_decisions": [unload(HOT, "ThresholdShedder"), unload(NEXT, "wish")],
        "placement_decisions": [{"subject": name, "destination": B} for name in (HOT, NEXT)],
        "broker_load": [],
        "bundle_load": [],
    }
    found = comparable(Attempt({"cycle_at": FIRST}), rows, 0.1)
    assert found.moves == (LoggedMove(HOT, A, B),)
