"""The exporter: what it answers to whom, what a scrape costs, and a lake that is gone, half-written, or comes back."""

import gzip
import logging
import shutil
import socket
import stat
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import psutil
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics

from evenkeel.cli import main
from evenkeel.metrics.declarations import BY_NAME
from evenkeel.metrics.exporter import MOST_SCRAPES
from evenkeel.metrics.figures import LakeFigures, LakeReader
from evenkeel.metrics.lake_watch import LakeWatch
from evenkeel.secret import Secret
from tests.lakes.urgent_lake import XSS, UrgentLake, urgent_lake
from tests.metrics.exporting import exporter, exporting, scrape, scraped, value_of

pytestmark = pytest.mark.slow

TOKEN = "0123456789abcdef" * 2


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return urgent_lake(tmp_path_factory.mktemp("lakes") / "urgent", datetime.now(UTC))


@pytest.fixture(scope="module")
def watch(lake: Path) -> LakeWatch:
    watch = LakeWatch(str(lake), 3600)
    assert watch.read_once().is_up
    return watch


def test_a_scrape_has_the_figures_of_every_cluster_whatever_its_name(watch: LakeWatch) -> None:
    with exporting(watch) as url:
        found = scrape(f"{url}/metrics")
    assert value_of(found, "evenkeel_up") == 1
    assert value_of(found, "evenkeel_harmed_commands", cluster="harm") == 1
    assert value_of(found, "evenkeel_unread_parts") == 0
    for name in XSS:
        assert value_of(found, "evenkeel_plan_withheld", cluster=name) == 1
    assert {name for name, _ in found} <= set(BY_NAME)


def test_both_forms_and_compression_are_answered_as_asked(watch: LakeWatch) -> None:
    with exporting(watch) as url:
        accept = {"Accept": "application/openmetrics-text;version=1.0.0"}
        answer = httpx.get(f"{url}/metrics", headers=accept)
        plain = httpx.get(f"{url}/metrics", headers={"Accept-Encoding": "identity"})
        with httpx.stream("GET", f"{url}/metrics", headers={"Accept-Encoding": "gzip"}) as packed:
            body = b"".join(packed.iter_raw())
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    assert {family.name for family in open_metrics(answer.text)} >= {"evenkeel_up", "evenkeel_balance_ratio"}
    assert plain.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert packed.headers["Content-Encoding"] == "gzip"
    assert scraped(gzip.decompress(body).decode()).keys() == scraped(plain.text).keys()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/health", 200),
        ("GET", "/metrics?name[]=evenkeel_up", 200),
        ("GET", "/", 404),
        ("GET", "/../../etc/passwd", 404),
        ("GET", "/metrics/", 404),
        ("POST", "/metrics", 405),
        ("PUT", "/metrics", 405),
        ("DELETE", "/metrics", 405),
        ("HEAD", "/metrics", 405),
        ("OPTIONS", "/metrics", 405),
        ("TRACE", "/metrics", 501),
    ],
)
def test_nothing_but_metrics_and_health_is_answered(watch: LakeWatch, method: str, path: str, status: int) -> None:
    with exporting(watch) as url:
        assert httpx.request(method, f"{url}{path}").status_code == status


@pytest.mark.parametrize(
    "given",
    [
        "",
        TOKEN,
        f"Basic {TOKEN}",
        "Bearer",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}0",
        "Bearer \u00e4".encode(),
        f"bearer{TOKEN}",
    ],
)
def test_without_the_token_nothing_is_told(watch: LakeWatch, given: str | bytes) -> None:
    with exporting(watch, Secret(TOKEN)) as url:
        refused = httpx.get(f"{url}/metrics", headers={"Authorization": given} if given else {})
        assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert "evenkeel_up" not in refused.text
        assert httpx.get(f"{url}/health").text == "ok\n"
        assert value_of(scrape(f"{url}/metrics", Authorization=f"Bearer {TOKEN}"), "evenkeel_up") == 1


