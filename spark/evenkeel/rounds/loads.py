"""The load of a cluster as shedding and placement see it."""

from __future__ import annotations

from evenkeel.decisions.load import LoadData
from evenkeel.rounds import reading
from evenkeel.rounds.reading import Rows


def load_of(rows: Rows) -> LoadData:
    """Reports, histories and averages; a bundle that was chosen for a split has lost its history, as in Pulsar 4.x."""
    brokers = reading.broker_reports(rows)
    gone = {row["subject"] for row in rows["split_decisions"] if row["outcome"] == "split"}
    known = {bundle: history for bundle, history in reading.histories(rows).items() if bundle not in gone}
    return LoadData(brokers=brokers, histories=known, averages=reading.averages_of(brokers, known))
