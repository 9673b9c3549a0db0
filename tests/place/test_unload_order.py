"""Java's order of names in a HashMap, and of unloads by it."""

from evenkeel.place.modular_placement import hash_order, in_pulsars_order, java_hash


def test_names_hash_as_in_java() -> None:
    assert [java_hash(text) for text in ("", "a", "hello", "b10:8080")] == [0, 97, 99162322, 964208073]


def test_names_come_by_bucket_and_by_name_within_one() -> None:
    """ "Aa" and "BB" share their hash; a table that has grown keeps its size."""
    assert hash_order(["BB", "Aa", "a"]) == ["Aa", "BB", "a"]
    names = [f"b{n}:8080" for n in range(1, 11)]
    assert hash_order(names) == [f"b{n}:8080" for n in (1, 10, 9, 4, 6, 5, 8, 2, 3, 7)]
    assert hash_order(names, most=13) == [f"b{n}:8080" for n in (9, 6, 5, 8, 3, 1, 10, 4, 2, 7)]


def test_unloads_are_gone_through_in_the_order_of_javas_hash_map() -> None:
    unloads = [("t/a/1", "b1:8080"), ("t/b/9", "10.0.0.1:8080"), ("t/b/2", "10.0.0.1:8080"), ("t/c/3", "10.0.0.8:8080")]
    order = in_pulsars_order(unloads)
    assert [bundle for bundle, broker in order if broker == "10.0.0.1:8080"] == ["t/b/9", "t/b/2"]
    assert [broker for _, broker in order].index("10.0.0.8:8080") < [b for _, b in order].index("10.0.0.1:8080")
    assert sorted(order) == sorted(unloads)
    assert in_pulsars_order([]) == ()


def test_a_larger_hash_map_has_another_order() -> None:
    """Up to twelve keys Java's table has 16 places, and 32 after that: b1 then comes behind b3."""
    few = [("x", "b1:8080"), ("x", "b3:8080")]
    many = [*few, *(("x", f"other-{n}:8080") for n in range(11))]
    assert [broker for _, broker in in_pulsars_order(few)] == ["b1:8080", "b3:8080"]
    assert [b for _, b in in_pulsars_order(many) if b.startswith("b")] == ["b3:8080", "b1:8080"]
    assert [b for _, b in in_pulsars_order(many[:-1]) if b.startswith("b")] == ["b1:8080", "b3:8080"]
