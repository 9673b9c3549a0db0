"""A store that refuses, fails or is gone: one line says what, where and what to do; a re-run repairs."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from evenkeel import object_store
from evenkeel.cli import main
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import delta_table, is_delta_table
from evenkeel.object_store import hand_over
from evenkeel.spark.home import Home
from evenkeel.spark.server import Engine
from tests.object_store.conftest import Place
from tests.object_store.stores import Store
from tests.sources.landing_zone.faults import Action, Exchange, Faults, refuse

pytestmark = pytest.mark.slow

RECORDING = Path(__file__).resolve().parents[2] / "demo" / "recordings" / "own-threshold"
ANYTHING = ("GET", "HEAD", "PUT", "POST", "DELETE")


def gone(exchange: Exchange) -> None:
    """Nobody answers any more."""
    exchange.close_connection = True
    exchange.connection.close()


def told_by(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line that a command ends with that fails."""
    capsys.readouterr()
    assert main(words) == 2
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert line.startswith("evenkeel: the lake s3a://"), line
    return line


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "TRIES", 2)
    monkeypatch.setattr(object_store, "RETRY_SECONDS", 3)


def use(store: Store, monkeypatch: pytest.MonkeyPatch, url: str | None = None, **other: str) -> None:
    for name, value in {**store.variables(url), **other}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("action", "told"),
    [
        (refuse(403, "ExpiredToken"), "the session token has expired. Log in again"),
        (refuse(403, "AccessDenied"), "access is denied. Keys may be wrong"),
        (refuse(503, "SlowDown"), "the store is not available, or asks to slow down"),
        (refuse(500, "InternalError"), "the store failed inside"),
        (gone, "the store does not answer. Check the endpoint"),
    ],
    ids=["expired", "denied", "busy", "broken", "gone"],
)
def test_a_reader_says_what_the_store_said(
    action: Action,
    told: str,
    store: Store,
    impatient: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Faults(store.port) as faults:
        for method in ANYTHING:
            faults.on(method, ".", action, times=10_000)
        use(store, monkeypatch, faults.url)
        assert told in told_by(capsys, "storage", "--lake", store.lake("none"))


def test_a_wrong_secret_and_a_bucket_that_is_not_there_are_told_apart(
    store: Store, impatient: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(store, monkeypatch)
    assert "there is no such bucket. Create it" in told_by(capsys, "storage", "--lake", "s3a://no-such-bucket/lake")
    use(store, monkeypatch, AWS_SECRET_ACCESS_KEY="another-secret-of-somebody")
    line = told_by(capsys, "storage", "--lake", store.lake("none"))
    assert "the secret key does not belong to the access key id" in line
    assert "another-secret" not in line


def test_a_lake_that_is_not_there_is_not_an_error_of_the_store(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    use(store, monkeypatch)
    assert main(["storage", "--lake", store.lake("none")]) == 2
    assert "there is no lake at" in capsys.readouterr().err


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("status", "code", "told"),
    [(503, "SlowDown", ""), (403, "ExpiredToken", "token (has )?expired")],
    ids=["gone", "expired"],
)
def test_a_store_that_goes_away_in_a_run_is_one_line_and_a_rerun_repairs(
    status: int,
    code: str,
    told: str,
    engine: Engine,
    place: Callable[[Engine], Place],
    impatient: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    there = place(engine)
    monkeypatch.setenv("EVENKEEL_SPARK", engine.url)
    words = ("rebalance", "--recording", str(RECORDING), "--lake", there.lake, "--all")

    def stop_everything(exchange: Exchange) -> None:
        for method in ANYTHING:
            there.faults.on(method, ".", refuse(status, code), times=100_000)
        refuse(status, code)(exchange)

    there.faults.on("PUT", r"/unload_decisions/_delta_log/0+1\.json", stop_everything)
    assert main(words) in (1, 2)
    said = capsys.readouterr().err
    assert "Traceback" not in said
    # The answer to a HEAD has no words: access is denied then, since keys may be wrong or a token expired.
    assert re.search(told, said)
    there.faults.forget()
    assert main(words) == 0
    # Some of deltalake's calls hold Python's lock, which the proxy in this process needs to answer.
    monkeypatch.setenv("AWS_ENDPOINT_URL", there.store.url)
    assert main(["verify", "--lake", there.lake]) == 0
    assert "all is as it was written" in capsys.readouterr().out


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.exhaustive
def test_new_keys_reach_a_server_that_runs_and_another_endpoint_does_not(
    engine: Engine,
    place: Callable[[Engine], Place],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    there = place(engine)
    monkeypatch.setenv("EVENKEEL_SPARK", engine.url)
    folder = Home.of(engine.home).folder
    words = ("rebalance", "--recording", str(RECORDING), "--lake", there.lake)
    assert main(words) == 0
    hand_over(folder, there.lake, {**there.variables, "AWS_SECRET_ACCESS_KEY": "a-secret-that-was-taken-back"})
    line = told_by(capsys, *words)
    assert "a-secret-that-was" not in line
    hand_over(folder, there.lake, there.variables)
    assert main(words) == 0
    seen = len(there.faults.seen)
    with Faults(there.store.port) as elsewhere:
        hand_over(folder, there.lake, {**there.variables, "AWS_ENDPOINT_URL": elsewhere.url})
        assert "used this bucket at another endpoint" in told_by(capsys, *words)
        assert elsewhere.seen == []
    assert seen
    assert is_delta_table(Lake(there.lake).path("cycles"))
    assert delta_table(Lake(there.lake).path("cycles")).version() > 0
