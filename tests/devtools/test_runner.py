"""The conformance command: its lines, what it shows, and how it ends."""

import gzip
import io
import json
from pathlib import Path
from typing import Any

from devtools.conformance.comparing import same
from devtools.conformance.runner import main

RIGHT = {"id": "hash-1", "op": "hash", "input": {"topic": "my-topic"}}
ANSWER = {
    "name": "persistent://public/default/my-topic",
    "namespace": "public/default",
    "domain": "persistent",
    "partition": -1,
    "hash": 0x2BAD45F7,
}


def run(*arguments: object) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    return main([str(a) for a in arguments], out, err), out.getvalue(), err.getvalue()


def written(path: Path, *cases: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(case) + "\n" for case in cases))
    return path


def right(number: int = 1) -> dict[str, Any]:
    return {**RIGHT, "id": f"hash-{number}", "output": ANSWER}


def wrong(number: int) -> dict[str, Any]:
    return {**RIGHT, "id": f"hash-{number}-wrong", "output": {**ANSWER, "hash": 1}}


def test_agreeing_cases_give_one_line_per_operation_and_exit_0(tmp_path: Path) -> None:
    written(tmp_path / "b.jsonl", right())
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as file:
        file.write(json.dumps({"id": "t", "op": "no_such_operation", "input": {}, "output": {}}) + "\n")
    code, out, err = run(tmp_path)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "hash: 1 of 1 agree (0 not implemented)",
        "no_such_operation: 0 of 0 agree (1 not implemented)",
    ]


def test_the_first_three_disagreements_are_shown_and_exit_1(tmp_path: Path) -> None:
    file = written(tmp_path / "cases.jsonl", right(), *(wrong(n) for n in range(2, 7)))
    code, out, _ = run(file)
    assert code == 1
    assert out.splitlines()[0] == "hash: 1 of 6 agree (0 not implemented)"
    assert [line for line in out.splitlines() if line.endswith("-wrong")] == [f"hash-{n}-wrong" for n in (2, 3, 4)]
    assert "my-topic" in out
    assert f'"hash": {0x2BAD45F7}' in out
    assert "2 more disagreements" in out


def test_an_error_agrees_with_an_error_only(tmp_path: Path) -> None:
    bad = {"op": "hash", "input": {"topic": "a/b"}}
    agrees = written(tmp_path / "a.jsonl", {**bad, "id": "x", "error": "IllegalArgumentException: whatever"})
    assert run(agrees)[0] == 0
    assert run(written(tmp_path / "b.jsonl", {**bad, "id": "x", "output": {}}))[0] == 1
    assert run(written(tmp_path / "c.jsonl", {**RIGHT, "error": "IllegalArgumentException: whatever"}))[0] == 1


def test_an_unknown_setting_is_an_error_also_one_of_evenkeels_own(tmp_path: Path) -> None:
    for name in ("loadBalancerNoSuchKey", "evenkeelSheddingEnabled"):
        case = {"id": "u", "op": "usage", "input": {"config": {name: 1}, "samples": []}, "output": {"samples": []}}
        code, out, _ = run(written(tmp_path / "cases.jsonl", case))
        assert code == 1
        assert name in out


def test_a_defect_in_one_case_does_not_hide_the_others(tmp_path: Path) -> None:
    broken = {"id": "broken", "op": "hash", "input": {}, "output": ANSWER}
    code, out, _ = run(written(tmp_path / "cases.jsonl", broken, right()))
    assert code == 1
    assert "hash: 1 of 2 agree" in out
    assert "KeyError" in out


def test_unreadable_cases_exit_2_and_say_where(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    empty = tmp_path / "empty"
    empty.mkdir()
    blank = written(tmp_path / "blank.jsonl")
    page = tmp_path / "page.jsonl"
    page.write_text(json.dumps(right()) + "\n<html>\n")
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(json.dumps(right()).encode() * 1000)[:-20])
    other = written(tmp_path / "other.jsonl", {"id": "x"})
    unanswered = written(tmp_path / "unanswered.jsonl", {**RIGHT})
    wanted = [
        (missing, "missing"),
        (empty, "empty"),
        (blank, "blank.jsonl"),
        (page, "page.jsonl:2"),
        (cut, "cut.jsonl.gz"),
    ]
    wanted += [(other, "other.jsonl:1"), (unanswered, "unanswered.jsonl:1")]
    for path, named in wanted:
        code, out, err = run(path)
        assert (code, out) == (2, ""), path
        assert named in err
        assert "Traceback" not in err


def test_without_arguments_it_says_how_to_use_it() -> None:
    code, _, err = run()
    assert code == 2
    assert err.startswith("usage:")


def test_numbers_compare_to_a_relative_1e_12_and_all_else_exactly() -> None:
    assert same(0.1 + 0.2, 0.3)
    assert not same(0.3000001, 0.3)
    assert same({"a": [1, "x", None]}, {"a": [1, "x", None]})
    assert not same([1, 2], [2, 1])
    assert not same(True, 1)
    assert not same(1, True)
    assert not same({"a": 1}, {"a": 1, "b": None})
    assert same("NaN", float("nan"))
    assert not same("NaN", 0.0)
    assert not same(0.0, "0.0")
