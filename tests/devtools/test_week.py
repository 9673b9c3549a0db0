"""The week of generated clusters: figures that fit together, and the incident that is told of it."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from devtools.week.clusters import BILLING, CLUSTERS, HOT, IOT, SHOP, TUESDAY, moments
from devtools.week.course import GeneratedCluster, Surge, course
from devtools.week.documents import GeneratedMoment, Teller
from evenkeel.pulsar.answers import Answer, Answers
from evenkeel.pulsar.observed_rows import observe
from evenkeel.pulsar.snapshot import SnapshotView
from evenkeel.sources.snapshot_files import utc
from tests.snapshot_lines import requests_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def weeks() -> dict[str, list[GeneratedMoment]]:
    return {spec.name: [*course(spec, moments())] for spec in CLUSTERS}


def changes(found: Sequence[GeneratedMoment]) -> list[tuple[GeneratedMoment, set[str]]]:
    """Each moment at which bundles have another owner than before, and those bundles."""
    moved = (
        (now, {bundle for bundle in now.owners if now.owners[bundle] != was.owners.get(bundle, now.owners[bundle])})
        for was, now in pairwise(found)
    )
    return [(now, bundles) for now, bundles in moved if bundles]


def test_the_week_is_six_days_by_the_hour_and_a_tuesday_in_five_minutes() -> None:
    at = moments()
    assert (len(at), at[-1] - at[0]) == (6 * 24 + 288, timedelta(days=7, minutes=-5))
    assert TUESDAY.weekday() == 1


def test_the_hot_bundle_is_chased_around_that_afternoon_and_at_no_other_time(
    weeks: dict[str, list[GeneratedMoment]],
) -> None:
    chased = [now.at for now, bundles in changes(weeks[SHOP.name]) if HOT in bundles]
    assert len(chased) > 10
    assert all(TUESDAY + timedelta(hours=12) <= at <= TUESDAY + timedelta(hours=17) for at in chased)


def test_a_broker_that_is_down_owns_nothing_and_its_bundles_are_owned_by_others_at_the_next_moment(
    weeks: dict[str, list[GeneratedMoment]],
) -> None:
    found = weeks[IOT.name]
    for broker, first, last in IOT.down:
        gone = [one for one in found if first <= (one.at - found[0].at) / timedelta(hours=1) <= last]
        assert gone
        assert all(broker not in one.usage and broker not in one.owners.values() for one in gone)
        assert len(gone[0].owners) < len(gone[0].bundles)
        assert len(gone[1].owners) == len(gone[1].bundles)


def test_the_busiest_bundle_of_billing_is_split_on_the_first_day_and_once_more(
    weeks: dict[str, list[GeneratedMoment]],
) -> None:
    split = [now.at.day for was, now in pairwise(weeks[BILLING.name]) if len(now.bundles) > len(was.bundles)]
    assert set(split) == {11, 16}


def test_the_same_seed_is_the_same_week() -> None:
    at = moments(days=1, last=4)
    assert [*course(SHOP, at)] == [*course(SHOP, at)]


def test_a_surge_comes_and_goes_within_an_eighth_of_its_time() -> None:
    surge = Surge("a/b/0x00000000_0xffffffff", 8.0, 16.0, 3.0)
    assert [surge.level(hours) for hours in (7.9, 8.0, 8.5, 9.0, 15.0, 15.5, 16.0, 17.0)] == [
        1.0, 1.0, 2.0, 3.0, 3.0, 2.0, 1.0, 1.0,
    ]  # fmt: skip


@pytest.mark.parametrize("spec", CLUSTERS, ids=lambda spec: spec.name)
def test_a_snapshot_is_taken_as_one_of_a_real_cluster(spec: GeneratedCluster, tmp_path: Path) -> None:
    (file,) = Teller(spec.name, "a test", 1_024.0).write(tmp_path, course(spec, moments(days=0, last=1)))
    own = Answers(
        Answer(n, one["broker"], one["path"], one["status"], one["body"], utc(one["at"]), None)
        for n, one in enumerate(requests_of(file))
    )
    observed = observe(SnapshotView(spec.name, "0000", TUESDAY, TUESDAY, own, Answers(()), None))
    assert observed.rejections == ()
    assert len(observed.rows["bundle_ownership"]) == sum(bundles for bundles, _ in spec.namespaces.values())
