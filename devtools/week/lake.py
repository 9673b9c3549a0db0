"""The lake of the week: snapshots, decisions in windows, heat tables. Made once; an interrupted build continues."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from devtools.week.clusters import CLUSTERS, moments
from devtools.week.course import MESSAGE_BYTES, course
from devtools.week.documents import Teller
from evenkeel.cli import main as evenkeel
from evenkeel.errors import EvenkeelError
from evenkeel.spark.server import Engine

NOTE = "generated: devtools/week"


class WeekError(EvenkeelError):
    """The week could not be made; the error was printed."""


@dataclass(frozen=True, slots=True)
class WeekFolder:
    """The folder of the week: `lake`, `configuration` (the clusters as Evenkeel knows them) and recordings."""

    folder: Path

    @property
    def lake(self) -> Path:
        """The tables."""
        return self.folder / "lake"

    @property
    def configuration(self) -> Path:
        """The file that names the clusters."""
        return self.folder / "evenkeel.toml"

    @property
    def is_made(self) -> bool:
        """Return True if all of it exists."""
        return self._made.exists()

    @property
    def _made(self) -> Path:
        return self.folder / "week-is-made"

    def make(self, engine: Engine, say: Callable[[str], None], at: Sequence[datetime] | None = None) -> None:
        """Make the missing part, of all moments or of the given ones. Raises WeekError if a step fails."""
        at = moments() if at is None else at
        recordings = self.folder / "recordings"
        say(f"writing {len(at)} snapshots of each of {len(CLUSTERS)} clusters")
        for spec in CLUSTERS:
            if len([*(recordings / spec.name).glob("*.json.gz")]) < len(at):
                Teller(spec.name, NOTE, MESSAGE_BYTES).write(recordings / spec.name, course(spec, at))
        lines = [f'[clusters.{spec.name}]\nrecording = "{recordings / spec.name}"\n' for spec in CLUSTERS]
        self.configuration.write_text("\n".join(lines), encoding="utf-8")
        say("deciding them in windows")
        self._run(engine, "rebalance", "--config", str(self.configuration), "--lake", str(self.lake), "--all")
        say("building the heat tables")
        self._run(engine, "heat", "--lake", str(self.lake))
        self._made.touch()

    def _run(self, engine: Engine, *words: str) -> None:
        before = os.environ.get("EVENKEEL_SPARK")
        os.environ["EVENKEEL_SPARK"] = engine.url
        try:
            if evenkeel(words) != 0:
                raise WeekError(f"`evenkeel {' '.join(words)}` failed; start again to go on where it stopped")
        finally:
            if before is None:
                del os.environ["EVENKEEL_SPARK"]
            else:
                os.environ["EVENKEEL_SPARK"] = before
