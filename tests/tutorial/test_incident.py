"""docs/tutorial/incident.md: every step runs as it stands there, in order, and prints what the page shows."""

from __future__ import annotations

import pytest

from evenkeel.spark.server import Engine
from tests.tutorial.page import BrokenPage, differences, figures_in, figures_told, steps_of
from tests.tutorial.run import PAGE, run_all

pytestmark = [pytest.mark.spark, pytest.mark.slow]

TEXT = PAGE.read_text(encoding="utf-8")
STEPS = steps_of(TEXT)


@pytest.fixture(scope="module")
def came(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> list[list[str] | BrokenPage]:
    """What each step printed, or why it failed."""
    return run_all(STEPS, tmp_path_factory.mktemp("tutorial"), engine.url)


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", range(len(STEPS)), ids=lambda n: f"{n + 1}-{STEPS[n].name}".replace(" ", "-"))
def test_the_step_prints_what_the_page_shows(number: int, came: list[list[str] | BrokenPage]) -> None:
    printed = came[number]
    if isinstance(printed, BrokenPage):
        pytest.fail(str(printed))
    found = "\n".join(differences(STEPS[number].output, printed))
    assert not found, f"{found}\nIf that is as it should be: python -m tests.tutorial fills the page in anew."


def test_the_figures_that_the_text_names_stand_in_an_output() -> None:
    shown = {figure for step in STEPS for line in (*step.output, step.code) for figure in figures_in(line)}
    told = figures_told(TEXT)
    assert told
    assert [figure for figure in told if figure not in shown] == []
