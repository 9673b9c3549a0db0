"""What is wrong with a command's input is said, with its exit code, before Spark is started."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from evenkeel.cli import main, options
from tests.lake.lock_holder import held
from tests.lakes.plausible import plausible_lake

RECORDING = Path(__file__).resolve().parents[2] / "demo" / "recordings" / "own-threshold"
COLLECT = "collect --admin http://127.0.0.1:9"
WISH = "wish unload acme/orders -b 0x00000000_0x40000000 --cluster lab --lake"


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A lake, a folder without anything, a file, a configuration, a settings file and their broken likes."""
    folder = tmp_path_factory.mktemp("input")
    files = {
        "file": "not a folder",
        "config": f'[clusters.lab]\nrecording = "{RECORDING}"\n[clusters.gone]\nrecording = "gone"\n',
        "typo": f'[clusters.lab]\nrecordings = "{RECORDING}"\n',
        "settings": "loadBalancerBrokerThresholdShedderPercentag = 15\n",
        "broken": "= 15\n",
        "watched": '[clusters.lab]\nadmin = ["http://127.0.0.1:1"]\n',
        "queued": '[clusters.lab]\nadmin = ["http://127.0.0.1:1"]\nqueue = "https://sqs/q.fifo"\n'
        'reports = "https://sqs/r.fifo"\n',
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "empty").mkdir()
    lake = plausible_lake(folder / "lake")
    found = {name: str(folder / name) for name in (*files, "empty", "gone", "new")}
    return {**found, "lake": str(lake), "recording": str(RECORDING)}


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: object, **__: object) -> None:
        raise AssertionError("Spark is started")

    monkeypatch.delenv("EVENKEEL_SPARK", raising=False)
    monkeypatch.delenv("EVENKEEL_LAKE", raising=False)
    monkeypatch.setattr(options, "engine_for", start)
    monkeypatch.setattr(options, "connect", start)


