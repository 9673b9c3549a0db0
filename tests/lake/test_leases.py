"""Who has a cluster's lease, by clocks that differ: no live one is taken, none that is over keeps anybody waiting."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evenkeel.lake import controls
from evenkeel.lake.controls import Lease, give_back, leases, renew_leases, take_leases
from evenkeel.lake.store import Lake

pytestmark = pytest.mark.spark
LENGTH = timedelta(seconds=30)


class Publisher:
    """Takes leases by a clock that may be wrong."""

    def __init__(self, spark: Any, lake: Lake, name: str, patch: pytest.MonkeyPatch) -> None:
        self.spark, self.lake, self.name, self.patch = spark, lake, name, patch
        self.ahead = timedelta(0)

    def _by_own_clock(self, act: Callable[[], Any]) -> Any:
        ahead = self.ahead

        class Clock(datetime):
            @classmethod
            def now(cls, tz: Any = None) -> Any:
                return datetime.now(tz) + ahead

        with self.patch.context() as patched:
            patched.setattr(controls, "datetime", Clock)
            return act()

    def take(self, *stood_still: Lease) -> Lease:
        made = self._by_own_clock(
            lambda: take_leases(self.spark, self.lake, ["lab"], self.name, LENGTH, stood_still=stood_still)
        )
        return made["lab"]

    def renew(self) -> Lease:
        return self._by_own_clock(lambda: renew_leases(self.spark, self.lake, ["lab"], self.name, LENGTH))["lab"]

    def give_back(self) -> None:
        self._by_own_clock(lambda: give_back(self.spark, self.lake, ["lab"], self.name))


@pytest.fixture
def pair(
    spark: Any, empty_lake: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Publisher, Publisher]:
    lake = Lake(str(empty_lake(tmp_path / "lake")))
    return Publisher(spark, lake, "one", monkeypatch), Publisher(spark, lake, "two", monkeypatch)


def test_a_live_lease_is_taken_by_nobody_whatever_their_clock_says(pair: tuple[Publisher, Publisher]) -> None:
    one, two = pair
    held = one.take()
    for seconds in (-3600, 31, 365 * 86_400):
        two.ahead = timedelta(seconds=seconds)
        assert two.take().holder == "one"
    assert leases(two.lake, ["lab"])["lab"].step == held.step


@pytest.mark.exhaustive
def test_a_lease_that_stood_still_is_taken_and_one_that_was_renewed_is_not(pair: tuple[Publisher, Publisher]) -> None:
    one, two = pair
    seen = one.take()
    renewed = one.renew()
    assert renewed.step != seen.step
    assert two.take(seen).holder == "one"
    taken = two.take(renewed)
    assert (taken.holder, taken.token, taken.before) == ("two", renewed.token + 1, renewed.until)
    assert one.renew().holder == "two", "who has lost it finds a higher token and renews nothing"
    assert one.take(renewed).holder == "two"


@pytest.mark.exhaustive
def test_a_lease_that_was_given_back_is_free_at_once(pair: tuple[Publisher, Publisher]) -> None:
    one, two = pair
    one.take()
    one.give_back()
    two.ahead = -timedelta(minutes=5)
    assert two.take().holder == "two"


def test_a_clock_that_is_set_back_makes_no_renewal_look_older(pair: tuple[Publisher, Publisher]) -> None:
    one, two = pair
    first = one.take()
    one.ahead = -timedelta(hours=1)
    again = one.renew()
    assert again.step > first.step
    assert again.until - again.at == LENGTH
    assert two.take(first).holder == "one"
    assert datetime.now(UTC) - again.at < timedelta(minutes=1)