def test_two_tokens_at_once_are_none(watch: LakeWatch) -> None:
    with exporting(watch, Secret(TOKEN)) as url:
        twice = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", "Bearer other")]
        assert httpx.get(f"{url}/metrics", headers=twice).status_code == 401


def test_so_many_connections_at_a_time_and_those_that_idle_are_cut(watch: LakeWatch) -> None:
    with exporting(watch, connection_seconds=1.0) as url:
        port = httpx.URL(url).port
        held = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(MOST_SCRAPES)]
        time.sleep(0.2)
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{url}/metrics")
        for one in held:
            assert one.recv(1) == b""
            one.close()
        assert httpx.get(f"{url}/metrics").status_code == 200


def test_scrapes_read_no_lake(lake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch, read, readings = LakeWatch(str(lake), 3600), LakeReader.read, []

    def counted(reader: LakeReader, now: datetime) -> LakeFigures:
        readings.append(threading.current_thread().name)
        return read(reader, now)

    monkeypatch.setattr(LakeReader, "read", counted)
    watch.start()
    try:
        with exporting(watch) as url:
            deadline = time.monotonic() + 30
            while value_of(scrape(f"{url}/metrics"), "evenkeel_up") != 1:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            ages = [value_of(scrape(f"{url}/metrics"), "evenkeel_reading_age_seconds") for _ in range(20)]
    finally:
        watch.stop()
    assert ages == sorted(ages)
    assert readings == ["lake-watch"]


def test_a_new_cycle_shows_with_the_next_reading(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    lake = UrgentLake(tmp_path / "lake", now - timedelta(hours=1))
    lake.course("eu-1")
    lake.lake.write()
    watch = LakeWatch(str(tmp_path / "lake"), 3600)
    assert watch.read_once().figures.values["evenkeel_cycle_late"]["eu-1",] == 1
    lake.lake.add("eu-1", now, {}, source="admin", before_max_over_mean=1.5, unloads=3, splits=0, held=0)
    lake.lake.write()
    values = watch.read_once().figures.values
    assert values["evenkeel_cycle_late"]["eu-1",] == 0
    assert values["evenkeel_balance_ratio"]["eu-1",] == 1.5
    assert values["evenkeel_cycle_timestamp_seconds"]["eu-1",] == pytest.approx(now.timestamp())


# Lakes that cannot be read


def broken_gone(lake: Path) -> None:
    shutil.rmtree(lake)


def broken_log(lake: Path) -> None:
    for file in (lake / "cycles" / "_delta_log").iterdir():
        file.write_bytes(file.read_bytes()[:40])


def broken_rows(lake: Path) -> None:
    for file in (lake / "cycles").rglob("*.parquet"):
        file.write_bytes(b"PAR1")


def broken_file(lake: Path) -> None:
    shutil.rmtree(lake)
    lake.write_text("a file", encoding="utf-8")


@pytest.mark.parametrize("spoil", [broken_gone, broken_log, broken_rows, broken_file])
def test_a_lake_that_cannot_be_read_is_down_in_one_line_and_comes_back(
    lake: Path, tmp_path: Path, spoil, caplog: pytest.LogCaptureFixture
) -> None:
    own = tmp_path / "lake"
    shutil.copytree(lake, own)
    watch = LakeWatch(str(own), 3600)
    assert watch.read_once().is_up
    spoil(own)
    fresh = LakeWatch(str(own), 3600)  # one that has nothing at hand
    with caplog.at_level(logging.INFO, "evenkeel.metrics"), exporting(fresh) as url:
        for number in (1, 2):
            fresh.read_once()
            found = scrape(f"{url}/metrics")
            assert value_of(found, "evenkeel_up") == 0
            assert value_of(found, "evenkeel_reading_failures_total") == number
            assert not any(labels for _, labels in found)
        assert len(caplog.records) == 1, "said once"
        assert caplog.records[0].getMessage().startswith("lake cannot be read: ")
        own.unlink() if own.is_file() else shutil.rmtree(own, ignore_errors=True)
        shutil.copytree(lake, own)
        assert fresh.read_once().is_up
        assert caplog.records[-1].getMessage() == "lake can be read again"
        assert value_of(scrape(f"{url}/metrics"), "evenkeel_harmed_commands", cluster="harm") == 1


def test_figures_of_the_last_reading_stay_while_the_lake_is_gone(lake: Path, tmp_path: Path) -> None:
    own = Path(shutil.copytree(lake, tmp_path / "lake"))
    watch = LakeWatch(str(own), 3600)
    watch.read_once()
    shutil.rmtree(own)
    watch.read_once()
    with exporting(watch) as url:
        found = scrape(f"{url}/metrics")
    assert value_of(found, "evenkeel_up") == 0
    assert value_of(found, "evenkeel_harmed_commands", cluster="harm") == 1
    assert value_of(found, "evenkeel_unread_parts") is None


# The command


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--listen 0.0.0.0:0 --lake {lake}", "give --token-file FILE"),
        ("--listen [::]:0 --lake {lake}", "give --token-file FILE"),
        ("--listen evenkeel.example:0 --lake {lake}", "give --token-file FILE"),
        ("--listen 127.0.0.1 --lake {lake}", "write HOST:PORT"),
        ("--listen 127.0.0.1:0", "no lake is named"),
        ("--listen 127.0.0.1:0 --lake {lake} --every 0", "--every 0: from 1 to 3600 seconds"),
        ("--listen 127.0.0.1:0 --lake {lake} --every nan", "--every nan"),
        ("--listen 192.0.2.1:0 --lake {lake} --token-file {token}", "nothing can listen there"),
        ("--listen 127.0.0.1:0 --lake {lake} --token-file {open}", "others than its owner may read"),
        ("--listen 127.0.0.1:0 --lake {lake} --token-file {short}", "has fewer than 32 characters"),
        ("--listen 127.0.0.1:0 --lake {lake} --token-file {lake}/none", "cannot be read"),
        ("--listen 127.0.0.1:0 --lake {lake} --token-file {two}", "holds blanks"),
    ],
)
def test_what_it_will_not_do_is_said_in_one_line(
    words: str, said: str, lake: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    monkeypatch.delenv("EVENKEEL_LAKE", raising=False)
    files = {"token": TOKEN, "open": TOKEN, "short": "s3cret", "two": f"{TOKEN}\n{TOKEN}"}
    for name, text in files.items():
        (tmp_path / name).write_text(f"{text}\n")
        (tmp_path / name).chmod(0o640 if name == "open" else 0o600)
    given = words.format(lake=lake, **{name: tmp_path / name for name in files})
    assert main(["metrics", *given.split()]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert TOKEN not in err
    assert "s3cret" not in err


def test_as_a_process_it_serves_without_a_jvm_until_it_is_ended(lake: Path, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    token.chmod(stat.S_IRUSR)
    log = tmp_path / "log"
    with exporter(lake, "--token-file", str(token), "--every", "1", log=log) as (url, pid):
        assert url.endswith("/metrics")
        deadline = time.monotonic() + 60
        while value_of(found := scrape(url, Authorization=f"Bearer {TOKEN}"), "evenkeel_up") != 1:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert value_of(found, "evenkeel_bounces", cluster="bounces") == 1
        assert httpx.get(url).status_code == 401
        assert psutil.Process(pid).children() == [], "no JVM, nor any other process"
    assert TOKEN not in log.read_text()


def test_it_begins_without_a_lake_and_says_so(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with exporter(tmp_path / "none", log=log) as (url, _):
        deadline = time.monotonic() + 60
        while value_of(scrape(url), "evenkeel_reading_failures_total") != 1:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert value_of(scrape(url), "evenkeel_up") == 0
    (line,) = log.read_text().splitlines()
    assert "ERROR lake cannot be read: there is no lake at" in line