BAD = {
    # recordings, configurations, clusters
    "rebalance --lake {new} --recording {gone}": "the folder does not exist",
    "rebalance --lake {new} --recording {gone} --all": "the folder does not exist",
    "rebalance --lake {new} --recording {gone} --from 2026-11-21": "the folder does not exist",
    "rebalance --lake {new} --recording {recording} --all --mode auto": "ask with mode dry_run, not auto",
    "rebalance --lake {new} --config {config} --cluster lab --to 2026-11-22 --mode approve": "nothing is ever sent",
    "rebalance --lake {new} --recording {empty}": "no snapshot in",
    "rebalance --lake {new} --recording {recording} --cluster a --cluster b": "one recording shows one cluster",
    "rebalance --lake {new} --config {gone}": "cannot be read",
    "rebalance --lake {new} --config {broken}": "is not TOML",
    "rebalance --lake {new} --config {typo}": "clusters.lab.recordings: Unknown entry; did you mean",
    "rebalance --lake {new} --config {config} --cluster lap": "Did you mean lab?",
    "rebalance --lake {new} --config {config} --cluster gone": "the folder does not exist",
    "pause lap --lake {lake} --config {config}": "Did you mean lab?",
    "takeover lap --lake {lake} --config {config}": "Did you mean lab?",
    "takeover lab --lake {lake} --config {gone}": "cannot be read",
    # times, besides what tests/test_times.py asks of every command
    "rebalance --lake {new} --recording {recording} --at 2001-01-01": "no snapshot at or before",
    "rebalance --lake {new} --recording {recording} --from= --mode auto": "--from '' is not a time",
    "rebalance --lake {new} --config {config} --cluster lab --to=": "--to '' is not a time",
    "rebalance --lake {new} --recording {recording} --from 2026-11-22 --to 2026-11-21": "swap them",
    "rebalance --lake {new} --recording {recording} --to 2001-01-01": "no snapshot to 2001-01-01",
    "rebalance --lake {new} --recording {recording} --at 2026-11-21 --to 2026-11-22": "leave one of them away",
    "rebalance --lake {new} --recording {recording} --anew": "--anew goes with",
    "replay --lake {lake} --from 2027-01-01": "on record",
    "verify --lake {lake} --from 2026-11-22 --to 2026-11-21": "swap them",
    # settings and strategies
    "rebalance --lake {new} --recording {recording} --settings {gone}": "cannot be read",
    "rebalance --lake {new} --recording {recording} --settings {broken}": "is not TOML",
    "rebalance --lake {new} --recording {recording} --settings {settings}": "loadBalancerBrokerThresholdShedderPerce",
    "rebalance --lake {new} --recording {recording} --set minUnloadMesage=3": "minUnloadMessage",
    "rebalance --lake {new} --recording {recording} --set minUnloadMessage": "write KEY=VALUE",
    "rebalance --lake {new} --recording {recording} --set loadBalancerLoadSheddingStrategy=Nobody": "an unknown value",
    "replay --lake {lake} --strategy AvgSheder": "did you mean AvgShedder",
    "replay --lake {lake} --limit 0": "usage in percent",
    "simulate --strategy AvgSheder --lake {new} --scenario zipf": "did you mean AvgShedder",
    "simulate --scenario zipff --lake {new}": "zipf",
    "simulate --set minUnloadMesage=3 --lake {new} --scenario zipf": "minUnloadMessage",
    "upkeep --lake {lake} --audit-days 0": "audit_days",
    "upkeep --lake {lake} --observed-days 9000": "must not exceed audit_days",
    # lakes
    "rebalance --lake {file} --recording {recording} --all": "is a file, and a folder is needed",
    "rebalance --lake {file} --recording {recording}": "is a file, and a folder is needed",
    "rebalance --lake {file}/below --recording {recording}": "is a file, and a folder is needed",
    f"{WISH} {{file}}": "is a file, and a folder is needed",
    "pause lab --lake {file} --config {queued}": "is a file, and a folder is needed",
    "takeover lab --lake {gone} --config {watched}": "there is no lake at",
    "handback lab --lake {gone} --config {watched}": "there is no lake at",
    "simulate --lake {file} --scenario zipf": "is a file, and a folder is needed",
    "export --lake {gone} --from 2026-11-21 --to 2026-11-21 --out {new}": "there is no lake at",
    "backup --lake {gone} --to {new}": "there is no lake at",
    "restore --from {empty} --lake {new}": "is not a whole backup",
    "restore --from {lake} --lake {file}": "is a file, and a folder is needed",
    # clusters and plans on record
    "export --lake {lake} --cluster lap --from 2026-11-21 --to 2026-11-21 --out {new}": "no cycle of",
    "approve abcdef123 --lake {lake}": "no plan abcdef123",
    "reject abc --lake {lake}": "too short for a plan id",
    # what is written
    "replay --lake {lake} --out {file}": "is a file, and a folder is needed",
    "simulate --out {file}": "is a file, and a folder is needed",
    "data-docs --lake {lake} --out {file}": "is a file, and a folder is needed",
    "report --lake {lake} --out {empty}": "is a folder, and a file is to be written",
    "report --lake {lake} --out {file}/report.html": "is a file, and a folder is needed",
    "export --lake {lake} --from 2026-11-21 --to 2026-11-21 --out {file}/new": "is a file, and a folder is needed",
    "export --lake {lake} --from 2026-11-21 --to 2026-11-21 --out {empty}": "is there already",
    "backup --lake {lake} --to {file}": "is a file, and a folder is needed",
    "backup --lake {lake} --to {lake}/below": "one is inside the other",
    # what watches and collects
    "status": "no lake is named",
    "watch lab --lake {lake} --every 0": "--every 0",
    "watch lab --lake {lake} --every nan": "--every nan",
    "doctor --only lak": "there is no check 'lak'; did you mean lake",
    "doctor --config {gone} --only python": "cannot be read",
    "rebalance --lake {new} --recording {recording} --set qqq=3": "`evenkeel settings` lists them all",
    f"{COLLECT} --to {{new}} --count 0": "--count 0: at least 1",
    f"{COLLECT} --to {{new}} --every 0": "--every 0: more than 0",
    f"{COLLECT} --to {{new}} --full-every 0": "--full-every 0: at least 1",
    f"{COLLECT} --to {{new}} --cluster x": "--cluster goes with --config",
    f"{COLLECT} --to {{new}} --token-env NOWHERE": "NOWHERE: the variable is not set",
    f"{COLLECT} --to gs://bucket/x": "writes to folders and to s3://",
    f"{COLLECT} --to {{new}} --ca-file /dev/null/x": "ca_file /dev/null/x cannot be used",
}
BAD |= {
    f"{command} --lake {{gone}}": "there is no lake at"
    for command in (
        *("upkeep", "storage", "heat", "verify", "replay", "simulate --scenario recorded", "wish list", "report"),
        *("data-docs", "explain b1:1", "trace b1:1", "approve abcdef123", "pause lab", "status"),
        *("wish drain b1:1 --cluster lab", "wish unload acme/orders --cluster lab"),
    )
}
BAD |= {
    f"wish {kind} --cluster lab --lake {{file}}": "is a file, and a folder is needed"
    for kind in ("drain b1:8080", "undrain b1:8080", "unload-topic persistent://a/b/c")
}
BAD |= {
    f"{command} --lake {{lake}} --cluster lap": "Did you mean 'lab'?"
    for command in (
        "verify",
        "replay",
        "simulate",
        "heat",
        "report",
        "explain b1:1",
        "status",
        "wish unload acme/a",
        "wish list",
    )
} | {"watch lap --lake {lake}": "Did you mean 'lab'?"}


