"""Everything that is wrong with a configuration file is told at once, with its line, and nothing of a sound one."""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import jsonschema
import pytest

from evenkeel.cli import main
from evenkeel.doctor.configuration_faults import configuration_faults
from evenkeel.settings import registry
from evenkeel.settings.configuration_file import configuration_schema
from evenkeel.settings.resolving import SWITCHES, lines_of
from evenkeel.sources.configuration import read_configuration
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
LAB = "\n[clusters.x]\nrecording = 'x'"
CASES = {
    "2: clusters.east.admin: Input should be a valid list": "[clusters.east]\nadmin = 5",
    "2: clusters.east.admn: Unknown entry; did you mean admin?": "[clusters.east]\nadmn = 5\ns3 = 's3://b/x'",
    "2: clusters.east.colour: Unknown entry; known are admin, auth_params, auth_plugin, broker_url, ":
        "[clusters.east]\ncolour = 5\ns3 = 's3://b/x'",
    "1: lak: Unknown entry; did you mean lake?": "lak = 5\n[clusters.x]\nrecording = 'x'",
    "2: airflow.mod: Unknown entry; did you mean mode?": "[airflow]\nmod = 5\n[clusters.x]\nrecording = 'x'",
    "2: log.witness: Unknown entry; did you mean witnesses?":
        "[log]\nwitness = 5\n[clusters.x]\nrecording = 'x'",
    "2: limits.topic: Unknown entry; did you mean topics?":
        "[limits]\ntopic = 5\n[clusters.x]\nrecording = 'x'",
    "2: clusters.x.limits.topic: Unknown entry; did you mean topics?":
        "[clusters.x]\nlimits.topic = 5\nrecording = 'x'",
    "2: clusters.east.minUnloadMessage: This is a setting: write it below [settings]":
        "[clusters.east]\nminUnloadMessage = 5\ns3 = 's3://b/x'",
    "2: clusters.east.silent_seconds: Input should be less than or equal to 240":
        "[clusters.east]\nsilent_seconds = 500\nadmin = 'http://b'",
    "2: clusters.east.landing_days: Input should be greater than 0":
        "[clusters.east]\nlanding_days = 0\nadmin = 'http://b'",
    "2: clusters.east.landing: Input should be a folder or file of this machine, and no address":
        "[clusters.east]\nlanding = 's3://b/x'\nadmin = 'http://b'",
    "2: clusters.east.admin: Input should have one item at least": "[clusters.east]\nadmin = []",
    "2: clusters.east.connection: Input should be a text that is not empty": "[clusters.east]\nconnection = ''",
    "2: clusters.east.admin: admin addresses mix http and https":
        "[clusters.east]\nadmin = ['http://b', 'https://c']",
    "clusters.east.admin: no admin address": "[clusters.east]\nca_file = 'x'\ns3 = 's3://b'",
    "2: clusters.east.broker_url: broker_url … is not a template":
        "[clusters.east]\nbroker_url = 'https://{hst}'\nadmin = 'http://b'",
    "1: clusters.east: No entry names the source of the snapshots": "[clusters.east]",
    "2: clusters.east.admin: This is for a running cluster": "[clusters.east]\nadmin = 'http://b'\nrecording = 'x'",
    "2: clusters.east.queue: This goes with `reports`":
        "[clusters.east]\nqueue = 'https://q/c.fifo'\ns3 = 's3://b/x'",
    "4: clusters.west.admin.0: admin address … is not an http:// or https:// address; write http://broker-1:8080":
        "[clusters.east]\nadmin = 'http://b'\n[clusters.west]\nadmin='ftp://b'",
    "2: settings.minUnloadMesage: Unknown setting: the nearest known key is 'minUnloadMessage'":
        "[settings]\nminUnloadMesage = 5\n[clusters.lab]\nrecording = 'x'",
    "2: settings.minUnloadMessage: Input should be int from 0 to 2,147,483,647 (msg/s)":
        "[settings]\nminUnloadMessage = -1\n[clusters.lab]\nrecording = 'x'",
    "2: settings.defaultNamespaceBundleSplitAlgorithm: Input should be str, one of range_equally_divide, ":
        "[settings]\ndefaultNamespaceBundleSplitAlgorithm = 'x'\n[clusters.lab]\nrecording = 'x'",
    "; did you mean topic_count_equally_divide?":
        "[settings]\ndefaultNamespaceBundleSplitAlgorithm = 'topic_count_equal'\n[clusters.lab]\nrecording = 'x'",
    "does not switch Evenkeel: set evenkeelSheddingEnabled":
        "[settings]\nloadBalancerSheddingEnabled = true\n[clusters.x]\nrecording = 'x'",
    "3: clusters.x.settings: loadBalancerAvgShedderLowThreshold = 50 is above":
        "[clusters.x]\nrecording = 'x'\nsettings.loadBalancerAvgShedderLowThreshold = 50",
    "clusters.x.settings: loadBalancerAvgShedderLowThreshold = 50 is above":
        "[settings]\nloadBalancerAvgShedderLowThreshold = 50\n[clusters.x]\nrecording = 'x'",
    "2: limits.rows: Input should be greater than or equal to 1":
        "[limits]\nrows = 0\n[clusters.x]\nrecording = 'x'",
    "2: limits.json_depth: Input should be less than or equal to 500":
        "[limits]\njson_depth = 501\n[clusters.x]\nrecording = 'x'",
    "2: limits.topics: Input should be less than or equal to 33554432":
        "[limits]\ntopics = 99999999999\n[clusters.x]\nrecording = 'x'",
    "6: clusters.b.landing: a and b land in the same folder":
        "[clusters.a]\nadmin = 'http://b'\nlanding = 'x'\n[clusters.b]\nadmin = 'http://c'\nlanding = 'x'",
    "2: airflow.mode: Input should be one of dry_run, approve, auto; did you mean auto?":
        "[airflow]\nmode = 'atuo'\n[clusters.x]\nrecording = 'x'",
    "2: airflow.mode_limit: dry_run allows no `mode` = auto":
        "[airflow]\nmode_limit = 'dry_run'\nmode = 'auto'\n[clusters.x]\nrecording = 'x'",
    "2: airflow.schedule: Input should be a cron expression":
        "[airflow]\nschedule = '5 * *'\n[clusters.x]\nrecording = 'x'",
    "2: airflow.schedule: The moment never comes":
        "[airflow]\nschedule = '0 0 30 2 *'\n[clusters.x]\nrecording = 'x'",
    "2: airflow.history_schedule: The DAG needs intervals":
        "[airflow]\nhistory_schedule = 'none'\n[clusters.x]\nrecording = 'x'",
    "2: log.witnesses.1: The witness cannot be read: a line is `<verifier key> <URL>`":
        "[log]\nwitnesses = ['/a', 'a b c']\n[clusters.x]\nrecording = 'x'",
    "2: log.witnesses: A witness is named twice": "[log]\nwitnesses = ['/a', '/a']\n[clusters.x]\nrecording = 'x'",
    "3: lakes.north.clusters.0: This is not a configured cluster; did you mean eu-1?":
        "[lakes.north]\npath = 'n'\nclusters = ['eu-l', 'eu-*']\n[clusters.eu-1]\nrecording = 'x'",
    "6: lakes.south.clusters: The cluster 'eu-1' belongs to north, too: name it in the list of one of them":
        NORTH + "[lakes.south]\npath = 's'\nclusters = ['*-1']\n[clusters.eu-1]\nrecording = 'x'",
    "5: lakes.south.path: This is the place of north, too":
        NORTH + "[lakes.south]\npath = './n/'\nclusters = []\n[clusters.eu-1]\nrecording = 'x'",
    "3: lakes.north.path: This is the place of `lake`, too": f"lake = 'n'\n{NORTH}[clusters.eu-1]\nrecording = 'x'",
    "4: clusters.us-1: No lake has it: name it in a table of [lakes], or write `lake`":
        NORTH + "[clusters.us-1]\nrecording = 'x'",
    "1: lakes.main: The lake main is the one at `lake`":
        "[lakes.main]\npath = 'n'\nclusters = ['*']\n[clusters.eu-1]\nrecording = 'x'",
    "1: lakes.a b: The name of a lake has letters, digits":
        "[lakes.'a b']\npath = 'n'\nclusters = ['*']\n[clusters.eu-1]\nrecording = 'x'",
    "3: lakes.north.cluster: Unknown entry; did you mean clusters?":
        "[lakes.north]\npath = 'n'\ncluster = 1\nclusters = ['*']\n[clusters.eu-1]\nrecording = 'x'",
    "3: lakes.north.clusters: Input should be a valid list":
        "[lakes.north]\npath = 'n'\nclusters = 'eu-1'\n[clusters.eu-1]\nrecording = 'x'",
    "1: lakes.north.path: This entry is missing, and has no default":
        "[lakes.north]\nclusters = ['*']\n[clusters.eu-1]\nrecording = 'x'",
    "1: lakes.north: Input should be a table": "lakes.north = 5\n[clusters.eu-1]\nrecording = 'x'",
    "1: lakes: Input should be a table": "lakes = 5\n[clusters.eu-1]\nrecording = 'x'",
    "1: lakes: Input should have one item at least": "[lakes]\n[clusters.eu-1]\nrecording = 'x'",
    "e.toml: No cluster is named: add a table [clusters.NAME]": "lake = 'x'",
    "2: clusters.a.s3: Input should be an S3 address: write s3://BUCKET/PREFIX": "[clusters.a]\ns3 = 'bucket/prefix'",
    "2: clusters.a.s3: An S3 address holds neither credentials": "[clusters.a]\ns3 = 's3://user:password@host:9000/b'",
    "2: clusters.a.s3: Input should be a valid string": "[clusters.a]\ns3 = 1",
    "3: clusters.a.s3_connection: This goes with `s3`, which is missing":
        "[clusters.a]\nadmin = 'http://b:1'\ns3_connection = 'x'",
    "3: clusters.a.s3: This is for a running cluster, and `recording` is a folder":
        "[clusters.a]\nrecording = 'x'\ns3 = 's3://b'",
    "1: lake: Input should be a valid string": "lake = 5" + LAB,
    "1: lake: Input should be a text that is not empty": "lake = ''" + LAB,
    "1: airflow: Input should be a table": "airflow = 5" + LAB,
    "2: airflow.four_eyes: Input should be a valid boolean": "[airflow]\nfour_eyes = 'yes'" + LAB,
    "2: airflow.approvers: Input should be a valid list": "[airflow]\napprovers = 'alice'" + LAB,
    "2: airflow.approvers.0: Input should be a text that is not empty": "[airflow]\napprovers = ['']" + LAB,
    "2: log.witnesses.0: Input should be a valid string": "[log]\nwitnesses = [1]" + LAB,
    "1: lake: Input should be a folder or s3a://BUCKET/PREFIX": "lake = 's3a://key:secret@b/x'" + LAB,
    "1: lake: Input should be a folder or s3a://BUCKET/PREFIX, without": "lake = 'hdfs://name/x'" + LAB,
    "2: lakes.n.path: Input should be a folder or s3a://BUCKET/PREFIX":
        "[lakes.n]\npath = 's3://B'\nclusters = []\n" + LAB,
    "2: log.key_file: Input should be a folder or file of this machine": "[log]\nkey_file = 's3://b/key'" + LAB,
    "2: clusters.a.recording: Input should be a folder or file of this machine":
        "[clusters.a]\nrecording = 's3://b/x'",
    "3: clusters.a.connection: Input should be a name, of 60 characters":
        "[clusters.a]\nadmin = 'http://b:1'\nconnection = 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY'",
    "1: is not TOML": "[clusters.x\nrecording = 'x'",
}  # fmt: skip
SECRET = "eyJhbGciOiJub25lIn0.9f8e7d6c5b4a.signed-with-blood"


