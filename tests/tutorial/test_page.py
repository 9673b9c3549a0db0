"""What a page's steps are, and what counts as a difference."""

import sys
from pathlib import Path

import pytest

from tests.tutorial.page import BrokenPage, differences, figures_in, figures_told, filled, run, steps_of

PAGE = """# Title

Read **3 moves** of **12,5 %**, and no 7.

```console
$ printf '%s\\n' \\
    one two
one
2 …
```

```sh
not run
```

```python
print("out", 1)
```

```text
out 1
```

```toml some.toml
key = 1
```
"""


def test_steps_stand_in_the_order_of_the_page() -> None:
    command, script, file = steps_of(PAGE)
    assert (command.kind, command.code, command.output) == ("console", "printf '%s\\n' \\\n    one two", ("one", "2 …"))
    assert (script.kind, script.code, script.output) == ("python", 'print("out", 1)', ("out 1",))
    assert (file.kind, file.name, file.code) == ("file", "some.toml", "key = 1\n")


def test_steps_run_as_they_are_written_and_print_their_lines(tmp_path: Path) -> None:
    command, script, file = steps_of(PAGE)
    assert run(command, tmp_path, {}) == ["one", "two"]
    assert run(script, tmp_path, {"PYTHONPATH": sys.path[0]}) == ["out 1"]
    assert run(file, tmp_path, {}) == []
    assert (tmp_path / "some.toml").read_text() == "key = 1\n"


def test_blank_lines_at_the_end_are_none(tmp_path: Path) -> None:
    (step,) = steps_of("```console\n$ printf 'a\\n\\nb \\n\\n'\n```\n")
    assert run(step, tmp_path, {}) == ["a", "", "b"]


def test_a_command_that_fails_says_what_it_said(tmp_path: Path) -> None:
    (step,) = steps_of("```console\n$ echo so >&2; exit 3\n```\n")
    with pytest.raises(BrokenPage, match="ended with 3:\nso"):
        run(step, tmp_path, {})


@pytest.mark.parametrize(
    ("shown", "printed", "different"),
    [
        (["moves 13"], ["moves 13"], 0),
        (["moves 13"], ["moves 12"], 1),
        (["in … s, moves 13"], ["in 2.5 s, moves 13"], 0),
        (["in … s, moves 13"], ["in 2.5 s, moves 12"], 1),
        (["…"], ["one", "two"], 1),
        (["one", "two"], ["one"], 1),
        (["1.5"], ["145"], 1),
    ],
)
def test_lines_are_compared_one_by_one(shown: list[str], printed: list[str], different: int) -> None:
    assert len(differences(shown, printed)) == different


def test_a_page_is_filled_in_with_what_was_printed_and_keeps_all_else() -> None:
    steps = steps_of(PAGE)
    same = [(step, step.output) for step in steps]
    assert filled(PAGE, same) == PAGE
    new = [(steps[0], ["a  plan 0123456789ab  5.1 s", "b", "c"]), (steps[1], ["out 2"])]
    text = filled(PAGE, new)
    assert [step.output for step in steps_of(text)] == [("a  plan …", "b", "c"), ("out 2",), ()]
    assert text.replace("a  plan …\nb\nc", "one\n2 …").replace("out 2", "out 1") == PAGE


def test_a_figure_is_taken_whole() -> None:
    assert figures_in("at 13:40 b-2 has 1,5.") == ["13:40", "2", "1,5"]


def test_figures_in_bold_are_found_outside_of_blocks() -> None:
    assert figures_told(PAGE) == ["3", "12,5"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("```python\n1\n```\n", "without a text block"),
        ("```console\necho\n```\n", "begins with a command"),
        ("```console\n$ a\n$ b\n```\n", "a second command"),
        ("```console\n$ a\n", "nothing ends"),
    ],
)
def test_a_page_that_cannot_be_run_says_where(text: str, why: str) -> None:
    with pytest.raises(BrokenPage, match=why):
        steps_of(text)
