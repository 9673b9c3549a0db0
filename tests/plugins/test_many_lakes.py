"""200 clusters over four lakes: the status and the first page of the desk over all of them."""

from __future__ import annotations

import json
import re
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from evenkeel.cli import main
from evenkeel.settings.operation import CONFIGURATION
from tests.json_schemas import check
from tests.lakes.several_lakes import Installation, configuration
from tests.lakes.urgent_lake import UrgentLake
from tests.plugins.here_reader import HereReader

pytestmark = [pytest.mark.slow, pytest.mark.exhaustive]

LAKES = ("ams", "fra", "iad", "sjc")
EACH = 50
FAILED = {f"{lake}-007" for lake in LAKES}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    folder, now = tmp_path_factory.mktemp("lakes"), datetime.now(UTC)
    names = [f"{lake}-{number:03}" for lake in LAKES for number in range(EACH)]
    for lake in LAKES:
        own = UrgentLake(folder / lake, now)
        for name in (one for one in names if one.startswith(lake)):
            more = {"status": "failed", "reason": "place failed: the disk is full"} if name in FAILED else {}
            own.course(name, **more)
        own.lake.write()
    file = folder / "evenkeel.toml"
    file.write_text(configuration({lake: [f"{lake}-*"] for lake in LAKES}, names))
    return Installation(folder, file, now)


@pytest.fixture(autouse=True)
def configured(made: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENKEEL_LAKE", raising=False)
    monkeypatch.setenv(CONFIGURATION, str(made.file))


def test_the_status_is_of_all_of_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--json"]) == 1
    (found,) = check("status", capsys.readouterr().out)
    assert {one["cluster"] for one in found["clusters"][: len(FAILED)]} == FAILED, "the most urgent of all lakes first"
    assert Counter(one["lake"] for one in found["clusters"]) == dict.fromkeys(LAKES, EACH)
    assert {one["lake"] for one in found["clusters"] if not one["cluster"].startswith(one["lake"])} == set()
    assert [one["fault"] for one in found["lakes"]] == [None] * len(LAKES)
    assert main(["status"]) == 1
    assert "4 of 200 clusters need attention." in capsys.readouterr().out


def test_the_first_page_is_over_all_of_them_and_a_lake_that_goes_takes_its_own_alone(
    made: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    from evenkeel_page.app import make_app

    desk = TestClient(make_app(guarded=False, reader=HereReader()), raise_server_exceptions=False)
    page = desk.get("/").text
    assert "4 clusters of 200 need attention" in page
    assert len(re.findall(r'<tr role="row" class="is-', page)) == len(LAKES) * EACH
    assert desk.get("/cycles?cluster=iad-031").status_code == 200
    Path(made.path("iad")).rename(made.folder / "iad.away")
    try:
        page = desk.get("/").text
        assert len(re.findall(r'<tr role="row" class="is-', page)) == 3 * EACH
        assert page.count("there is no lake at") == 1
        assert main(["status", "--json"]) == 2
        assert len(json.loads(capsys.readouterr().out)["clusters"]) == 3 * EACH
    finally:
        (made.folder / "iad.away").rename(made.path("iad"))
