"""Witnesses as operators name them."""

from pathlib import Path

import pytest

from evenkeel.errors import SettingsError
from evenkeel.transparency.witnesses import witnesses_from_environment, witnesses_of
from tests.transparency.logs import LOG_KEY, WITNESS_KEY


def test_witnesses_stand_one_a_line_in_a_text_or_a_file(tmp_path: Path) -> None:
    line = f"{WITNESS_KEY.verifier.text} http://127.0.0.1:7380"
    text = f"# ours\n{line}\n\n/mnt/elsewhere/checkpoints.jsonl\n"
    (tmp_path / "witnesses").write_text(text)
    found = witnesses_of(text, "here")
    assert [one.name for one in found] == ["http://127.0.0.1:7380", "/mnt/elsewhere/checkpoints.jsonl"]
    assert found[0].address is not None
    assert found[0].address.keys == (WITNESS_KEY.verifier,)
    assert found[1].path == Path("/mnt/elsewhere/checkpoints.jsonl")
    assert witnesses_from_environment({"EVENKEEL_WITNESSES": f"file:{tmp_path / 'witnesses'}"}) == found
    assert witnesses_from_environment({"EVENKEEL_WITNESSES": f"{line},/mnt/elsewhere/checkpoints.jsonl"}) == found
    assert witnesses_from_environment({}) == ()


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("http://127.0.0.1:7380", "a line is"),
        (f"{LOG_KEY.verifier.text} http://127.0.0.1:7380", "one of a log"),
        (f"{WITNESS_KEY.verifier.text[:-2]} http://127.0.0.1:7380", "cannot be read"),
        (f"{WITNESS_KEY.verifier.text} ftp://127.0.0.1", "a line is"),
        ("/a\n/a", "twice"),
        ("file:/nowhere/at/all", "cannot be read: No such file"),
    ],
)
def test_a_witness_that_cannot_be_one_is_named(text: str, fault: str) -> None:
    with pytest.raises(SettingsError, match=fault):
        witnesses_of(text, "EVENKEEL_WITNESSES")
