"""Pictures: what they show is what the tables' rows say, they are small, and bad input gets a clear word."""

import base64
import json
import shutil
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenkeel.errors import BadInput, NoLake
from evenkeel.heat import HeatPicture, build, heat_picture, picture, reader
from evenkeel.heat.recorded_rows import KINDS
from evenkeel.heat.scale import METRICS, SEVERAL
from evenkeel.heat.tables import BLOCKS, HeatTables
from evenkeel.lake.record import read_cycles, read_rows
from tests.heat.histories import BEGIN, CLUSTER, HALVES, WHOLE, History, at_minute, kept_lake, load

pytestmark = pytest.mark.slow

DAY = timedelta(days=1)


def decoded(shown: HeatPicture) -> dict[str, Any]:
    """The JSON with its matrices [rows, columns] unpacked."""
    told = json.loads(shown.to_json())
    rows, columns = len(told["row_lower"]), len(told["starts"])

    def matrix(name: str, kind: str) -> Any:
        return np.frombuffer(zlib.decompress(base64.b64decode(told[name])), kind)

    told["values"] = matrix("values", "u1").reshape(rows, columns)
    told["owners"] = matrix("owners", "<u2").reshape(rows, columns)
    bits = np.unpackbits(matrix("shared", "u1")) if told["shared"] else np.zeros(rows * columns, np.uint8)
    told["shared"] = bits[: rows * columns].reshape(rows, columns).astype(bool)
    return told


def value(told: dict[str, Any], code: int) -> float | None:
    scale = told["scale"]
    if code < 2:
        return None if code == 0 else 0.0
    return scale["lowest"] * (scale["highest"] / scale["lowest"]) ** ((code - 2) / (scale["steps"] - 1))


def figures(row: dict[str, Any], rows: list[dict[str, Any]]) -> dict[str, float | None]:
    """What a row of `bundle_load` says of each metric, worked out anew."""

    def total(one: dict[str, Any], *names: str) -> float | None:
        parts = [one[name] for name in names]
        return None if None in parts else sum(parts)

    bytes_ = ("used_msg_throughput_in", "used_msg_throughput_out")
    own, owner = total(row, *bytes_), row["owner"]
    whole = sum(total(one, *bytes_) or 0.0 for one in rows if one["owner"] == owner)
    share = None if owner is None or own is None else (own / whole if whole else 0.0)
    return {
        "message_rate": total(row, "used_msg_rate_in", "used_msg_rate_out"), "byte_rate": own, "topics": row["topics"],
        "sessions": total(row, "producers", "consumers"), "broker_share": share,
    }  # fmt: skip


def test_a_picture_of_real_cycles_shows_what_the_rows_of_each_bundle_say(tmp_path: Path) -> None:
    lake = kept_lake(tmp_path)
    build(str(lake))
    looked = 0
    for attempt in read_cycles(lake):
        rows = read_rows(lake, attempt, "bundle_load")
        if not rows or shares_its_minute(lake, attempt):
            continue
        minute = attempt.cycle_at.replace(second=0, microsecond=0)
        for name, metric in METRICS.items():
            told = decoded(picture(lake, attempt.cluster, minute, minute + timedelta(minutes=1), name))
            places = {
                (told["namespaces"][rank], low, high): n
                for n, (rank, low, high) in enumerate(
                    zip(told["row_namespace"], told["row_lower"], told["row_upper"], strict=True)
                )
            }
            assert len(places) == len(rows)
            for row in rows:
                place = places[row["namespace"], row["lower"], row["upper"]]
                found, expected = value(told, told["values"][place, 0]), figures(row, rows)[name]
                if expected is None or expected == 0:
                    assert found == expected
                else:
                    assert found == pytest.approx(max(expected, metric.lowest), rel=metric.factor**0.5 - 1 + 1e-9)
                code = told["owners"][place, 0]
                assert (told["brokers"][code - 1] if code else None) == row["owner"]
                looked += 1
    assert looked > 500


