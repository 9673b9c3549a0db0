"""The sink that sends nothing: commands stay on record, and that is all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evenkeel.sinks import Outcome, Stop, Told


class DryRun:
    """Notes each command as not sent, at its cycle's time: no clock, so a re-run notes the same."""

    def send(self, commands: Sequence[Mapping[str, Any]], *, stop: Stop, told: Told) -> None:
        """One outcome `dry_run` per command; there is nothing to be stopped."""
        for command in commands:
            told(Outcome(command["command_id"], "dry_run", command["cycle_at"], "dry run: recorded and not sent"))
