"""How many kinds of bad input are tried: what the page of faults says is what is generated."""

import re
from collections import Counter
from pathlib import Path

from tests.bad_input.command_lines import command_lines
from tests.bad_input.configurations import configurations, overrides
from tests.bad_input.messages import bodies, wishes
from tests.bad_input.params import params, variables
from tests.bad_input.snapshots import clusters, heads

PAGE = Path(__file__).resolve().parents[1] / "faults.md"


def test_the_page_says_how_many_kinds_there_are() -> None:
    every = (
        command_lines(),
        configurations(),
        overrides(),
        bodies(),
        wishes(),
        params(),
        variables(),
        clusters(),
        heads(),
    )
    names = [[one[0] for one in some] for some in every]
    for some in names:
        assert [name for name, times in Counter(some).items() if times > 1] == []
    told = re.search(r"([\d,]+) kinds of bad input", PAGE.read_text(encoding="utf-8"))
    assert told is not None
    assert int(told[1].replace(",", "")) == sum(map(len, names)) >= 200