@pytest.mark.parametrize("words", BAD)
def test_bad_input_is_told_without_spark(
    words: str, places: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.format(**places).split()) == 2
    said = capsys.readouterr()
    assert BAD[words] in said.err
    assert said.err.startswith("evenkeel: ")
    assert said.out == ""
    assert not Path(places["new"]).exists()


@pytest.mark.parametrize(
    "words",
    [
        "rebalance --lake {new} --recording {recording}",
        "rebalance --lake {new} --recording {recording} --all",
        "rebalance --lake {new} --recording {recording} --from 2026-11-21 --to 2026-11-21",
        "rebalance --lake {new} --config {config} --cluster lab",
        "rebalance --lake {new} --config {config}",
        "upkeep --lake {lake}",
    ],
)
def test_good_input_goes_on_to_spark(words: str, places: dict[str, str]) -> None:
    with pytest.raises(AssertionError, match="Spark is started"):
        main(words.format(**places).split())


@pytest.fixture
def forbidden(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A lake with a folder that this process, as a user without rights, may not look into."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        lake = plausible_lake(Path(folder) / "lake")
        closed = Path(folder) / request.param
        closed.chmod(0o000)
        user = os.geteuid()
        try:
            if user == 0:
                os.seteuid(65534)
            yield lake
        finally:
            os.seteuid(user)
            closed.chmod(0o700)


@pytest.mark.parametrize("forbidden", ["lake", "lake/cycles/_delta_log"], indirect=True)
@pytest.mark.parametrize(
    "words", ["status", "explain b1:1", "storage", "heat", "wish list", "replay", "doctor --only lake"]
)
def test_missing_rights_are_told_as_such(words: str, forbidden: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*words.split(), "--lake", str(forbidden)]) != 0
    told = "".join(capfd.readouterr())
    assert "this user has no right to it" in told, told
    assert "there is no lake" not in told
    assert "damaged" not in told


@pytest.mark.skipif(sys.platform != "linux", reason="who holds a lock is asked of Linux only")
@pytest.mark.parametrize(
    "words", ["rebalance --recording {recording}", "rebalance --recording {recording} --all", "upkeep"]
)
def test_a_lake_that_another_server_writes_is_left_to_it(
    words: str, places: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with held(Path(places["lake"])):
        assert main([*words.format(**places).split(), "--lake", places["lake"]]) == 2
    told = capsys.readouterr().err
    assert f"The lake {places['lake']} is written by another server: alice on host-7" in told
    assert "EVENKEEL_HOME" in told
