"""Which cluster belongs to which lake, as the configuration file says it."""

import tomllib
from pathlib import Path

import jsonschema
import pytest

from evenkeel.errors import SettingsError
from evenkeel.settings.configuration_file import configuration_schema
from evenkeel.settings.lakes import ConfiguredLake, LakeMap, configured_lakes
from evenkeel.settings.operation import CONFIGURATION, OperatorEnvironment

LAKES = """
[lakes.north]
path = "lakes/north"
clusters = ["eu-*", "uk"]
[lakes.south]
path = "s3a://bucket/south"
clusters = ["us-*", "eu-7"]
[lakes.old]
path = "/srv/old"
clusters = []
"""
CLUSTERS = "".join(f"[clusters.{name}]\nrecording = 'r/{name}'\n" for name in ("eu-1", "eu-7", "uk", "us-1"))


def lakes(folder: Path, text: str, **own: str) -> LakeMap:
    file = folder / "evenkeel.toml"
    file.write_text(text, encoding="utf-8")
    return configured_lakes(OperatorEnvironment({CONFIGURATION: str(file), **own}))


def owner(found: LakeMap, cluster: str) -> str | None:
    lake = found.lake_of(cluster)
    return None if lake is None else lake.name


def test_a_name_wins_over_patterns_and_the_rest_belongs_to_main(tmp_path: Path) -> None:
    found = lakes(tmp_path, f"lake = 'm'\n{LAKES}{CLUSTERS}[clusters.asia]\nrecording = 'r/a'\n")
    assert [(one.name, one.path) for one in found.lakes] == [
        ("main", str(tmp_path / "m")),
        ("north", str(tmp_path / "lakes/north")),
        ("south", "s3a://bucket/south"),
        ("old", "/srv/old"),
    ]
    assert {name: owner(found, name) for name in ("eu-1", "eu-7", "uk", "us-9", "asia", "unknown")} == {
        "eu-1": "north", "eu-7": "south", "uk": "north", "us-9": "south", "asia": "main", "unknown": "main",
    }  # fmt: skip
    assert found.clusters_of(found.named("north")) == ("eu-1", "uk")
    assert found.clusters_of(found.named("old")) == ()
    assert found.is_several


def test_without_main_a_cluster_that_no_lake_names_has_none(tmp_path: Path) -> None:
    found = lakes(tmp_path, LAKES + CLUSTERS)
    assert (owner(found, "uk"), owner(found, "asia")) == ("north", None)
    with pytest.raises(SettingsError, match="asia: No lake has it"):
        lakes(tmp_path, f"{LAKES}{CLUSTERS}[clusters.asia]\nrecording = 'r/a'\n")


def test_one_lake_is_main_alone_and_none_is_no_error(tmp_path: Path) -> None:
    alone = lakes(tmp_path, f"lake = 'm'\n{CLUSTERS}")
    assert alone.lakes == (ConfiguredLake("main", str(tmp_path / "m")),)
    assert not alone.is_several
    assert lakes(tmp_path, CLUSTERS).lakes == ()
    assert configured_lakes({}).lakes == ()
    assert configured_lakes({"EVENKEEL_LAKE": "x"}).lakes == (ConfiguredLake("main", "x"),)


def test_the_variable_is_the_place_of_main_and_of_no_other(tmp_path: Path) -> None:
    found = lakes(tmp_path, f"lake = 'm'\n{LAKES}{CLUSTERS}", EVENKEEL_LAKE="/elsewhere")
    assert found.lakes[0] == ConfiguredLake("main", "/elsewhere")
    with pytest.raises(SettingsError, match="the lake north, too"):
        lakes(tmp_path, LAKES + CLUSTERS, EVENKEEL_LAKE=str(tmp_path / "lakes" / "north"))


def test_a_lake_knows_what_belongs_to_another_and_a_foreign_address_knows_nothing(tmp_path: Path) -> None:
    found = lakes(tmp_path, LAKES + CLUSTERS)
    north, south = found.named("north"), found.named("south")
    assert found.elsewhere(north.path + "/", "us-1") == south
    assert found.elsewhere(north.path, "eu-1") is None
    assert found.elsewhere("file://" + north.path, "eu-7") == south
    assert found.elsewhere(str(tmp_path / "scratch"), "us-1") is None


def test_an_unknown_lake_is_told_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"known are north, south, old\. Did you mean north\?"):
        lakes(tmp_path, LAKES + CLUSTERS).named("nort")


def test_two_patterns_for_one_name_that_is_not_configured_are_an_error_when_it_comes(tmp_path: Path) -> None:
    more = "[lakes.east]\npath = 'e'\nclusters = ['*-5']\n"
    with pytest.raises(SettingsError, match="belongs to the lakes north and east"):
        lakes(tmp_path, LAKES + more + CLUSTERS).lake_of("eu-5")


def test_a_change_of_the_file_is_seen(tmp_path: Path) -> None:
    assert owner(lakes(tmp_path, LAKES + CLUSTERS), "uk") == "north"
    moved = LAKES.replace(', "uk"', "").replace('"eu-7"]', '"eu-7", "uk"]')
    assert owner(lakes(tmp_path, moved + CLUSTERS), "uk") == "south"


def test_the_schema_of_editors_knows_names_of_lakes() -> None:
    validator = jsonschema.Draft202012Validator(configuration_schema())
    assert validator.is_valid(tomllib.loads(LAKES + CLUSTERS))
    for wrong in ("lakes.main", "lakes.'a b'"):
        assert not validator.is_valid(tomllib.loads(f"[{wrong}]\npath = 'x'\nclusters = ['*']\n{CLUSTERS}"))
