"""Time stamps over a lake's log: asked for once in a while, kept beside it, and held against it by `verify`."""

import logging
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evenkeel.cli import main
from evenkeel.errors import SettingsError
from evenkeel.transparency import LOG_KEY as VARIABLE
from evenkeel.transparency.lake_log import begin, open_log, storage_of
from evenkeel.transparency.publishing import log_commits
from evenkeel.transparency.time_stamp import DEFAULT_EVERY, RETRY_SECONDS, StampAuthority
from evenkeel.transparency.witnesses import WitnessState, tell_witnesses, witness_states, witnesses_of
from tests.transparency.authorities import Authority, listening, made_authority, sent
from tests.transparency.lakes import copied, publish_more
from tests.transparency.logs import LOG_KEY, OTHER_KEY
from tests.transparency.telling import Told, teller

NOW = 1_800_000_000


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return made_authority(tmp_path_factory.mktemp("authority") / "own")


@pytest.fixture(scope="module")
def url(authority: Authority) -> Iterator[str]:
    """Where the authority listens."""
    with listening(lambda handler, query: sent(handler, authority.reply(query))) as found:
        yield found


@pytest.fixture
def lake(begun: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lake with a log of 12 leaves, whose key is in the environment; no witness is."""
    monkeypatch.setenv(VARIABLE, LOG_KEY.secret().reveal())
    monkeypatch.delenv("EVENKEEL_WITNESSES", raising=False)
    return copied(begun, tmp_path / "lake")


@pytest.fixture
def told(lake: Path, capsys: pytest.CaptureFixture[str]) -> Told:
    return teller(lake, capsys)


def line_of(url: str, authority: Authority, more: str = "") -> str:
    return f"rfc3161 {url} ca_file={authority.ca} {more}"


def told_at(lake: Path, line: str, at: float) -> WitnessState:
    """Tells the witness at a time."""
    storage = storage_of(str(lake))
    (state,) = tell_witnesses(storage, open_log(storage, [LOG_KEY]), witnesses_of(line, "here"), lambda: at)
    return state


def stamped(lake: Path) -> list[str]:
    """The stamped sizes."""
    return sorted(path.name for path in (lake / "_log" / "stamps").glob("*") if [*path.glob("*.tsr")])


def words_of(found: dict[str, Any]) -> str:
    return "\n".join(fault["words"] for fault in found["faults"])


def test_a_publish_has_the_newest_checkpoint_stamped(
    lake: Path, url: str, authority: Authority, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_WITNESSES", line_of(url, authority))
    log_commits(str(lake), publish_more(lake, "lab"))
    log_commits(str(lake), publish_more(lake, "lab"))
    assert stamped(lake) == ["14"], "the second publish is within the hour"
    state = witness_states(storage_of(str(lake)))[url]
    assert state.words(16) == f"{url}: 2 leaves behind"
    found = told("--stamp-ca", str(authority.ca))
    assert found["faults"] == []
    (line,) = found["log"]["stamps"]
    assert line.startswith("checkpoint of 14 leaves stamped at 20")
    assert line.endswith("by 'CN=Authority,O=Tests'")
    assert "unverified: give the authority's certificates" in told()["log"]["stamps"][0]


def test_an_authority_is_asked_once_in_a_while(lake: Path, url: str, authority: Authority) -> None:
    line = line_of(url, authority, "every=6h")
    noon, hour = NOW, 3600
    assert told_at(lake, line, noon).size == 12
    log_commits(str(lake), publish_more(lake, "lab"))
    assert told_at(lake, line, noon + 6 * hour - 1).size == 12
    assert told_at(lake, line, noon + 6 * hour).size == 14
    assert told_at(lake, line, noon + 60 * hour).size == 14
    assert stamped(lake) == ["12", "14"]


def test_openssl_reads_a_stamp_as_the_docs_say(lake: Path, url: str, authority: Authority) -> None:
    told_at(lake, line_of(url, authority), NOW)
    text = lake.parent / "text"
    check = f"sed '/^$/,$d' checkpoint > {text} && openssl ts -verify -in *.tsr -data {text} -CAfile {authority.ca}"
    done = subprocess.run(["sh", "-c", check], cwd=lake / "_log" / "stamps" / "12", capture_output=True, check=False)
    assert done.stdout == b"Verification: OK\n", done.stderr


@pytest.mark.parametrize(
    ("at", "tried", "now", "is_due"),
    [
        (0, 0, NOW, True),
        (NOW - DEFAULT_EVERY + 1, NOW - DEFAULT_EVERY + 1, NOW, False),
        (NOW - DEFAULT_EVERY, NOW - DEFAULT_EVERY, NOW, True),
        (0, NOW - RETRY_SECONDS + 1, NOW, False),
        (0, NOW - RETRY_SECONDS, NOW, True),
        (NOW + 5_000, NOW + 5_000, NOW, True),
    ],
)
def test_when_an_authority_is_due(at: int, tried: int, now: int, is_due: bool) -> None:
    own = StampAuthority("https://stamps.example", Path("ca.pem"))
    assert own.is_due(at, tried, now) == is_due


def test_an_authority_that_fails_stops_nothing_and_is_left_in_peace(
    lake: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    requests = []

    def fails(handler: Any, query: bytes) -> None:
        requests.append(query)
        sent(handler, b"garbage")

    caplog.set_level(logging.WARNING)
    with listening(fails) as bad:
        monkeypatch.setenv("EVENKEEL_WITNESSES", f"{line_of(bad, authority)}\n{lake.parent / 'kept.jsonl'}")
        for _ in range(2):
            log_commits(str(lake), publish_more(lake, "lab"))
    assert len(requests) == 1
    assert "gives no stamp that holds" in caplog.text
    states = witness_states(storage_of(str(lake)))
    assert states[str(lake.parent / "kept.jsonl")].size == 16
    assert "16 leaves behind since 20" in states[bad].words(16)
    assert stamped(lake) == []


def test_certificates_that_cannot_be_read_stop_nothing(lake: Path, url: str, tmp_path: Path) -> None:
    state = told_at(lake, f"rfc3161 {url} ca_file={tmp_path / 'absent'}", 1e9)
    assert "cannot be read" in state.fault


@pytest.fixture
def two(lake: Path, url: str, authority: Authority) -> Path:
    """The lake with stamps of 12 and 14 leaves."""
    told_at(lake, line_of(url, authority), 1_000_000)
    log_commits(str(lake), publish_more(lake, "lab"))
    told_at(lake, line_of(url, authority), 2_000_000)
    return lake


def test_stamps_that_do_not_hold_are_named(two: Path, told: Told, authority: Authority, tmp_path: Path) -> None:
    stamps, ca = two / "_log" / "stamps", ("--stamp-ca", str(authority.ca))
    assert len(told(*ca)["log"]["stamps"]) == 2
    stranger = made_authority(tmp_path / "stranger")
    assert words_of(told("--stamp-ca", str(stranger.ca))).count("not signed under the given certificates") == 2
    (first,), (second,) = (sorted((stamps / size).glob("*.tsr")) for size in ("12", "14"))
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    assert f"stamps/12/{first.name!r}: the stamp is over another text" in words_of(told())
    for data in (b"", b"garbage", one[:-1], bytes(70_000)):
        first.write_bytes(data)
        assert f"stamps/12/{first.name!r}: " in words_of(told())
    first.write_bytes(one)
    shutil.copy(stamps / "14" / "checkpoint", stamps / "12" / "checkpoint")
    assert "it holds the checkpoint of another size" in words_of(told())
    (stamps / "12" / "checkpoint").unlink()
    assert "the checkpoint that was stamped is gone" in words_of(told())
    (stamps / "12" / "checkpoint").write_bytes(b"nonsense")
    assert "stamps/12: " in words_of(told())
    assert main(["verify", "--lake", str(two), "--depth", "chain", "--stamp-ca", str(stamps)]) == 2


def test_stamps_show_that_a_log_was_begun_anew(two: Path, told: Told, tmp_path: Path) -> None:
    kept = copied(two / "_log" / "stamps", tmp_path / "stamps")
    publish_more(two, "modular", 3, reason="another past")
    shutil.rmtree(two / "_log")
    begin(str(two), [LOG_KEY])
    assert told()["sound"]
    copied(kept, two / "_log" / "stamps")
    assert "stamps/14: the log 'example.com/evenkeel' shows another past" in words_of(told())


def test_another_checkpoint_of_a_stamped_size_is_an_error(two: Path, url: str, authority: Authority) -> None:
    (two / "_log" / "stamps" / "12").rename(two / "_log" / "stamps" / "16")
    log_commits(str(two), publish_more(two, "lab"))
    state = told_at(two, line_of(url, authority), 3_000_000)
    assert (state.size, state.is_inconsistent) == (14, True)
    assert "stamps/16 is of another tree" in state.fault


def test_stamps_under_a_former_key_still_count(
    two: Path, told: Told, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    for keys in ((OTHER_KEY, LOG_KEY), (OTHER_KEY,)):
        monkeypatch.setenv(VARIABLE, "\n".join(key.secret().reveal() for key in keys))
        log_commits(str(two), publish_more(two, "lab"))
    assert len(told("--stamp-ca", str(authority.ca))["log"]["stamps"]) == 2


def test_what_else_lies_there_is_passed_over_up_to_a_limit(
    two: Path, told: Told, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamps = two / "_log" / "stamps"
    for name in ("007", "-1", "x" * 200, "1٣", "13"):
        (stamps / name).mkdir()
    (stamps / "12" / "notes.txt").write_text("ours")
    assert told("--stamp-ca", str(authority.ca))["faults"] == []
    monkeypatch.setattr("evenkeel.transparency.time_stamp.MOST_STAMPED", 3)
    assert "holds more than 3 files" in words_of(told())


def test_without_stamps_the_certificates_prove_nothing(lake: Path, told: Told, authority: Authority) -> None:
    (line,) = told("--stamp-ca", str(authority.ca))["log"]["stamps"]
    assert line.startswith("no time stamp of the log holds")


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("rfc3161", "ca_file=PATH"),
        ("rfc3161 https://stamps.example", "ca_file=PATH"),
        ("rfc3161 https://stamps.example ca_file=/ca ca_file=/ca", "once at most"),
        ("rfc3161 https://stamps.example ca_file=/ca colour=red", "once at most"),
        ("rfc3161 https://stamps.example ca_file=/ca every=30s", "is the least"),
        ("rfc3161 https://stamps.example ca_file=/ca every=hourly", "write 1h"),
        ("rfc3161 https://stamps.example ca_file=/ca plain_http=perhaps", "write true or false"),
        ("rfc3161 http://stamps.example ca_file=/ca", "plain_http=true"),
        ("rfc3161 https://stamps.example:99999 ca_file=/ca", "cannot be read"),
    ],
)
def test_a_line_that_names_no_authority_is_refused(line: str, fault: str) -> None:
    with pytest.raises(SettingsError, match=fault):
        witnesses_of(line, "EVENKEEL_WITNESSES")


def test_an_authority_is_named_on_a_line_of_its_own(lake: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (found,) = witnesses_of("rfc3161 http://stamps.example/tsr ca_file=/ca.pem every=2d plain_http=true", "here")
    assert (found.name, found.address, found.path) == ("http://stamps.example/tsr", None, None)
    assert found.authority is not None
    assert (found.authority.every, found.authority.ca_file) == (172_800, Path("/ca.pem"))
    line = "rfc3161 https://stamps.example ca_file=/ca"
    assert main(["verify", "--lake", str(lake), "--depth", "chain", "--against", line]) == 2
    assert "it remembers nothing" in capsys.readouterr().err
