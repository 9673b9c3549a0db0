"""What one task hands to the next arrives as it was."""

import json
from dataclasses import replace

from evenkeel.handover import ClusterCycle, DataFile, Handover, Predecessor, Run, Snapshot, Write

AT = "2026-11-21T08:27:04.000000+00:00"
FILES = (DataFile("cluster=a%20b/part-0 é.parquet", 4711, "d1" * 32), DataFile("cluster=a%20b/part-1.parquet", 0, "d2"))


def handover() -> Handover:
    cycle = ClusterCycle("a b", AT, Snapshot("s", AT), {"evenkeelSplitEnabled": False})
    before = Predecessor("used", AT, "attempt", AT, (Write("bundle_load", "w0", 1, 2, "d", "a b"),))
    written = (Write("bundle_load", "w1", 3, 2, "d", "a b", FILES), Write("rejected", "w2", 1, 0, "d", "a b"))
    return Handover("lake", Run("cli", "run"), (replace(cycle, predecessor=before),), written)


def test_a_hand_over_comes_back_with_the_files_of_its_writes() -> None:
    back = Handover.from_json(handover().to_json())
    assert back == handover()
    assert [write.files for write in back.writes] == [FILES, ()]
    assert back.to_json() == handover().to_json()


def moment(minute: int) -> str:
    return f"2026-11-21T08:{minute:02}:00.000000+00:00"


def window(*minutes: int, cluster: str = "lab", settings: str = "{}", digest: str = "d") -> tuple[ClusterCycle, ...]:
    return tuple(
        ClusterCycle(cluster, moment(n), Snapshot("s", moment(n)), {}, settings=settings, settings_digest=digest)
        for n in minutes
    )


def test_settings_and_files_that_cycles_share_stand_in_the_text_once() -> None:
    settings = json.dumps({"settings": {"é": 1}})
    cycles = window(0, 5, 10, settings=settings)
    # Where values come from is no part of the digest, and part of the text.
    otherwise = json.dumps({"settings": {"é": 1}, "origins": "x"})
    cycles = (*cycles, *window(15, settings=otherwise), *window(20, digest="e"))
    writes = tuple(Write("t", f"w{n}", 3, 1, "d", "lab", FILES[: n % 3], moment(n * 5)) for n in range(5))
    given = Handover("lake", Run("cli", "run"), cycles, writes)
    text = given.to_json()
    assert text.count(FILES[0].digest) == text.count("origins") == 1
    assert text.count("u00e9") == 2
    back = Handover.from_json(text)
    assert back == given
    assert [(write.files, write.cycle_at) for write in back.writes] == [(w.files, w.cycle_at) for w in writes]


def test_cycles_of_a_cluster_are_told_apart_by_their_moments() -> None:
    cycles = (*window(0, 5), *window(0, cluster="other"))
    writes = [Write("t", f"{c.cluster}-{c.at.minute}", 1, 1, "d", c.cluster, cycle_at=c.cycle_at) for c in cycles]
    given = Handover("lake", Run("cli", "run"), cycles, tuple(writes))
    assert given.is_window()
    assert not Handover("lake", Run("cli", "run"), (*window(0), *window(5, cluster="other"))).is_window()
    assert [given.writes_by_cycle()[cycle.key] for cycle in cycles] == [(write,) for write in writes]
    left = given.leave_out({("lab", moment(5)): "late", ("other", moment(5)): "no such cycle"})
    assert [(cycle.status, cycle.reason) for cycle in left.cycles] == [
        ("open", None),
        ("skipped", "late"),
        ("open", None),
    ]
    assert sorted({cycle.cluster for cycle in left.open_cycles()}) == ["lab", "other"]
    assert left.open_writes("t") == (writes[0], writes[2])
    assert left.only("lab").cycles == left.cycles[:2]
    assert left.only("lab").writes == tuple(writes[:2])


def test_a_cycle_takes_over_from_the_newest_before_it_that_has_a_state() -> None:
    def given(recorded: dict[int, str | None], *out: int) -> dict[str, str]:
        cycles = [replace(c, predecessor=Predecessor("used", recorded.get(c.at.minute))) for c in window(0, 5, 10, 15)]
        made = Handover("lake", Run("cli", "run"), (*cycles, *window(0, 5, cluster="other")))
        found = made.leave_out({("lab", moment(n)): "late" for n in out}).within()
        assert found.pop(("other", moment(5))) == ("other", moment(0))
        return {at: before for (_, at), (_, before) in found.items()}

    nothing = {moment(5): moment(0), moment(10): moment(5), moment(15): moment(10)}
    assert given({}) == nothing
    # The recorded attempts at the very cycles of the window are older than those that it makes.
    assert given({5: moment(0), 10: moment(5), 15: moment(10)}) == nothing
    # One that was left out has no state: where it is on record that counts, else the cycle before it.
    assert given({}, 5) == {moment(5): moment(0), moment(10): moment(0), moment(15): moment(10)}
    assert given({5: moment(0), 10: moment(5)}, 5) == {moment(5): moment(0), moment(15): moment(10)}
    # A cycle on record between two of the window.
    assert given({10: moment(7)}) == {moment(5): moment(0), moment(15): moment(10)}
    assert given({}, 0, 5, 10, 15) == {}
