"""The page *What if* over a real replay and a simulation of recorded traffic, asked for as runs of the DAG ask."""

import html
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from evenkeel.lake.record import read_table
from evenkeel.replay.results import find_replays, read_courses
from evenkeel.replay.run_params import check_params, run_params

pytestmark = [pytest.mark.spark, pytest.mark.slow]

PLUGINS = Path(__file__).resolve().parents[2] / "plugins"
CLUSTER = "threshold"
EAGER = {
    "loadBalancerLoadSheddingStrategy": "UniformLoadShedder", "loadBalancerMsgRateDifferenceShedderThreshold": 1,
    "loadBalancerMsgThroughputMultiplierDifferenceShedderThreshold": 1.01, "maxUnloadPercentage": 0.5,
    "minUnloadMessage": 0, "minUnloadMessageThroughput": 0, "evenkeelGuardsEnabled": False,
}  # fmt: skip
ASKED = {
    "replay": {"cluster": CLUSTER, "strategies": ["AvgShedder"], "variants": {"eager": EAGER}},
    "simulate": {"kind": "simulate", "cluster": CLUSTER, "variants": {"eager": EAGER}, "limit": 70},
}


@pytest.fixture(scope="module")
def made(spark: Any, lake: Path) -> dict[str, dict[str, Any]]:
    """What the runs' tasks left in XCom, by kind."""
    return {kind: json.loads(run_params(spark, str(lake), params)) for kind, params in ASKED.items()}


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages can be imported; they need no Airflow."""
    monkeypatch.syspath_prepend(str(PLUGINS))


def page(lake: Path, name: str, **arguments: Any) -> str:
    from evenkeel_page.pages import answer
    from evenkeel_page.reader import Job

    found = answer(Job(name, str(lake), arguments))
    assert found.status == 200
    return str(found.body)


@pytest.mark.parametrize("kind", ASKED)
def test_the_page_shows_what_the_run_came_to(
    kind: str, made: dict[str, dict[str, Any]], lake: Path, plugins: None
) -> None:
    replay_id = made[kind]["replay_id"]
    (replay,) = find_replays(lake, [replay_id])
    assert [*replay.summary] == made[kind]["variants"]
    assert replay.is_simulation == (kind == "simulate")
    text = page(lake, "what_if_run", ids=[replay_id])
    rows = re.findall(r'<tr><th scope="row"><svg.*?</tr>', text, re.DOTALL)
    cells = [[html.unescape(one) for one in re.findall(r'<td class="num">(.*?)</td>', row)] for row in rows]
    assert cells == [line[1:] for line in replay.cells()]
    assert [row["variant"] for row in replay.summary if row["moves"]], "something was moved, or there is little to see"
    assert replay.summary[0]["variant"] == "recorded", "what happened stands beside what a variant would have done"
    assert ("The model misses the recorded usage of a broker by" in text) == replay.is_simulation

    courses = read_courses(lake, [replay])
    stored = [row for row in read_table(lake, "replay_cycles") if row["replay_id"] == replay_id]
    assert courses.missing == ""
    for course in courses.courses:
        own = {row["cycle_at"]: row for row in stored if row["variant"] == course.variant}
        assert [own[at]["after_max_over_mean"] for at in courses.moments] == list(course.over_mean)
        assert course.moves[-1] == sum(row["moves"] for row in own.values())
    assert page(lake, "what_if", cluster=CLUSTER, under_way=[]).count(replay_id) == 2


def test_the_lines_to_copy_make_the_variant(made: dict[str, dict[str, Any]], lake: Path, plugins: None) -> None:
    text = page(lake, "what_if_run", ids=[made["replay"]["replay_id"]])
    sheets = [tomllib.loads(html.unescape(one)) for one in re.findall(r"<pre[^>]*>(.*?)</pre>", text, re.DOTALL)]
    assert [sheet["clusters"][CLUSTER]["settings"]["loadBalancerLoadSheddingStrategy"] for sheet in sheets] == [
        "AvgShedder",
        "UniformLoadShedder",
    ]


@pytest.mark.parametrize("kind", ASKED)
def test_what_was_checked_before_is_what_was_run(kind: str, made: dict[str, dict[str, Any]], lake: Path) -> None:
    checked = check_params(str(lake), ASKED[kind])
    (replay,) = find_replays(lake, [made[kind]["replay_id"]])
    assert (checked.cluster, checked.cycles) == (replay.cluster, replay.cycles)
    assert (checked.first, checked.last) == (replay.since, replay.until)
    assert [one.name for one in checked.variants] == [*replay.variants]
