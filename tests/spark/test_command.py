"""The command line of the Connect server."""

from pathlib import Path

import pytest

from evenkeel.spark.command import ServerSettings, server_command


@pytest.mark.parametrize(
    ("memory", "young", "tight"),
    [
        *(("2g", 512, True), ("1G", 256, True), ("1500m", 375, True), ("64m", 64, True), ("1k", 64, True)),
        *(("3g", 768, False), ("8g", 768, False)),
    ],
)
def test_young_objects_have_a_quarter_of_the_heap_and_a_large_heap_keeps_what_it_used(
    tmp_path: Path, memory: str, young: int, tight: bool
) -> None:
    command = server_command(15002, tmp_path, ServerSettings(memory=memory))
    assert f"-Xmn{young}m" in command
    assert any(option.startswith("-XX:MaxHeapFreeRatio") for option in command) is tight


def test_settings_of_java_that_are_given_win(tmp_path: Path) -> None:
    command = server_command(15002, tmp_path, ServerSettings(memory="2g", java=("-Xmn96m",)))
    assert command.index("-Xmn512m") < command.index("-Xmn96m")


def test_a_brief_server_stops_at_the_first_compiler_tier_unless_it_is_told_otherwise(tmp_path: Path) -> None:
    first_tier, both = "-XX:TieredStopAtLevel=1", "-XX:TieredStopAtLevel=4"
    assert first_tier not in server_command(15002, tmp_path, ServerSettings())
    command = server_command(15002, tmp_path, ServerSettings(java=(both,)), brief=True)
    assert command.index(first_tier) < command.index(both)