def written(folder: Path, text: str | bytes) -> Path:
    """The configuration, and beside it the recordings that it names."""
    file = folder / "evenkeel.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    for name in re.findall(r"recording *= *[\"'](?!/)([\w./-]+)[\"']", str(text)):
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "0000.json").touch()
    return file


def test_a_recording_that_is_missing_or_empty_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "0000.json.gz").touch()
    file = tmp_path / "evenkeel.toml"
    names = ("gone", "empty", "file", "whole")
    file.write_text("".join(f"[clusters.{name}]\nrecording = '{name}'\n" for name in names))
    assert {fault.entry: (fault.line, fault.text) for fault in configuration_faults(file)} == {
        "clusters.gone.recording": (2, "No recording: the folder does not exist"),
        "clusters.empty.recording": (4, "No snapshot: expected files NNNN.json[.gz] or NNNN.jsonl[.gz]"),
        "clusters.file.recording": (6, "No recording: the folder does not exist"),
    }


def test_a_sound_file_has_no_fault_and_is_what_the_reader_takes(tmp_path: Path) -> None:
    file = written(tmp_path, SOUND)
    assert configuration_faults(file) == []
    assert [source.cluster for source in read_configuration(file)] == ["a.b", "east", "lab"]


@pytest.mark.parametrize("said", CASES)
def test_a_fault_is_told_with_its_place_and_what_to_do(said: str, tmp_path: Path) -> None:
    (found,) = configuration_faults(written(tmp_path, CASES[said]))
    assert said in found.words(Path("e.toml"))


