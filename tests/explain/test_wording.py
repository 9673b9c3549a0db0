from evenkeel.explain import wording
from evenkeel.explain.explanation import candidates_of, scored_by, strategy_of
from evenkeel.lake.record import Row
from evenkeel.model.amounts import quantity


def test_what_cannot_be_seen_is_written_out() -> None:
    assert wording.visible("a\u202eb\x00c\ud800d\ne 雪 é") == "a\\u202eb\\u0000c\\ud800d\\u000ae 雪 é"


def test_a_long_text_keeps_both_ends() -> None:
    short = wording.shortened("a" * 50 + "z" * 50, 30)
    assert len(short) == 30
    assert short.startswith("aaa")
    assert short.endswith("zzz")


def test_a_list_reads_as_a_sentence() -> None:
    assert [wording.listed(list(parts)) for parts in ("", "a", "ab", "abc")] == ["", "a", "a and b", "a, b and c"]


def test_scores_of_a_placement_are_shown_in_the_strategys_own_unit() -> None:
    row = {"outcome": "placed", "rule": "below_mean_usage", "subject": "t/n/0x00000000_0xffffffff",
           "destination": "b1:1", "broker": None, "sentence": "", "best": ["b1:1"], "changed_by_anti_affinity": False,
           "without_anti_affinity": "b1:1", "candidates": [
               {"broker": "b1:1", "removed_by": None, "score": 0.31},
               {"broker": "b2:1", "removed_by": "draining", "score": None},
           ]}  # fmt: skip
    scored, unit = scored_by("LeastResourceUsageWithWeight")
    first, second = candidates_of(row, "LeastResourceUsageWithWeight")
    assert (scored, quantity(first.score, unit)) == ("Average usage", "31.0 %")
    assert second.verdict == "ruled out: being emptied"
    nobody = {**row, "destination": None, "best": []}
    excluded = {**nobody, "rule": "in_turns_of_all_allowed"}
    for one, strategy in ((nobody, "RoundRobinBrokerSelector"), (excluded, "LeastResourceUsageWithWeight")):
        assert verdicts(one, strategy) == {"possible, not its turn", "ruled out: being emptied"}
    assert verdicts(nobody, "AvgShedder") == {"possible, not planned", "ruled out: being emptied"}


def verdicts(row: Row, strategy: str) -> set[str]:
    return {candidate.verdict for candidate in candidates_of(row, strategy)}


def test_a_wishs_candidates_were_scored_by_the_strategy_in_force() -> None:
    settings = [{"key": "loadBalancerLoadPlacementStrategy", "value": '"LeastResourceUsageWithWeight"'}]
    assert strategy_of({"strategy": "wish"}, settings) == "LeastResourceUsageWithWeight"
    assert strategy_of({"strategy": "RoundRobinBrokerSelector"}, settings) == "RoundRobinBrokerSelector"
