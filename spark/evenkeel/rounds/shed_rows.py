"""What the shedding rounds of both load managers have in common."""

from __future__ import annotations

from evenkeel.decisions.considered import Considered, considered
from evenkeel.rounds import reading
from evenkeel.rounds.reading import Rows


def silent_brokers(rows: Rows) -> list[Considered]:
    """Brokers that cannot be decided on: what they carry is not known, and so never counts as nothing."""
    usable = {row["broker"] for row in reading.usable_reports(rows)}
    silent = sorted(row["broker"] for row in rows["broker_load"] if row["broker"] not in usable)
    return [considered(broker, "broker", broker, "skipped", "no_report") for broker in silent]
