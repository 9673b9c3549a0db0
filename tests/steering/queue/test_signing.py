"""Who may speak on a queue: messages that were changed, turned round, forged or signed with a key of yesterday."""

import base64
import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evenkeel.errors import BadInput, SettingsError
from evenkeel.steering.queue.fifo import BadMessage
from evenkeel.steering.queue.signing import (
    FROM_AGENTS,
    TO_AGENTS,
    Signature,
    keys_from_environment,
    keys_in,
    resolved_keys,
    variable_of,
)

OLD, NEW, FOREIGN = "0" * 31 + "a", "0" * 31 + "b", "0" * 31 + "c"
NOW = datetime(2026, 11, 23, 9, 0, tzinfo=UTC)
LAB = Signature("lab", keys_in(NEW, "here"))
TEXT = LAB.signed('{"a":1}', TO_AGENTS, NOW, "c1")


def of(*keys: str, cluster: str = "lab") -> Signature:
    return Signature(cluster, keys_in(",".join(keys), "here"))


@given(st.text(st.characters(codec="utf-8")))
def test_what_was_signed_comes_back_as_it_was(body: str) -> None:
    text = LAB.signed(body, FROM_AGENTS, NOW, "r1")
    assert text.isascii()
    assert LAB.verified(text, FROM_AGENTS, NOW, "r1") == (body, NOW)


@given(st.integers(0, len(TEXT) - 1), st.characters(codec="ascii"))
def test_a_message_with_one_sign_changed_is_not_believed(place: int, sign: str) -> None:
    # The last sign of a part has bits that say nothing: another sign there may be the same message.
    assume(sign != TEXT[place] and TEXT[place + 1 : place + 2] not in ("", "."))
    with pytest.raises(BadMessage, match="sign"):
        LAB.verified(TEXT[:place] + sign + TEXT[place + 1 :], TO_AGENTS, NOW, "c1")


@given(st.text())
def test_anything_at_all_is_refused_in_words(text: str) -> None:
    with pytest.raises(BadMessage, match="sign"):
        LAB.verified(text, TO_AGENTS, NOW, "c1")


def _part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


HEADER = json.loads(base64.urlsafe_b64decode(TEXT.split(".")[0] + "=="))
FORGED = {
    "another key": (of(FOREIGN).signed("{}", TO_AGENTS, NOW, "c1"), "which is not one of this end's"),
    "another key under our key's name": (
        ".".join([TEXT.split(".")[0], *of(FOREIGN).signed("{}", TO_AGENTS, NOW, "c1").split(".")[1:]]),
        "the signature is not good",
    ),
    "without a signature": (".".join([_part(HEADER | {"alg": "none"}), TEXT.split(".")[1], ""]), "not good"),
    "by another method": (".".join([_part(HEADER | {"alg": "HS512"}), *TEXT.split(".")[1:]]), "not good"),
    "no name of a key": (".".join([_part({"alg": "HS256"}), *TEXT.split(".")[1:]]), "signed with the key None"),
    "turned round": (LAB.signed("{}", FROM_AGENTS, NOW, "r1"), "'from agents' came back on the queue to agents"),
    "another cluster": (of(NEW, cluster="west").signed("{}", TO_AGENTS, NOW, "c1"), "signed for cluster 'west'"),
    "of tomorrow": (LAB.signed("{}", TO_AGENTS, NOW + timedelta(days=1), "c1"), "s ahead of this machine's clock"),
    "copied under another id": (LAB.signed("{}", TO_AGENTS, NOW, "c2"), "signed as message 'c2', and it came as 'c1'"),
    "plain": ('{"evenkeel":"command","schema":1,"command":{}}', "not signed"),
    "deep": (base64.urlsafe_b64encode(b"[" * 100_000).decode() + ".e30.e30", "the signature is not good"),
    "a header that is a list": (_part([1]) + ".e30.e30", "the signature is not good"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_message_is_refused_and_says_why(name: str) -> None:
    text, why = FORGED[name]
    with pytest.raises(BadMessage, match=why):
        LAB.verified(text, TO_AGENTS, NOW, "c1")


def test_a_clock_that_is_a_little_ahead_is_tolerated() -> None:
    ahead = NOW + timedelta(minutes=4)
    assert LAB.verified(LAB.signed("{}", TO_AGENTS, ahead, "c"), TO_AGENTS, NOW, "c") == ("{}", ahead)


def test_keys_are_changed_without_a_moment_in_which_a_message_is_lost() -> None:
    ends = [of(OLD), of(OLD, NEW), of(NEW, OLD), of(NEW)]
    for before, after in pairwise(ends):
        for sender, receiver in ((before, after), (after, before)):
            assert receiver.verified(sender.signed("{}", TO_AGENTS, NOW, "c"), TO_AGENTS, NOW, "c") == ("{}", NOW)
    with pytest.raises(BadMessage, match="not one of this end's"):
        of(NEW).verified(of(OLD).signed("{}", TO_AGENTS, NOW, "c"), TO_AGENTS, NOW, "c")


def test_a_message_that_no_queue_takes_is_refused_before_it_is_sent() -> None:
    with pytest.raises(BadInput, match="bytes when signed; a queue takes 262144"):
        LAB.signed("x" * 200_000, TO_AGENTS, NOW, "c1")


def test_keys_stand_in_a_variable_or_in_a_file(tmp_path: Path) -> None:
    assert variable_of("queue_eu-1.prod") == "EVENKEEL_KEYS_QUEUE_EU_1_PROD"
    file = tmp_path / "keys"
    file.write_text(f"{NEW}\n{OLD}\n")
    for environment in ({"EVENKEEL_KEYS_QUEUE_LAB": f"{NEW}, {OLD}"}, {"EVENKEEL_KEYS_QUEUE_LAB_FILE": str(file)}):
        found = keys_from_environment("queue_lab", environment)
        assert found == of(NEW, OLD).keys
        assert NEW not in repr(found)
    assert keys_from_environment("queue_west", {"EVENKEEL_KEYS_QUEUE_LAB": NEW}) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("short", "KEYS_QUEUE_LAB: key 1 has 5 characters, and 32 are the fewest"),
        (f"{NEW},short", "key 2 has 5 characters"),
        (" , \n", "KEYS_QUEUE_LAB holds no key"),
        ("0" * 30 + " 0" * 8, "a key holds blanks"),
    ],
)
def test_keys_that_cannot_be_used_are_refused_unshown(text: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words) as raised:
        keys_from_environment("queue_lab", {"EVENKEEL_KEYS_QUEUE_LAB": text})
    assert text.strip() not in str(raised.value) or not text.strip()


def test_keys_that_nobody_knows_say_what_to_set() -> None:
    with pytest.raises(SettingsError, match="'queue_lab' are unknown: set EVENKEEL_KEYS_QUEUE_LAB to the key"):
        resolved_keys("queue_lab", lambda _: None)