def shares_its_minute(lake: Path, attempt: Any) -> bool:
    """Whether another cycle lies in the same minute, so that its column is a mean."""
    minutes = [one.cycle_at.replace(second=0, microsecond=0) for one in read_cycles(lake, cluster=attempt.cluster)]
    return minutes.count(attempt.cycle_at.replace(second=0, microsecond=0)) > 1


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twelve hours of a cycle every ten minutes: a bundle splits in the middle, one moves to and fro."""
    made = History(tmp_path_factory.mktemp("heat") / "lake")
    with made.lake.one_commit():
        for n in range(72):
            own = WHOLE if n < 36 else HALVES
            rows = [load("acme/a", one, 64.0 / len(own)) for one in own]
            rows += [load("acme/b", one, float(n), f"b{n // 2 % 2 + 1}") for one in HALVES]
            rows += [load("beta/c", WHOLE[0], None if n % 2 else 0.0, None)]
            made.cycle(10 * n, rows)
    build(str(made.root))
    return made.root


def hours(lake: Path, first: float, last: float, metric: str = "message_rate", **more: Any) -> HeatPicture:
    return picture(lake, CLUSTER, BEGIN + timedelta(hours=first), BEGIN + timedelta(hours=last), metric, **more)


def test_before_a_split_the_parents_value_is_shared_and_marked(lake: Path) -> None:
    told = decoded(hours(lake, 4, 8))
    a = [n for n, rank in enumerate(told["row_namespace"]) if told["namespaces"][rank] == "acme/a"]
    assert [(told["row_lower"][n], told["row_upper"][n]) for n in a] == [*HALVES]
    middle = told["starts"].index(int((BEGIN + timedelta(hours=6)).timestamp()))
    for n in a:
        assert told["shared"][n].tolist() == [at < middle for at in range(len(told["starts"]))]
        assert [value(told, code) for code in told["values"][n]] == pytest.approx([32.0] * 24, rel=0.12)
    others = [n for n in range(len(told["row_lower"])) if n not in a]
    assert not told["shared"][others].any()


def test_not_known_and_nothing_stay_apart(lake: Path) -> None:
    told = decoded(hours(lake, 0, 3))
    c = told["namespaces"].index("beta/c")
    (row,) = [n for n, rank in enumerate(told["row_namespace"]) if rank == c]
    assert told["values"][row].tolist() == [n % 2 == 0 for n in range(18)]
    assert not told["owners"][row].any()
    assert value(decoded(hours(lake, 0, 3, "broker_share")), 0) is None


def test_the_layer_is_the_finest_that_fits_and_the_edge_is_filled_from_finer_ones(lake: Path) -> None:
    assert hours(lake, 0, 12).layer_seconds == 60
    assert hours(lake, 0, 12, most_columns=100).layer_seconds == 600
    coarse = hours(lake, 0, 12, most_columns=20)
    assert coarse.layer_seconds == 3_600
    assert hours(lake, 0, 12, most_columns=8).layer_seconds == 21_600
    # The newest cycle is that of 23:50: the hour from 23:00 on is not over, its tens of minutes are, but for the last.
    last = [int((BEGIN + timedelta(minutes=minute)).timestamp()) for minute in range(660, 720, 10)]
    assert coarse.starts[-6:].tolist() == last
    assert coarse.complete_until == last[0]
    assert (coarse.starts[1:] >= coarse.ends[:-1]).all()
    assert len(hours(lake, 0, 12, most_columns=8).starts) <= 8


def test_coarser_columns_show_means_and_several_owners(lake: Path) -> None:
    told = decoded(hours(lake, 0, 2, most_columns=14, within="acme/b"))
    assert told["layer_seconds"] == 600
    told = decoded(hours(lake, 0, 11, most_columns=11, within="acme/b"))
    assert told["layer_seconds"] == 3_600
    means = [value(told, code) for code in told["values"][0][:3]]
    assert means == pytest.approx([2.5, 8.5, 14.5], rel=0.05)
    assert told["owners"][0][0] == SEVERAL


def test_a_part_is_a_namespace_a_range_of_it_a_tenant_or_a_beginning(lake: Path) -> None:
    assert len(hours(lake, 7, 8).rows.lower) == 5
    assert len(hours(lake, 7, 8, within="acme").rows.lower) == 4
    assert len(hours(lake, 7, 8, within="acme/").rows.lower) == 4
    assert len(hours(lake, 7, 8, within="acme/b").rows.lower) == 2
    upper = hours(lake, 7, 8, within=("acme/b", *HALVES[1]))
    told = decoded(upper)
    assert [told[name] for name in ("namespaces", "row_lower", "row_upper")] == [["acme/b"], [1 << 31], [0xFFFFFFFF]]
    assert told["grain"] == "namespaces"
    for part in ("nobody", "acme/x", ("acme/x", *HALVES[0])):
        with pytest.raises(BadInput, match="has no bundle in eu-1"):
            hours(lake, 7, 8, within=part)
    with pytest.raises(BadInput, match="not one of a bundle"):
        hours(lake, 7, 8, within=("acme/b", 5, 5))


def test_marks_lie_on_the_rows_that_they_are_about(lake: Path) -> None:
    told = decoded(hours(lake, 0, 12))
    assert {kind for _, kind, _, _ in told["marks"]} == {"bounce"}
    for at, _, row, text in told["marks"]:
        assert told["namespaces"][told["row_namespace"][row]] == "acme/b"
        assert told["starts"][0] <= at < told["ends"][-1]
        assert "which it left 20 min before" in told["texts"][text]
    assert told["marks_left_out"] == {}
    # Moves every 20 minutes from the second on, both halves.
    assert len(told["marks"]) == 2 * 34
    coarse = decoded(hours(lake, 0, 12, most_columns=20))
    assert (len(coarse["marks"]), coarse["marks_left_out"]) == (2 * 34, {}), "no bounce is lost where columns are wide"
    assert decoded(hours(lake, 0, 12, within="beta"))["marks"] == []


def test_fewer_rows_hold_the_same_in_all(lake: Path) -> None:
    whole, few = hours(lake, 7, 8, "topics"), hours(lake, 7, 8, "topics", most_rows=3)
    assert len(few.rows.lower) == 3
    assert few.rows.bundles.sum() == whole.rows.bundles.sum() == 5
    values = METRICS["topics"].values()
    assert np.nansum(values[few.codes], axis=1) == pytest.approx(np.nansum(values[whole.codes], axis=1), rel=0.1)


def test_of_many_marks_every_bounce_is_kept_and_the_others_share_what_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MOST_MARKS", 60)
    bounce, move, held = (KINDS.index(name) for name in ("bounce", "move", "held"))
    kind = np.array([bounce] * 50 + [move] * 400 + [held] * 5)
    cell = np.r_[np.arange(50) // 5, np.arange(400), np.zeros(5)].astype(np.int64)
    taken, left_out = reader._few(kind, cell)
    counts = {name: int((kind[taken] == KINDS.index(name)).sum()) for name in ("bounce", "move", "held")}
    assert counts == {"bounce": 50, "move": 59, "held": 1}
    assert left_out == {"move": 341, "held": 4}


def test_a_picture_that_would_be_too_large_is_made_smaller(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = hours(lake, 0, 12)
    monkeypatch.setattr(heat_picture, "MOST_BYTES", 3_500)
    small = hours(lake, 0, 12)
    assert len(small.to_json()) <= 3_500 < len(whole.to_json())
    assert len(small.starts) < len(whole.starts)
    assert (small.starts[0], small.ends[-1]) == (whole.starts[0], whole.ends[-1])


def test_a_range_without_cycles_is_an_empty_picture(lake: Path) -> None:
    told = decoded(picture(lake, CLUSTER, BEGIN - 9 * DAY, BEGIN - 8 * DAY, "topics"))
    assert (told["starts"], told["row_lower"], told["marks"]) == ([], [], [])
    assert told["exact_since"] == int(BEGIN.replace(hour=0).timestamp())


def test_bad_input_gets_a_clear_word(lake: Path, tmp_path: Path) -> None:
    for change, words in (
        ({"cluster": "eu-2"}, "no heat of cluster 'eu-2' was built. Did you mean 'eu-1'"),
        ({"metric": "heat'; DROP TABLE"}, "unknown metric"),
        ({"end": BEGIN}, "is not after its start"),
        (
            {"start": datetime(1026, 1, 1, tzinfo=UTC), "end": datetime(2026, 1, 1, tzinfo=UTC)},
            "ask for 401 days at most",
        ),
        ({"most_rows": 0}, "most_rows is 0: allowed is 1 to 1,536"),
        ({"most_columns": 9_999}, "most_columns is 9999"),
    ):
        given = {"cluster": CLUSTER, "start": BEGIN, "end": BEGIN + DAY, "metric": "topics", **change}
        more = {name: given.pop(name) for name in ("most_rows", "most_columns") if name in given}
        with pytest.raises(BadInput, match=words.replace(".", r"\.")):
            picture(lake, *given.values(), **more)
    with pytest.raises(NoLake):
        picture(tmp_path / "none", CLUSTER, BEGIN, BEGIN + DAY, "topics")
    History(tmp_path / "unbuilt").cycle(0, [load("acme/a", WHOLE[0], 1.0)])
    with pytest.raises(BadInput, match=r"no heat was built in .* yet: run `evenkeel heat --lake"):
        picture(tmp_path / "unbuilt", CLUSTER, BEGIN, BEGIN + DAY, "topics")


def test_tables_of_a_newer_version_are_refused(lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = Path(shutil.copytree(lake, tmp_path / "lake"))
    state = HeatTables(str(newer)).state(CLUSTER)
    monkeypatch.setattr("evenkeel.heat.tables.FORMAT", 99)
    HeatTables(str(newer)).replace(CLUSTER, [], state)
    monkeypatch.undo()
    for read in (lambda: picture(newer, CLUSTER, BEGIN, at_minute(9), "topics"), lambda: build(str(newer))):
        with pytest.raises(BadInput, match="written by a newer version"):
            read()


def test_a_lake_that_goes_in_the_middle_is_told_of(lake: Path, tmp_path: Path) -> None:
    from evenkeel.errors import LakeError

    gone = Path(shutil.copytree(lake, tmp_path / "lake"))
    for file in (gone / BLOCKS).rglob("*.parquet"):
        file.unlink()
    with pytest.raises(LakeError, match=f"table {BLOCKS} of the lake"):
        picture(gone, CLUSTER, BEGIN, BEGIN + DAY, "topics")