def test_all_faults_are_told_at_once_in_the_order_of_their_lines(tmp_path: Path) -> None:
    text = "lake = 5\n[settings]\nminUnloadMesage = 5\n\n[clusters.east]\nadmn = 1\n[clusters.west]\n"
    found = configuration_faults(written(tmp_path, text))
    assert [(fault.line, fault.entry) for fault in found] == [
        (1, "lake"),
        (3, "settings.minUnloadMesage"),
        (6, "clusters.east.admn"),
        (7, "clusters.west"),
    ]


def entries_with(value: str) -> Iterator[str]:
    """Files in which one entry, known or unknown, has a value (TOML) that may be wrong there."""
    schema = configuration_schema()
    tables = {name: table["properties"] for name, table in schema["$defs"].items()}
    clusters = "[clusters.x]\nrecording = 'x'\n"
    for name in [*schema["properties"], "token"]:
        yield f"{name} = {value}\n{'' if name == 'clusters' else clusters}"
    for title, table in (("airflow", "AirflowEntries"), ("log", "LogEntries"), ("lakes.n", "LakeEntries"),
                         ("settings", "SettingEntries"), ("limits", "LimitEntries")):  # fmt: skip
        kinds = {str(entry.get("type", name)): name for name, entry in tables[table].items() if "Frozen" not in name}
        frozen = [name for name in tables[table] if "Frozen" in name or name.startswith("default")]
        for name in [*(kinds.values() if table == "SettingEntries" else tables[table]), *frozen, "token"]:
            yield f"{clusters}[{title}]\n{name} = {value}\n"
    for name in [*tables["ClusterEntries"], "token"]:
        for beside in ("", "admin = 'http://b'", "recording = 'x'", "s3 = 's3://b/x'", "connection = 'c'"):
            yield f"[clusters.x]\n{name} = {value}\n" + (beside if not beside.startswith(f"{name} ") else "")
        yield "".join(f"[clusters.{one}]\nadmin = 'http://b'\n{name} = {value}\n" for one in "xy")


