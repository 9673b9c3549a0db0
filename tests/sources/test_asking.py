"""Turns among clusters, and when a cluster is silent."""

from threading import Event, Thread

import pytest

from evenkeel.errors import Unreachable
from evenkeel.pulsar.admin import Hop
from evenkeel.sources.asking import Silence, Turns


class Cluster:
    """What has a turn, and whether it is quiet; `begun` once it has one."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet, self.begun = quiet, Event()

    def begin(self, until: float) -> None:
        self.until = until
        self.begun.set()

    def is_quiet(self) -> bool:
        return self.quiet


def hop(status: int) -> Hop:
    return Hop("b:8080", "GET", "/admin/v2/brokers", status, "", 0.0, None, "")


def test_not_more_than_so_many_have_a_turn_and_the_next_comes_when_one_ends() -> None:
    turns, first, second = Turns(1, 9, 600), Cluster(), Cluster()
    over = Event()

    def take() -> None:
        with turns.turn(second):
            over.set()

    with turns.turn(first):
        waiting = Thread(target=take)
        waiting.start()
        assert not second.begun.is_set()
    waiting.join()
    assert over.is_set()


def test_one_that_is_quiet_is_not_waited_for() -> None:
    turns, quiet, other = Turns(1, 9, 0), Cluster(quiet=True), Cluster()
    with turns.turn(quiet), turns.turn(other):
        assert other.begun.is_set()


@pytest.mark.parametrize(("in_all", "quiet"), [(9, False), (1, True)])
def test_whose_turn_does_not_come_is_told_so(in_all: int, quiet: bool) -> None:
    turns, other = Turns(1, in_all, 0), Cluster()
    with (
        turns.turn(Cluster(quiet=quiet)),
        pytest.raises(Unreachable, match="its turn did not come in the 0 s"),
        turns.turn(other),
    ):
        pass
    assert not other.begun.is_set()


def test_time_in_which_nothing_is_asked_is_no_silence() -> None:
    silence = Silence()
    assert silence.seconds == 0
    with silence.question() as hops:
        hops.append(hop(0))
    before = silence.seconds
    assert before == silence.seconds
    with silence.question():
        assert silence.seconds >= before
    with silence.question() as hops:
        hops.append(hop(404))
    assert silence.seconds == 0


def test_an_answer_ends_it_for_those_that_wait_as_well() -> None:
    silence = Silence()
    with silence.question() as waiting:
        with silence.question() as hops:
            hops.append(hop(0))
        before = silence.seconds
        assert before > 0
        with silence.question() as hops:
            hops.append(hop(200))
        waiting.append(hop(0))
    assert silence.seconds >= 0
