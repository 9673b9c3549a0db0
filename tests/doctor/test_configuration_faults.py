"""Everything that is wrong with a configuration file is told at once, with its line, and nothing of a sound one."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import jsonschema
import pytest

from evenkeel.cli import main
from evenkeel.doctor.configuration_faults import configuration_faults, lines_of
from evenkeel.errors import SettingsError
from evenkeel.settings import registry
from evenkeel.settings.resolving import SWITCHES
from evenkeel.sources.configuration import read_configuration
from evenkeel.sources.configuration_schema import configuration_schema
from tests.bad_input.configurations import configurations, overrides
from tests.json_schemas import check

DOCS = Path(__file__).resolve().parents[2] / "docs"
SOUND = """
lake = "s3a://bucket/prefix"
[airflow]
schedule = "none"
mode = "approve"
mode_limit = "auto"
[log]
witnesses = ["rfc3161 https://tsa.example ca_file=/etc/tsa.pem"]
[settings]
loadBalancerNamespaceBundleMaxTopics = "500"
loadBalancerSheddingExcludedNamespaces = "a/b, c/d"
loadBalancerLoadSheddingStrategy = "org.apache.pulsar.broker.loadbalance.impl.ThresholdShedder"
[clusters.east]
admin = "http://b1:8080"
silent_seconds = 30
limits.topics = 1000
[clusters."a.b"]
s3 = "s3://bucket/x"
queue = "https://q/c.fifo"
reports = "https://q/r.fifo"
[clusters.lab]
recording = "x"
"""
NORTH = "[lakes.north]\npath = 'n'\nclusters = ['eu-*']\n"
CASES = {
    "clusters.east.admin: 5 is to be a text or a list": "[clusters.east]\nadmin = 5",
    "clusters.east.admn: unknown entry; did you mean `admin`?": "[clusters.east]\nadmn = 5\ns3 = 's3://b/x'",
    "clusters.east.minUnloadMessage: unknown entry; it is a setting: write it below [settings]":
        "[clusters.east]\nminUnloadMessage = 5\ns3 = 's3://b/x'",
    "clusters.east.silent_seconds: 500 is to be 240": "[clusters.east]\nsilent_seconds = 500\nadmin = 'http://b'",
    "clusters.east.landing_days: 0 is to be more than 0": "[clusters.east]\nlanding_days = 0\nadmin = 'http://b'",
    "clusters.east.admin: [] is to name one at least": "[clusters.east]\nadmin = []",
    "clusters.east.connection: '' is to be a text that is not empty": "[clusters.east]\nconnection = ''",
    "clusters.east: says nothing of where snapshots come from": "[clusters.east]",
    "clusters.east.admin: is for a running cluster": "[clusters.east]\nadmin = 'http://b'\nrecording = 'x'",
    "clusters.east.queue: goes with `reports`": "[clusters.east]\nqueue = 'https://q/c.fifo'\ns3 = 's3://b/x'",
    "clusters.west: admin address 'ftp://b'": "[clusters.east]\nadmin = 'http://b'\n[clusters.west]\nadmin='ftp://b'",
    "settings.minUnloadMesage: unknown setting 'minUnloadMesage': the nearest known key is 'minUnloadMessage'":
        "[settings]\nminUnloadMesage = 5\n[clusters.lab]\nrecording = 'x'",
    "settings.minUnloadMessage: minUnloadMessage = -1 is out of range":
        "[settings]\nminUnloadMessage = -1\n[clusters.lab]\nrecording = 'x'",
    "set evenkeelSheddingEnabled instead":
        "[settings]\nloadBalancerSheddingEnabled = true\n[clusters.x]\nrecording = 'x'",
    "loadBalancerAvgShedderLowThreshold = 50 is above":
        "[clusters.x]\nrecording = 'x'\nsettings.loadBalancerAvgShedderLowThreshold = 50",
    "limits.topics: 99999999999 is to be 33,554,432 at most":
        "[limits]\ntopics = 99999999999\n[clusters.x]\nrecording = 'x'",
    "land in the same folder":
        "[clusters.a]\nadmin = 'http://b'\nlanding = 'x'\n[clusters.b]\nadmin = 'http://c'\nlanding = 'x'",
    "airflow.mode: 'atuo' is to be one of dry_run, approve, auto; did you mean auto?":
        "[airflow]\nmode = 'atuo'\n[clusters.x]\nrecording = 'x'",
    "airflow.mode_limit: allows dry_run at most, and `mode` is auto":
        "[airflow]\nmode_limit = 'dry_run'\nmode = 'auto'\n[clusters.x]\nrecording = 'x'",
    "airflow.schedule: '5 * *' is not a cron expression":
        "[airflow]\nschedule = '5 * *'\n[clusters.x]\nrecording = 'x'",
    "airflow.schedule: '0 0 30 2 *' never comes": "[airflow]\nschedule = '0 0 30 2 *'\n[clusters.x]\nrecording = 'x'",
    "airflow.history_schedule: the DAG needs intervals":
        "[airflow]\nhistory_schedule = 'none'\n[clusters.x]\nrecording = 'x'",
    "log.witnesses: `witnesses`: the witness": "[log]\nwitnesses = ['a b c']\n[clusters.x]\nrecording = 'x'",
    "lakes.north.clusters: 'eu-l' is not a configured cluster; did you mean eu-1?":
        "[lakes.north]\npath = 'n'\nclusters = ['eu-l', 'eu-*']\n[clusters.eu-1]\nrecording = 'x'",
    "lakes.south.clusters: the cluster 'eu-1' belongs to north, too: name it in the list of one of them":
        NORTH + "[lakes.south]\npath = 's'\nclusters = ['*-1']\n[clusters.eu-1]\nrecording = 'x'",
    "lakes.south.path: is the place of north, too":
        NORTH + "[lakes.south]\npath = './n/'\nclusters = []\n[clusters.eu-1]\nrecording = 'x'",
    "lakes.north.path: is the place of `lake`, too": f"lake = 'n'\n{NORTH}[clusters.eu-1]\nrecording = 'x'",
    "clusters.us-1: belongs to no lake: name it in a table of [lakes], or write `lake` for the rest":
        NORTH + "[clusters.us-1]\nrecording = 'x'",
    "lakes.main: the lake main is the one at `lake`":
        "[lakes.main]\npath = 'n'\nclusters = ['*']\n[clusters.eu-1]\nrecording = 'x'",
    "lakes.a b: is not a name of a lake":
        "[lakes.'a b']\npath = 'n'\nclusters = ['*']\n[clusters.eu-1]\nrecording = 'x'",
    "lakes.north.cluster: unknown entry; did you mean `clusters`?":
        "[lakes.north]\npath = 'n'\ncluster = 1\nclusters = ['*']\n[clusters.eu-1]\nrecording = 'x'",
    "lakes.north.clusters: is to be a list of names and patterns":
        "[lakes.north]\npath = 'n'\nclusters = 'eu-1'\n[clusters.eu-1]\nrecording = 'x'",
    "lakes.north.path: is to be the root of the lake's tables":
        "[lakes.north]\nclusters = ['*']\n[clusters.eu-1]\nrecording = 'x'",
    "lakes.north: is not a table": "lakes.north = 5\n[clusters.eu-1]\nrecording = 'x'",
    "lakes: names no lake": "lakes = 5\n[clusters.eu-1]\nrecording = 'x'",
    "names no cluster: add a table": "lake = 'x'",
    "is not TOML": "[clusters.x\nrecording = 'x'",
}  # fmt: skip
FILES = dict(configurations())


def written(folder: Path, text: str | bytes) -> Path:
    file = folder / "evenkeel.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def test_a_sound_file_has_no_fault_and_is_what_the_reader_takes(tmp_path: Path) -> None:
    file = written(tmp_path, SOUND)
    assert configuration_faults(file) == []
    assert [source.cluster for source in read_configuration(file)] == ["a.b", "east", "lab"]


@pytest.mark.parametrize("said", CASES)
def test_a_fault_is_told_with_what_to_do(said: str, tmp_path: Path) -> None:
    file = written(tmp_path, CASES[said])
    (found,) = configuration_faults(file)
    assert said in found.words(file) or said in f"{found.entry}: {found.text}" or said in found.text


def test_a_fault_of_a_lake_has_the_line_of_its_entry(tmp_path: Path) -> None:
    text = f"{NORTH}\n[lakes.south]\npath = 's'\nclusters = ['uk', 'ukk']\n[clusters.uk]\nrecording = 'x'\n"
    (found,) = configuration_faults(written(tmp_path, text))
    assert found.words(Path("e.toml")) == (
        "e.toml:7: lakes.south.clusters: 'ukk' is not a configured cluster; did you mean uk?"
    )


def test_all_faults_are_told_at_once_in_the_order_of_their_lines(tmp_path: Path) -> None:
    text = "lake = 5\n[settings]\nminUnloadMesage = 5\n\n[clusters.east]\nadmn = 1\n"
    found = configuration_faults(written(tmp_path, text))
    assert [(fault.line, fault.entry) for fault in found] == [
        (1, "lake"),
        (3, "settings.minUnloadMesage"),
        (5, "clusters.east"),
        (6, "clusters.east.admn"),
    ]


def test_no_kind_of_bad_file_passes_that_the_reader_refuses(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for name, content in FILES.items():
        with subtests.test(name):
            file = written(tmp_path, content)
            try:
                found = [fault.text for fault in configuration_faults(file)]
            except SettingsError as error:
                found = [str(error)]
            assert found
    for name, key, value in overrides():
        with subtests.test(name):
            text = f'[clusters.x]\nrecording = "x"\nsettings.{key} = {value}\n'
            (only,) = configuration_faults(written(tmp_path, text))
            assert key in only.text
            assert only.line == 3


def test_every_configuration_of_the_docs_is_sound(tmp_path: Path) -> None:
    shown = [
        block
        for page in sorted(DOCS.rglob("*.md"))
        for block in re.findall(r"```toml\n(.*?)```", page.read_text("utf-8"), re.S)
        if "[clusters." in block and re.search(r"^(admin|recording|s3) =", block, re.M)
    ]
    assert len(shown) >= 3
    for text in shown:
        assert [one.text for one in configuration_faults(written(tmp_path, text))] == [], text


def test_the_default_of_every_key_fits_the_schema(tmp_path: Path) -> None:
    schema = configuration_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    settings = schema["$defs"]["settings"]["properties"]
    assert set(settings) == set(registry()) - set(SWITCHES)
    for name, own in settings.items():
        assert own["description"].startswith(registry()[name].meaning)
        if "default" in own:
            body = {"clusters": {"x": {"recording": "x"}}, "settings": {name: own["default"]}}
            validator.validate(body)
    for entry in schema["properties"].values():
        assert len(entry.get("description", "a table has none, but its entries")) > 10


def test_lines_are_those_of_the_entries() -> None:
    text = '# a = 1\na = 1\n[b."c.d"]\n\ne.f = [\n  1,\n]\n[[g]]\nh = "x = 1"\n'
    assert tomllib.loads(text)
    assert lines_of(text) == {
        ("a",): 2,
        ("b", "c.d"): 3,
        ("b", "c.d", "e"): 5,
        ("b", "c.d", "e", "f"): 5,
        ("g",): 8,
        ("g", "h"): 9,
    }


def test_the_command_says_it_by_lines_or_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = tmp_path / "good.toml", tmp_path / "bad.toml"
    good.write_text(SOUND, encoding="utf-8")
    bad.write_text("lake = 5\n[clusters.x]\nrecording = 'x'\n", encoding="utf-8")
    assert main(["config", "check", str(good)]) == 0
    assert capsys.readouterr().out == f"{good} is sound\n"
    assert main(["config", "check", str(bad)]) == 1
    assert capsys.readouterr().out == f"{bad}:1: lake: 5 is to be a text\n"
    monkeypatch.setenv("EVENKEEL_CONFIG", str(bad))
    assert main(["config", "check", "--json"]) == 1
    (told,) = check("config check", capsys.readouterr().out)
    assert told["faults"] == [{"entry": "lake", "line": 1, "text": "5 is to be a text"}]
    assert main(["config", "check", str(tmp_path / "absent.toml")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    monkeypatch.delenv("EVENKEEL_CONFIG")
    assert main(["config", "check"]) == 2
    assert "give FILE, or set EVENKEEL_CONFIG" in capsys.readouterr().err


def test_the_schema_is_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "schema"]) == 0
    assert json.loads(capsys.readouterr().out) == configuration_schema()
