"""Java's order of names in a HashMap."""

from __future__ import annotations

from evenkeel.shed.unload_order import hash_order, java_hash


def test_names_hash_as_in_java() -> None:
    assert [java_hash(text) for text in ("", "a", "hello", "b10:8080")] == [0, 97, 99162322, 964208073]


def test_names_come_by_bucket_and_by_name_within_one() -> None:
    """ "Aa" and "BB" share their hash; a table that has grown keeps its size."""
    assert hash_order(["BB", "Aa", "a"]) == ["Aa", "BB", "a"]
    names = [f"b{n}:8080" for n in range(1, 11)]
    assert hash_order(names) == [f"b{n}:8080" for n in (1, 10, 9, 4, 6, 5, 8, 2, 3, 7)]
    assert hash_order(names, most=13) == [f"b{n}:8080" for n in (9, 6, 5, 8, 3, 1, 10, 4, 2, 7)]
