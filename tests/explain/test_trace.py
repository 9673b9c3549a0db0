"""Lineage by manifests: a decision's inputs, and all that rests on an input, directly or by state handed on."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from evenkeel.errors import BadInput, NoSuchCycle
from evenkeel.explain import times
from evenkeel.explain.trace import MOST_LINKS, as_json, as_text, inputs, of_broker, of_snapshot, of_write
from evenkeel.lake.record import Attempt, read_attempts
from tests.lakes.acting_lake import B1, B2, B3, FIRST, UNLOAD_ID, WHOLE
from tests.lakes.plausible import HOT, LAB_FIRST, NEXT, SKIPPED, B, broker_load, bundle_load, decision
from tests.lakes.small_lake import Row, SmallLake, moment

pytestmark = pytest.mark.slow

START = moment("2026-05-04T10:00:00")
BAD = "b2.example:8080"


def at(minute: int) -> Any:
    return START + timedelta(minutes=minute)


def unloads(bundle: str) -> Row:
    return decision(bundle, "bundle", "unload", "heaviest_first", f"{bundle} leaves.", broker=B1)


class Chain:
    """Cycles a minute apart, each of which reads what its predecessor wrote, unless it says otherwise."""

    def __init__(self, root: Path) -> None:
        self.root, self.lake = root, SmallLake(root)
        self._before: Attempt | None = None

    def cycle(self, minute: int, *, state: str = "reported", acts: bool = False, apart: bool = False) -> None:
        """A cycle in which BAD's report is `state`; `apart`: it takes nothing over."""
        tables = {
            "broker_load": [broker_load(B1, 0.5), broker_load(BAD, 0.2, state=state)],
            "bundle_load": [bundle_load(WHOLE, B1, 1.0)],
            "unload_decisions": [unloads(WHOLE)] if acts else [],
        }
        before = None if apart else self._before
        reads = [] if before is None else [w for w in before.planned["writes"] if w["table"] == "bundle_load"]
        self.lake.add(
            "prod",
            at(minute),
            tables,
            plan_id=f"p{minute}",
            unloads=int(acts),
            splits=0,
            placements=0,
            reads=reads,
            attempt_id=f"{minute:064x}",
            predecessor_cycle_at=before and before.cycle_at,
            predecessor_attempt_id=before and before.attempt_id,
            predecessor_status="used" if before else "none",
            snapshot=f"/landing/prod/{minute}.json.gz",
        )
        self._before = read_attempts(self.root)[-1]


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six cycles; BAD's report is left out in one, the fifth starts anew, and three of them unload something."""
    root = tmp_path_factory.mktemp("chain")
    made = Chain(root)
    made.cycle(0, acts=True)
    made.cycle(1, state="rejected", acts=True)
    made.cycle(2)
    made.cycle(3, acts=True)
    made.cycle(4, apart=True, acts=True)
    made.cycle(5)
    return root


def between(first: str | None, last: str | None):
    return times(None, first, last, None)


def test_decisions_of_cycles_that_read_the_report_rest_on_it_directly(chain: Path) -> None:
    found = of_broker(chain, BAD, when=between("2026-05-04T10:00", "2026-05-04T10:01"))
    assert [(cycle.cycle_at, [one.bundle for one in cycle.decisions]) for cycle in found.direct] == [(at(0), [WHOLE])]
    assert found.notes == ("Its report was read in 1 of 2 cycles.", "Left out: 1 cycle rejected.")
    assert found.decisions == 1


def test_later_ones_rest_on_it_by_the_state_handed_on_until_a_cycle_starts_anew(chain: Path) -> None:
    found = of_broker(chain, BAD, when=between("2026-05-04T10:00", "2026-05-04T10:01"))
    assert [(one.cycle_at, one.unloads) for one in found.handed_on] == [(at(1), 1), (at(2), 0), (at(3), 1)]
    told = as_text(found)
    assert "This decision rests on it directly, in 1 cycle that read it:" in told
    assert "By state handed on, 3 later cycles up to 2026-05-04 10:03:00 UTC, with 0 splits and 2 unloads:" in told


def test_a_cycle_that_read_it_itself_is_not_counted_twice(chain: Path) -> None:
    found = of_broker(chain, BAD, when=between("2026-05-04T10:00", None))
    direct = [cycle.cycle_at for cycle in found.direct]
    assert direct == [at(0), at(2), at(3), at(4), at(5)]
    assert [one.cycle_at for one in found.handed_on] == [at(1)]


def test_whether_a_decision_names_the_broker_or_was_compared_with_it_is_told(lake: Path) -> None:
    found = of_broker(lake, B, cluster="lab", when=between("2026-11-21T08:30", "2026-11-21T08:30"))
    (cycle,) = found.direct
    assert {(one.act, one.bundle): one.names_it for one in cycle.decisions} == {
        ("split", "acme/ns2/0x00000000_0x20000000"): True,
        ("refused", "acme/ns3/0x00000000_0xffffffff"): False,
        ("unload", HOT): True,
        ("unload", NEXT): True,
    }


def test_a_snapshot_is_found_by_its_path_or_the_end_of_it(chain: Path) -> None:
    for path in ("/landing/prod/1.json.gz", "1.json.gz", "prod/1.json.gz"):
        found = of_snapshot(chain, path)
        assert (found.name, [cycle.cycle_at for cycle in found.direct]) == ("/landing/prod/1.json.gz", [at(1)])
        assert [one.cycle_at for one in found.handed_on] == [at(2), at(3)]
    with pytest.raises(
        BadInput, match=r"names a snapshot '9\.json\.gz'.* newest are /landing/prod/5\.json\.gz \(prod\)"
    ):
        of_snapshot(chain, "9.json.gz")


