"""The demo's folder: one demo at a time in each, a second one moves next door."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from evenkeel.errors import BadInput
from evenkeel.locks import held

NEIGHBOURS = 9
# Files of a demo; other files in the folder stay.
OWN = ("lake", "airflow", "report.html")


@dataclass(frozen=True, slots=True)
class DemoFolder:
    """The folder of one demo."""

    path: Path

    @property
    def lake(self) -> Path:
        """The folder of the demo's tables."""
        return self.path / "lake"

    @property
    def airflow(self) -> Path:
        """The home of the demo's Airflow."""
        return self.path / "airflow"

    @property
    def report(self) -> Path:
        """The demo's report page."""
        return self.path / "report.html"

    def clear(self) -> None:
        """Remove the files of an earlier demo."""
        for name in OWN:
            entry = self.path / name
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink(missing_ok=True)


@contextmanager
def taken(wanted: Path, *, move: bool = True) -> Iterator[DemoFolder]:
    """The wanted folder, or with `move` a free one beside it (`demo-2`, …), held until the `with` block ends."""
    places = [wanted, *(wanted.with_name(f"{wanted.name}-{n}") for n in range(2, NEIGHBOURS + 1))]
    for place in places if move else places[:1]:
        place.mkdir(parents=True, exist_ok=True)
        with held(place / ".lock") as is_held:
            if is_held:
                yield DemoFolder(place.resolve())
                return
    raise BadInput(f"{wanted} is in use by another demo; wait for it to end, or name another folder with --build")