@pytest.mark.parametrize(
    "value",
    [f"'{SECRET}'", f"['a', '{SECRET}', '{SECRET}']", f"{{a = '{SECRET}'}}", f"'http://u:{SECRET}@h'",
     f"'http://h?{SECRET}'", f"'http://{SECRET}:port'", f"'s3://{SECRET}@b'",
     f"'http://u:x@{SECRET}/y@h'", f"'s3a://u:x/{SECRET}@b'", f"'{SECRET * 2}'", f"'{{{SECRET}}}'",
     f"['rfc3161 http://h every={SECRET} ca_file=c', 'v {SECRET}']"],
)  # fmt: skip
def test_a_secret_in_the_wrong_entry_is_not_told(value: str, tmp_path: Path) -> None:
    faulty = 0
    for text in entries_with(value):
        file = written(tmp_path, text)
        said = " ".join(fault.words(file) for fault in configuration_faults(file))
        assert "blood" not in said, text
        faulty += bool(said)
    assert faulty > 50


def test_every_configuration_of_the_docs_is_sound(tmp_path: Path) -> None:
    shown = [
        block
        for page in sorted(DOCS.rglob("*.md"))
        for block in map(dedent, re.findall(r"```toml\n(.*?)```", page.read_text("utf-8"), re.S))
        if "[clusters." in block and re.search(r"^(admin|recording|s3) =", block, re.M)
    ]
    assert len(shown) >= 3
    for text in shown:
        told = [one.text for one in configuration_faults(written(tmp_path, text))]
        assert [line for line in told if not line.startswith("No recording")] == [], text


