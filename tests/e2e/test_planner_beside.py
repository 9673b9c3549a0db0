"""Real brokers under the same skewed load, evened out by the load manager's shedder and by Evenkeel's planner."""

from pathlib import Path
from typing import Any

import pytest

from evenkeel.cli import main
from tests.e2e.beside import shortfalls, table
from tests.e2e.planner_beside import compared

pytestmark = [pytest.mark.pulsar, pytest.mark.spark, pytest.mark.slow, pytest.mark.exhaustive]


@pytest.mark.timeout(2400)
def test_the_planner_is_as_even_as_the_shedder_with_fewer_reconnects(spark: Any, tmp_path: Path) -> None:
    shedder, planner = compared(spark, "modular", tmp_path, cycles=4)
    print("\n".join(table([shedder, planner])))
    assert (planner.lost, planner.failed, planner.received) == (0, 0, planner.sent)
    assert planner.max_over_mean < planner.at_first - 0.3
    assert not shortfalls(shedder, planner)
    for folder in ("shedder", "planner"):
        assert main(["verify", "--lake", str(tmp_path / folder / "lake")]) == 0
