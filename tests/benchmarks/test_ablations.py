"""Parts of the planner can be taken out one by one, and are back afterwards.

Left out: what a part is good for. That is what the benchmark measures.
"""

import pytest

from benchmarks.ablations import PARTS, main, without
from evenkeel.planner import figures
from evenkeel.planner.usage_model import UsageSums
from evenkeel.settings import Settings


@pytest.mark.parametrize("name", PARTS)
def test_a_part_is_out_for_a_while_and_back_afterwards(name: str) -> None:
    part = PARTS[name]
    before = [vars(owner)[one] for owner, one, _ in part.replaced]

    def broken_off() -> None:
        with without(part):
            assert [vars(owner)[one] for owner, one, _ in part.replaced] == [value for _, _, value in part.replaced]
            raise RuntimeError

    with pytest.raises(RuntimeError):
        broken_off()
    assert [vars(owner)[one] for owner, one, _ in part.replaced] == before
    defaults = Settings()
    assert all(getattr(defaults, key) != value for key, value in part.settings)
    assert bool(part.replaced or part.settings) == (name != "nothing")


def test_without_a_part_the_planner_goes_by_what_is_left() -> None:
    sums = UsageSums(weight=20.0, load_square=1.0, load_usage=1.0, samples=20.0, tried=1.0, mean_error=1.0)
    assert sums.is_proven
    with without(PARTS["fitted usage"]):
        assert not sums.is_proven
    with without(PARTS["all resources but the busiest"]):
        assert len(figures._resources([])) == 0


def test_the_table_has_a_line_for_each_part(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--seeds", "7", "--scenario", "book-removed", "--part", "usage (traffic alone)", "placing by target"]
    assert main(given) == 0
    lines = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    assert [line[0] for line in lines] == ["| off", "| nothing", "| usage (traffic alone)", "| placing by target"]
    assert len({len(line) for line in lines}) == 1
    # Without them the planner comes to something else.
    assert len({tuple(line[1:]) for line in lines[1:]}) == 3
