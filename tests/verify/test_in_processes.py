"""What cannot be decided again from files is left to Spark, and said with the file and the error."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from evenkeel.verify.in_processes import _INPUTS, CameOut, Deciding, FromFiles


@pytest.mark.parametrize("broken", [True, False], ids=["no Parquet", "gone"])
def test_a_file_that_cannot_be_read_is_named_with_what_is_wrong_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, broken: bool
) -> None:
    file = tmp_path / "part.parquet"
    if broken:
        file.write_bytes(b"PAR1 not quite")
    files = {name: ((str(file), "w"),) if name == "bundle_load" else () for name in _INPUTS}
    cycle = {"cluster": "lab", "cycle_at": "2026-11-21T08:24:23.371000+00:00"}
    deciding = Deciding()
    deciding.here.append(FromFiles("a1", cycle, {}, files, None, needs_topics=False, to_the_word=True))
    with caplog.at_level(logging.WARNING):
        assert deciding.came_out() == CameOut()
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith(f"lab at {cycle['cycle_at']} could not be decided again from its files, and is left")
    assert said.endswith(f", in the file {file}")
    assert "Error: " in said or "ArrowInvalid: " in said
    assert "\n" not in said
