"""A column is the mean of its cycles, and a block's rows are the same whatever the order in which it was put
together."""

import itertools
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.heat.blocks import Block
from evenkeel.heat.columns import ColumnMean, CycleLoad, HeatColumn, overview_of
from evenkeel.heat.key_ranges import WIDTH, in_order
from evenkeel.heat.scale import COARSEST, FINEST, LAYERS, METRICS, SEVERAL

BROKERS = ("b1", "b2", "b3")


def cycle(bundles: dict[str, list[tuple[int, int, float, int]]]) -> CycleLoad:
    """Namespace -> lower, upper, figure (all metrics), owner of each of its bundles."""
    names = in_order(bundles)
    rows = [(rank * WIDTH + low, rank * WIDTH + high, value, owner) for rank, name in enumerate(names)
            for low, high, value, owner in bundles[name]]  # fmt: skip
    lower, upper, values, owner = (np.array(part) for part in zip(*rows, strict=True))
    return CycleLoad(names, lower, upper, np.tile(values.astype(float), (len(METRICS), 1)), owner.astype(np.uint16))


def column(*cycles: CycleLoad) -> HeatColumn:
    mean = ColumnMean()
    for one in cycles:
        mean.add(one)
    made = mean.column()
    assert made is not None
    return made


def test_a_column_is_the_mean_of_what_is_known_in_its_cycles() -> None:
    first = cycle({"a/b": [(0, 50, 10.0, 1), (50, WIDTH, np.nan, 0)]})
    second = cycle({"a/b": [(0, 50, 30.0, 1), (50, WIDTH, 7.0, 2)]})
    made = column(first, second, cycle({"a/b": [(0, 50, np.nan, 2), (50, WIDTH, np.nan, 0)]}))
    assert made.figures[0].tolist() == [20.0, 7.0]
    assert made.owner.tolist() == [SEVERAL, 2]
    assert not made.shared.any()


def test_across_a_split_the_parents_figure_is_shared_by_width_and_marked() -> None:
    parent = cycle({"a/b": [(0, 60, 12.0, 1), (60, WIDTH, 1.0, 1)], "a/c": [(0, WIDTH, 5.0, 3)]})
    children = cycle({"a/b": [(0, 20, 1.0, 1), (20, 60, 3.0, 2), (60, WIDTH, 1.0, 1)], "a/c": [(0, WIDTH, 5.0, 3)]})
    made = column(parent, children)
    assert made.figures[0].tolist() == [(12 / 3 + 1) / 2, (12 * 2 / 3 + 3) / 2, 1.0, 5.0]
    assert made.shared.tolist() == [True, True, False, False]
    assert made.owner.tolist() == [1, SEVERAL, 1, 3]
    assert column(children, parent).figures.tolist() == made.figures.tolist()


def test_namespaces_that_come_and_go_leave_the_others_alone() -> None:
    made = column(
        cycle({"b/x": [(0, WIDTH, 4.0, 1)]}), cycle({"a/y": [(0, WIDTH, 2.0, 2)], "b/x": [(0, WIDTH, 6.0, 1)]})
    )
    assert made.names == ("a/y", "b/x")
    assert made.figures[0].tolist() == [2.0, 5.0]
    assert not made.shared.any()


def test_an_overview_adds_up_what_it_holds_and_takes_the_largest_share() -> None:
    many = cycle({"a/b": [(n, n + 1, float(n + 1), 1) for n in range(9)], "a/c": [(0, WIDTH, 3.0, 2)]})
    seen = overview_of(column(many), None, most=4)
    assert len(seen.lower) <= 4
    assert seen.bundles.sum() == 10
    for name, figures in zip(METRICS, seen.figures, strict=True):
        expected = 9.0 if name == "broker_share" else 48.0
        assert (figures.max() if name == "broker_share" else figures.sum()) == expected
    assert {*seen.owner.tolist()} <= {1, 2, SEVERAL}


@st.composite
def histories(draw: Any) -> list[HeatColumn]:
    """Columns of two namespaces whose bundles split now and then."""
    bounds = {"a/b": {0, WIDTH}, "a/c": {0, WIDTH}}
    columns = []
    for _ in range(draw(st.integers(1, 6))):
        name = draw(st.sampled_from(sorted(bounds)))
        if draw(st.booleans()):
            bounds[name].add(draw(st.integers(1, 9)) * (WIDTH // 10))
        bundles = {}
        for name, own in bounds.items():
            edges = sorted(own)
            pairs = itertools.pairwise(edges)
            bundles[name] = [(low, high, draw(st.floats(0, 1e6)), draw(st.integers(0, 3))) for low, high in pairs]
        columns.append(column(cycle(bundles)))
    return columns


@given(histories(), st.data())
def test_a_block_is_the_same_in_whatever_order_its_columns_come(columns: list[HeatColumn], data: st.DataObject) -> None:
    def put(block: Block, n: int) -> None:
        block.put(n * 60, f"digest {n}", columns[n], overview_of(columns[n], None), BROKERS)

    straight, shuffled = Block(FINEST, 0), Block(FINEST, 0)
    for n in range(len(columns)):
        put(straight, n)
    for n in [*data.draw(st.permutations(range(len(columns)))), data.draw(st.integers(0, len(columns) - 1))]:
        put(shuffled, n)
    shuffled = Block.from_rows(FINEST, 0, [*shuffled.rows()])
    strip = [{**row, "cells": None, "brokers": None} if row["metric"] in ("owner", "columns") else row
             for row in shuffled.rows()]  # fmt: skip
    assert strip == [{**row, "cells": None, "brokers": None} if row["metric"] in ("owner", "columns") else row
                     for row in straight.rows()]  # fmt: skip
    shuffled.drop(0)
    assert shuffled.digest_of(0) is None
    assert shuffled.starts == straight.starts[1:]


def test_the_layers_fit_into_each_other() -> None:
    for finer, coarser in itertools.pairwise(LAYERS):
        assert coarser.seconds % finer.seconds == 0
        assert coarser.days > finer.days
    assert COARSEST.days == 400
    assert [layer.seconds for layer in LAYERS] == [60, 600, 3_600, 21_600]
    newest = 1_795_262_399.0
    for layer in LAYERS[1:]:
        assert layer.complete_until(newest) <= newest
    assert FINEST.complete_until(newest) > newest


def test_no_bundle_makes_no_column() -> None:
    assert ColumnMean().column() is None
