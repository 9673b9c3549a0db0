from pathlib import Path

from devtools.lab.tally import Counts, Pauses, Tally

TOPICS = ("a", "b")


def test_a_message_acknowledged_and_never_received_is_lost_and_named() -> None:
    counts = Counts(TOPICS)
    for topic in (0, 0, 0, 1):
        number = counts.next_number(topic)
        counts.acknowledged(topic, number)
        if (topic, number) != (0, 1):
            counts.received(topic, number)
    assert not counts.settled()
    assert counts.tally(final=False).lost == 0
    tally = counts.tally(final=True)
    assert (tally.sent, tally.acknowledged, tally.received, tally.lost) == (4, 4, 3, 1)
    assert tally.lost_examples == ["a#1"]


def test_a_message_that_is_received_before_its_acknowledgement_is_not_lost() -> None:
    counts = Counts(TOPICS)
    first, second = counts.next_number(0), counts.next_number(0)
    counts.received(0, second)
    counts.received(0, first)
    counts.acknowledged(0, first)
    assert not counts.settled()  # the second has no answer yet
    assert counts.tally(final=True).unanswered == 1
    counts.acknowledged(0, second)
    assert counts.settled()
    assert counts.tally(final=True).lost == 0


def test_repeated_deliveries_and_failed_sends_are_counted_and_lose_nothing() -> None:
    counts = Counts(TOPICS)
    number = counts.next_number(1)
    counts.acknowledged(1, number)
    counts.received(1, number)
    counts.received(1, number)
    counts.next_number(1)
    counts.failed("Timeout")
    assert counts.settled()
    tally = counts.tally(final=True)
    assert (tally.duplicates, tally.failed, tally.lost, tally.unanswered) == (1, 1, 0, 0)
    assert tally.failures == {"Timeout": 1}


def test_a_failed_send_that_was_received_all_the_same_is_not_lost() -> None:
    counts = Counts(TOPICS)
    number = counts.next_number(0)
    counts.failed("Timeout")
    counts.received(0, number)
    assert counts.settled()
    assert counts.tally(final=True).lost == 0


def test_a_tally_survives_its_file(tmp_path: Path) -> None:
    tally = Tally(sent=3, lost=1, lost_examples=["a#1"], failures={"Timeout": 2}, state="ended")
    tally.write(tmp_path / "tally.json")
    assert Tally.read(tmp_path / "tally.json") == tally


def test_the_longest_pause_counts_from_the_beginning_and_as_long_as_it_lasts() -> None:
    pauses = Pauses(TOPICS, 0.0)
    pauses.received(0, 90.0)
    pauses.begin(100.0)
    for at in (101.0, 101.5, 104.5):
        pauses.received(0, at)
    pauses.received(1, 102.0)
    assert pauses.longest(104.5) == (3.0, "a")
    assert pauses.longest(110.0) == (8.0, "b")
