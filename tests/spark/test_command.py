"""The command line of the Connect server."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenkeel.spark.command import ServerSettings, server_command, young_megabytes


@pytest.mark.parametrize(
    ("memory", "young"), [("2g", 512), ("1G", 256), ("8g", 512), ("1500m", 375), ("64m", 64), ("1k", 64)]
)
def test_young_objects_have_a_quarter_of_the_heap_within_bounds(memory: str, young: int) -> None:
    assert young_megabytes(memory) == young


def test_settings_of_java_that_are_given_win(tmp_path: Path) -> None:
    command = server_command(15002, tmp_path, ServerSettings(memory="2g", java=("-Xmn96m",)))
    assert command.index("-Xmn512m") < command.index("-Xmn96m")


def test_a_brief_server_stops_at_the_first_compiler_tier_unless_it_is_told_otherwise(tmp_path: Path) -> None:
    first_tier, both = "-XX:TieredStopAtLevel=1", "-XX:TieredStopAtLevel=4"
    assert first_tier not in server_command(15002, tmp_path, ServerSettings())
    command = server_command(15002, tmp_path, ServerSettings(java=(both,)), brief=True)
    assert command.index(first_tier) < command.index(both)
