from collections.abc import Callable
from threading import Event

import pytest

from evenkeel.retrying import Doubling, at_once, retry, up_to_a_fifth_more


class Passing(Exception):
    """Over a moment later."""


def failing(times: int, error: type[BaseException] = Passing) -> Callable[[], str]:
    """An attempt that fails so often, then says which attempt it was."""
    made = 0

    def attempt() -> str:
        nonlocal made
        made += 1
        if made <= times:
            raise error(f"attempt {made}")
        return f"attempt {made}"

    return attempt


def is_passing(error: Exception) -> bool:
    return isinstance(error, Passing)


def test_what_failed_is_tried_again_and_said_with_pauses_in_between() -> None:
    waits: list[float] = []
    said: list[int] = []
    found = retry(
        failing(3),
        tries=5,
        pause=lambda failed: failed * 0.5,
        if_raised=is_passing,
        say=said.append,
        sleep=waits.append,
    )
    assert found == "attempt 4"
    assert waits == [0.5, 1.0, 1.5]
    assert said == [1, 2, 3]


def test_the_last_attempts_own_error_passes() -> None:
    with pytest.raises(Passing, match="attempt 3"):
        retry(failing(9), tries=3, pause=at_once, if_raised=is_passing)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_that_does_not_pass_by_itself_is_not_tried_again(error: type[BaseException]) -> None:
    with pytest.raises(error, match="attempt 1"):
        retry(failing(9, error), tries=3, pause=at_once, if_raised=is_passing)


def test_a_value_may_be_a_failure_too_and_the_last_one_is_returned() -> None:
    values = iter([1, 3, 5, 6])
    assert retry(lambda: next(values), tries=9, pause=at_once, if_returned=lambda value: value % 2 == 1) == 6
    values = iter([1, 3, 5, 6])
    assert retry(lambda: next(values), tries=3, pause=at_once, if_returned=lambda value: value % 2 == 1) == 5


def test_no_attempt_begins_after_the_time_given() -> None:
    with pytest.raises(Passing, match="attempt 1"):
        retry(failing(9), tries=9, pause=lambda _: 60.0, if_raised=is_passing, within_s=30.0)


def test_an_event_ends_the_waiting() -> None:
    closing = Event()
    closing.set()
    assert retry(failing(1), tries=2, pause=lambda _: 600.0, if_raised=is_passing, sleep=closing.wait) == "attempt 2"


def test_pauses_double_up_to_the_longest_and_differ_by_chance() -> None:
    steady = Doubling(first_s=0.2, longest_s=2.0, least=1.0, most=1.0)
    assert [steady(failed) for failed in (1, 2, 3, 4, 5, 5000)] == [0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    spread = Doubling(first_s=1.0, longest_s=60.0, least=0.75, most=1.25)
    drawn = [spread(3) for _ in range(200)]
    assert all(3.0 <= pause <= 5.0 for pause in drawn)
    assert len(set(drawn)) > 1
    assert all(0.0 <= up_to_a_fifth_more(5) <= 1.0 for _ in range(200))