def test_a_snapshot_of_a_skipped_cycle_says_so(lake: Path) -> None:
    found = of_snapshot(lake, "/recordings/lab/0000.json.gz", cluster="lab")
    assert len(found.direct) == 7
    skipped = LAB_FIRST + timedelta(minutes=SKIPPED)
    assert f"The cycle of {skipped:%Y-%m-%d %H:%M:%S} UTC was skipped" in found.notes[0]


def test_a_write_is_followed_to_who_read_it(chain: Path) -> None:
    whole = inputs(chain, WHOLE, when=times("2026-05-04T10:02", None, None, None))
    (read,) = whole.reads
    found = of_write(chain, read["write_id"])
    assert found.name == f"{read['write_id']} (bundle_load)"
    assert [cycle.cycle_at for cycle in found.direct] == [at(1)]
    assert [one.cycle_at for one in found.handed_on] == [at(2), at(3)]


def test_writes_that_nothing_lists_or_that_are_not_one_are_refused(chain: Path) -> None:
    with pytest.raises(BadInput, match=r"no manifest lists a write 'feedbeef'.*from 2026-05-04 10:00:00 UTC on"):
        of_write(chain, "feedbeef")
    with pytest.raises(BadInput, match="writes begin with '000000'"):
        of_write(chain, "000000")
    with pytest.raises(BadInput, match="give 6 digits"):
        of_write(chain, "00")


def test_an_unknown_broker_names_the_nearest_and_an_empty_range_the_nearest_cycle(chain: Path) -> None:
    with pytest.raises(BadInput, match=f"broker b7.example:8080 is not among .* Did you mean '{B1}'|'{BAD}'"):
        of_broker(chain, "b7.example:8080")
    with pytest.raises(NoSuchCycle, match="The nearest: that of 2026-05-04 10:00:00 UTC of prod after"):
        of_broker(chain, BAD, when=between("2026-05-01", "2026-05-02"))


def test_a_broker_of_two_clusters_asks_for_one(lake: Path) -> None:
    with pytest.raises(BadInput, match="is in 2 clusters: lab and spread"):
        of_broker(lake, B)


def test_a_decision_leads_to_writes_snapshot_settings_and_the_state_before(chain: Path) -> None:
    found = inputs(chain, WHOLE, when=times("2026-05-04T10:03", None, None, None))
    assert (found.snapshot, found.plan_id) == ("/landing/prod/3.json.gz", "p3")
    assert [(one["table"], one["layer"]) for one in found.writes] == [
        ("bundle_load", "derived"),
        ("broker_load", "derived"),
        ("unload_decisions", "decided"),
    ]
    assert [one["table"] for one in found.reads] == ["bundle_load"]
    assert [(link.cycle_at, link.snapshot) for link in found.chain] == [
        (at(minute), f"/landing/prod/{minute}.json.gz") for minute in (2, 1, 0)
    ]
    assert not found.open_end
    assert [(one.act, one.bundle) for one in found.decisions] == [("unload", WHOLE)]
    assert "/landing/prod/3.json.gz" in as_text(found)


def test_a_chain_is_followed_so_far_and_says_that_it_goes_on(tmp_path: Path) -> None:
    made = Chain(tmp_path)
    for minute in range(MOST_LINKS + 2):
        made.cycle(minute)
    found = inputs(tmp_path, WHOLE)
    assert len(found.chain) == MOST_LINKS
    assert found.open_end
    assert "and from cycles before" in as_text(found)


def test_a_predecessor_that_expired_is_the_end_of_the_chain(lake: Path) -> None:
    found = inputs(lake, HOT, when=times("2026-11-21T08:30", None, None, None))
    assert found.chain == ()
    assert len(found.decisions) == 1


def test_a_command_leads_to_its_cycle_and_what_was_seen(acting: Path) -> None:
    found = inputs(acting, UNLOAD_ID[:8])
    assert (found.cycle_at, found.plan_id) == (FIRST, "p1")
    assert [(one.act, one.destination, one.outcome) for one in found.decisions] == [("unload", B2, "done")]
    assert inputs(acting, B3, when=times("2026-03-01T04:00", None, None, None)).decisions[0].names_it


def test_json_has_the_documented_keys(chain: Path) -> None:
    rests = json.loads(as_json(of_broker(chain, BAD, when=between("2026-05-04T10:00", "2026-05-04T10:01"))))
    assert sorted(rests) == sorted(
        ["version", "type", "kind", "name", "cluster", "first", "last", "direct", "handed_on", "notes",
         "direct_decisions"]
    )  # fmt: skip
    assert sorted(rests["direct"][0]["decisions"][0]) == sorted(
        ["act", "bundle", "broker", "destination", "sentence", "names_it", "outcome"]
    )
    on = json.loads(as_json(inputs(chain, WHOLE)))
    assert sorted(on) == sorted(
        ["version", "type", "subject", "cluster", "cycle_at", "attempt", "attempt_id", "plan_id", "snapshot", "source",
         "settings_digest", "code_version", "code_digest", "run", "decisions", "writes", "reads", "chain", "open_end",
         "notes", "planner"]
    )  # fmt: skip
