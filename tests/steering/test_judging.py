"""What a look at the cluster says of a command; whatever is seen, exactly one word is said of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenkeel.steering.premise import Look, Sight, effect_in_words, sight, why_stale
from tests.steering.commands import split, unload

BUNDLE = "acme/orders/0x40000000_0x80000000"
BOUNDS = (0, 0x40000000, 0x80000000, 0xFFFFFFFF)
A, B, C = "b1:8080", "b2:8080", "b3:8080"


def look(*owners: str, bounds: tuple[int, ...] | None = BOUNDS, silent: tuple[str, ...] = ()) -> Look:
    return Look(bounds, frozenset(owners), frozenset(silent))


@pytest.mark.parametrize(
    ("seen", "there"),
    [
        (look(A), Sight.UNTOUCHED),
        (look(B), Sight.EFFECT),
        (look(C), Sight.ELSEWHERE),
        (look(), Sight.UNOWNED),
        (look(silent=(C,)), Sight.UNKNOWN),
        (look(A, B), Sight.UNKNOWN),
        (look(B, C), Sight.UNKNOWN),
        (look(A, bounds=None), Sight.UNKNOWN),
        (look(A, bounds=()), Sight.GONE),
        (look(A, bounds=(0, 0x40000000, 0x60000000, 0x80000000, 0xFFFFFFFF)), Sight.GONE),
    ],
)
def test_an_unload_is_seen_by_who_owns_the_bundle(seen: Look, there: Sight) -> None:
    assert sight(unload(BUNDLE, A, B), seen) is there


@pytest.mark.parametrize(
    ("bounds", "there"),
    [
        (BOUNDS, Sight.UNTOUCHED),
        ((0, 0x40000000, 0x50000000, 0x80000000, 0xFFFFFFFF), Sight.EFFECT),
        ((0, 0x40000000, 0x50000000, 0x60000000, 0x80000000, 0xFFFFFFFF), Sight.EFFECT),
        ((0, 0x40000000, 0x60000000, 0x80000000, 0xFFFFFFFF), Sight.ELSEWHERE),
        ((0, 0x80000000, 0xFFFFFFFF), Sight.GONE),
        ((), Sight.GONE),
        (None, Sight.UNKNOWN),
    ],
)
def test_a_split_is_seen_by_the_boundaries(bounds: tuple[int, ...] | None, there: Sight) -> None:
    assert sight(split(BUNDLE, A, 0x50000000), look(A, bounds=bounds)) is there


def test_a_command_is_stale_for_a_reason_that_names_what_is_there_now() -> None:
    assert why_stale(unload(BUNDLE, A, B), look(A)) is None
    assert why_stale(split(BUNDLE, A, 0x50000000), look(A)) is None
    said = {
        "has left b1:8080 already and is on b3:8080": why_stale(unload(BUNDLE, A, B), look(C)),
        "has no owner": why_stale(unload(BUNDLE, A, B), look()),
        "no answer from b1:8080": why_stale(unload(BUNDLE, A, B), look(silent=(A,))),
        "b1:8080 and b2:8080 list it at once": why_stale(unload(BUNDLE, A, B), look(A, B)),
        "namespace acme/orders no longer exists": why_stale(unload(BUNDLE, A, B), look(bounds=())),
        "boundaries 0x40000000, 0x50000000, 0x80000000": why_stale(
            split(BUNDLE, A, 0x50000000), look(A, bounds=(0, 0x40000000, 0x50000000, 0x80000000, 0xFFFFFFFF))
        ),
        "is on b2:8080, and not on b1:8080 any more": why_stale(split(BUNDLE, A, 0x50000000), look(B)),
    }
    for words, reason in said.items():
        assert reason is not None
        assert words in reason


brokers = st.sampled_from([A, B, C])
looks = st.builds(
    Look,
    st.sampled_from([None, (), BOUNDS, (0, 0x40000000, 0x50000000, 0x80000000, 0xFFFFFFFF), (0, 0xFFFFFFFF)]),
    st.frozensets(brokers, max_size=3),
    st.frozensets(brokers, max_size=3),
)


@given(seen=looks, destination=st.one_of(st.none(), brokers), is_split=st.booleans())
def test_a_command_may_be_sent_only_where_nothing_has_changed(
    seen: Look, destination: str | None, is_split: bool
) -> None:
    command = split(BUNDLE, A, 0x50000000) if is_split else unload(BUNDLE, A, destination)
    reason = why_stale(command, seen)
    if reason is None:
        assert sight(command, seen) is Sight.UNTOUCHED
        assert seen.owners == {A}
    assert effect_in_words(command, seen)