def test_the_default_of_every_key_fits_the_schema(tmp_path: Path) -> None:
    schema = configuration_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    settings = schema["$defs"]["SettingEntries"]["properties"]
    assert set(settings) == set(registry()) - set(SWITCHES)
    for name, own in settings.items():
        assert own["description"].startswith(registry()[name].meaning)
        if "default" in own:
            body = {"clusters": {"x": {"recording": "x"}}, "settings": {name: own["default"]}}
            validator.validate(body)
    for name, table in schema["$defs"].items():
        assert all(len(entry["description"]) > 10 for entry in table["properties"].values()), name


def test_lines_are_those_of_the_entries() -> None:
    text = '# a = 1\na = 1\n[b."c.d"]\n\ne.f = [\n  1,\n]\n[[g]]\nh = "x = 1"\n'
    assert tomllib.loads(text)
    assert lines_of(text) == {
        ("a",): 2,
        ("b",): 3,
        ("b", "c.d"): 3,
        ("b", "c.d", "e"): 5,
        ("b", "c.d", "e", "f"): 5,
        ("g",): 8,
        ("g", "h"): 9,
    }


def test_the_command_says_it_by_lines_or_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    good, bad = written(tmp_path, SOUND), tmp_path / "bad.toml"
    bad.write_text("lake = 5\n[clusters.x]\nrecording = 'x'\n", encoding="utf-8")
    assert main(["config", "check", str(good)]) == 0
    assert capsys.readouterr().out == f"{good} is sound\n"
    assert main(["config", "check", str(bad)]) == 1
    assert capsys.readouterr().out == f"{bad}:1: lake: Input should be a valid string\n"
    monkeypatch.setenv("EVENKEEL_CONFIG", str(bad))
    assert main(["config", "check", "--json"]) == 1
    (told,) = check("config check", capsys.readouterr().out)
    assert told["faults"] == [{"entry": "lake", "line": 1, "text": "Input should be a valid string"}]
    assert main(["config", "check", str(tmp_path / "absent.toml")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    monkeypatch.delenv("EVENKEEL_CONFIG")
    assert main(["config", "check"]) == 2
    assert "give FILE, or set EVENKEEL_CONFIG" in capsys.readouterr().err


def test_the_schema_is_printed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "schema"]) == 0
    assert json.loads(capsys.readouterr().out) == configuration_schema()
