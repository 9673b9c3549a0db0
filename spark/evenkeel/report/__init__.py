"""The report: the decisions of a cycle with their reasons, as one HTML file that needs nothing else.

`gather` reads the lake; `chapters`, `decisions` and `headline` turn rows into sentences; `page` and `charts` show them.
"""

from __future__ import annotations

from pathlib import Path

from evenkeel.folders import write_below
from evenkeel.report.chapters import CycleReport, build_model
from evenkeel.report.gather import gather
from evenkeel.report.page import render

__all__ = ["CycleReport", "build_model", "build_report", "gather", "render"]


def build_report(
    lake: str | Path,
    *,
    cluster: str | None = None,
    cycle: str | None = None,
    out: str | Path,
    recording: str | Path | None = None,
) -> Path:
    """Write the report of a cycle to the file `out` and return its path.

    `cluster` None means all clusters. `cycle` is a time (UTC) or `latest`; None shows the newest cycle with decisions,
    and the page states it. `recording` is a folder with broker logs, for the comparison with Pulsar's own shedding;
    None looks in the source of the cycles' snapshots. Raises LakeError and NoSuchCycle.
    """
    path = Path(out)
    page = render(build_model(lake, gather(lake, cluster=cluster, cycle=cycle, recording=recording)))
    return write_below(path.parent, path.name, page)
