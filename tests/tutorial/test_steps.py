"""Examples in docs/how-to/explain.md and replay.md: every step runs as it stands there and prints what is shown."""

from pathlib import Path

import pytest

from evenkeel.spark.server import Engine
from tests.tutorial.page import BrokenPage, differences, figures_in, figures_told, steps_of
from tests.tutorial.run import PAGES, run_all

pytestmark = [pytest.mark.spark, pytest.mark.slow]

Came = dict[Path, list[list[str] | BrokenPage]]
STEPS = {page: steps_of(page.read_text(encoding="utf-8")) for page in PAGES}
NUMBERED = [(page, number) for page, steps in STEPS.items() for number in range(len(steps))]


@pytest.fixture(scope="module")
def came(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Came:
    """What each step printed, or why it failed."""
    return {page: run_all(steps, tmp_path_factory.mktemp("tutorial"), engine.url) for page, steps in STEPS.items()}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("page", "number"), NUMBERED, ids=[f"{p.stem}-{n + 1}-{STEPS[p][n].name}".replace(" ", "-") for p, n in NUMBERED]
)
def test_the_step_prints_what_the_page_shows(page: Path, number: int, came: Came) -> None:
    printed = came[page][number]
    if isinstance(printed, BrokenPage):
        pytest.fail(str(printed))
    found = "\n".join(differences(STEPS[page][number].output, printed))
    assert not found, f"{found}\nIf that is as it should be: python -m tests.tutorial fills the page in anew."


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_figures_that_the_text_names_stand_in_an_output(page: Path) -> None:
    shown = {figure for step in STEPS[page] for line in (*step.output, step.code) for figure in figures_in(line)}
    told = figures_told(page.read_text(encoding="utf-8"))
    assert told
    assert [figure for figure in told if figure not in shown] == []
