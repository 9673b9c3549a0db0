"""A picture as large as one may be: made of numbers, without a lake."""

from datetime import datetime
from typing import Any

import numpy as np

from evenkeel.heat import HeatPicture, Within
from evenkeel.heat.key_ranges import NAMESPACE_BITS, in_order
from evenkeel.heat.rows_shown import Shown
from evenkeel.heat.scale import metric_named

NAMESPACES = 96
BROKERS = 40


def synthetic_picture(
    lake: Any,
    cluster: str,
    start: datetime,
    end: datetime,
    metric: str,
    *,
    within: Within | None = None,
    rows: int = 1_536,
    columns: int = 1_536,
) -> HeatPicture:
    """Stands in for `evenkeel.heat.picture`: a year's course, with hot stretches, moves and 2,000 marks."""
    chance = np.random.default_rng(18)
    names = in_order(f"tenant{n // 8:02d}/space{n % 8}" for n in range(NAMESPACES))
    each = rows // NAMESPACES
    places = np.arange(rows)
    width = (1 << 32) // each
    lower = (np.minimum(places // each, NAMESPACES - 1) << NAMESPACE_BITS) + places % each * width
    upper = lower + width
    first, last = int(start.timestamp()), int(end.timestamp())
    edges = np.linspace(first, last, columns + 1).astype(np.int64)
    weight = chance.normal(105, 22, rows)[None, :]
    course = 14 * np.sin(np.arange(columns) / columns * 12 * np.pi)[:, None]
    codes = weight + course + chance.normal(0, 2, (columns, rows))
    for _ in range(60):
        column, row = int(chance.integers(columns)), int(chance.integers(rows))
        codes[column : column + int(chance.integers(8, 120)), row : row + int(chance.integers(1, 5))] += 60
    codes = np.clip(codes, 1, 255).astype(np.uint8)
    codes[columns // 2 : columns // 2 + columns // 40] = 0
    owner = np.repeat(chance.integers(1, BROKERS + 1, (columns // 96 + 1, rows)).astype(np.uint16), 96, axis=0)[
        :columns
    ]
    shared = np.zeros((columns, rows), np.bool_)
    shared[: columns // 3, ::50] = True
    bundles = chance.integers(1, 120, rows).astype(np.int64)
    kinds = ("bounce", "split", "held", "move")
    marks = sorted(
        (
            int(chance.integers(first, last)),
            kinds[n % 4],
            int(chance.integers(rows)),
            f"broker-{n % 7} → broker-{n % 5}",
        )
        for n in range(2_000)
    )
    return HeatPicture(
        cluster, metric_named(metric), 21_600, edges[:-1], edges[1:], last, names,
        Shown(lower, upper, bundles, codes, owner, shared), tuple(f"broker-{n}:8080" for n in range(BROKERS)),
        tuple(marks), {"move": 1_204}, None, "overview",
    )  # fmt: skip
