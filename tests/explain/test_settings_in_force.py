"""What clusters were last decided with, beside the defaults of their Pulsar versions."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from evenkeel.cli import main
from evenkeel.explain.settings_in_force import read_settings_in_force, settings_changes, settings_of
from evenkeel.lake.record import Record
from evenkeel.settings import resolve
from tests.lakes.plausible import LAB, SPREAD, plausible_lake
from tests.lakes.thrashed_lake import BEGIN, MENDED_FROM, thrashed_lake

DOMAINS = "failureDomainsEnabled"
STRATEGY = "loadBalancerLoadSheddingStrategy"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return plausible_lake(tmp_path_factory.mktemp("settings") / "lake")


def test_each_cluster_shows_its_newest_decided_cycle_with_value_origin_and_default(lake: Path) -> None:
    found = read_settings_in_force(lake)
    assert sorted(found.cycles) == [LAB, SPREAD]
    (domains,) = [one for one in found.settings if one.key == DOMAINS]
    assert domains.differs
    assert [(one.cluster, one.value, one.origin, one.is_default) for one in domains.values] == [
        (LAB, "false", "default", True),
        (SPREAD, "true", "override", False),
    ]
    assert domains.meaning
    assert domains.is_changed


def test_the_default_is_that_of_the_clusters_own_pulsar_version() -> None:
    old, new = (resolve(observed=None, overrides=None, generation=version).rows() for version in ("4.x", "5.0"))
    for setting in settings_of({"old": old, "new": new}):
        assert all(one.is_default for one in setting.values), setting.key
    assert any(setting.differs for setting in settings_of({"old": old, "new": new}))


def test_the_order_of_a_list_is_no_change_and_a_key_of_another_version_is_shown() -> None:
    row = {"key": "supportedNamespaceBundleSplitAlgorithms", "origin": "observed"}
    names = json.loads(
        next(one["value"] for one in resolve(observed=None, overrides=None).rows() if one["key"] == row["key"])
    )
    turned = {**row, "value": json.dumps(names[::-1])}
    unknown = {"key": "aKeyOfTomorrow", "value": "1", "origin": "default"}
    known, strange = sorted(settings_of({"lab": [turned, unknown]}), key=lambda one: one.key == unknown["key"])
    assert not known.is_changed
    assert strange.meaning == "of another version of Evenkeel"


def test_the_command_tells_what_differs_in_words_and_as_json(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "--lake", str(lake), "--differing"]) == 0
    text = capsys.readouterr().out
    assert f"{DOMAINS} (clusters differ)" in text
    assert f"{SPREAD}: true" in text
    assert STRATEGY not in text
    assert main(["settings", STRATEGY, "--lake", str(lake), "--cluster", LAB, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["settings"]
    assert found["key"] == STRATEGY
    assert found["values"][0]["value"] == "ThresholdShedder"
    assert main(["settings", "no-such-key", "--lake", str(lake)]) == 1


def test_a_question_about_values_needs_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["settings", "--differing"]) == 2
    assert "name the tables with --lake" in capsys.readouterr().err


def test_changes_of_settings_have_their_moment_and_the_keys(tmp_path: Path) -> None:
    record, at = Record(thrashed_lake(tmp_path / "lake")), BEGIN + timedelta(minutes=10 * MENDED_FROM)
    ((found, words),) = settings_changes(record, "shop", BEGIN, BEGIN + timedelta(days=1))
    assert found == at
    assert words.startswith("evenkeelGuardsEnabled false → true, evenkeelSheddingEnabled true → false, ")
    assert words.endswith(" and 3 more")
    assert settings_changes(record, "shop", at, BEGIN + timedelta(days=1)) == []
