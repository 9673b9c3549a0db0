"""One cluster's small answers as rows: everything of a snapshot that is broker- or bundle-sized."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evenkeel.pulsar.answers import RECORD_CHARACTERS, Kind, Rejection
from evenkeel.pulsar.broker_reports import REPORTED, Broker, brokers_answer, brokers_of, listed_brokers
from evenkeel.pulsar.bundle_ownership import ownership_of
from evenkeel.pulsar.cluster_policies import policies_of
from evenkeel.pulsar.namespace_bundles import namespaces_of
from evenkeel.pulsar.snapshot import Row, View

NO_BROKERS = "no_brokers"
NO_BROKER_ANSWERED = "no_broker_answered"


@dataclass(frozen=True, slots=True)
class Observed:
    """Rows per table (without cluster and cycle), what was set aside, and why the cluster is left out, if it is.

    `topic_figures` and `topic_lists` are the positions of the answers that count, for Spark to read; the lists stand in
    the lending snapshot where `lists_are_lent`. `superseded_figures` are long answers with topic figures that do not
    count. `topic_characters` is how much text the figures are.
    """

    rows: dict[str, list[Row]]
    rejections: tuple[Rejection, ...]
    left_out: Rejection | None
    topic_figures: tuple[int, ...]
    superseded_figures: tuple[int, ...]
    topic_lists: tuple[int, ...]
    lists_are_lent: bool
    topic_characters: int

    @property
    def policies(self) -> dict[str, Any]:
        """The sole row of `cluster_policies`."""
        return self.rows["cluster_policies"][0]


def observe(view: View) -> Observed:
    """All that the snapshot's broker- and bundle-sized answers tell of one cluster."""
    listed = listed_brokers(view)
    brokers = brokers_of(view)
    namespaces = namespaces_of(view)
    ownership = [row for broker in brokers for row in ownership_of(broker, view.rejections)]
    rows = {
        "broker_reports": [broker.row for broker in brokers],
        "namespace_bundles": namespaces,
        "bundle_ownership": ownership,
        "cluster_policies": [policies_of(view, brokers, listed or [], namespaces)],
    }
    left_out = _left_out(view, listed, brokers)
    lists = view.topic_list_source()[0]
    long = [answer for answer in view.own.every(Kind.TOPIC_FIGURES) if answer.size > RECORD_CHARACTERS]
    figures = [answer for _, answer in view.own.each(Kind.TOPIC_FIGURES) if answer.status == 200]
    return Observed(
        rows,
        tuple(dict.fromkeys([*view.rejections, *([left_out] if left_out else [])])),
        left_out,
        tuple(sorted(answer.n for answer in figures)),
        tuple(sorted(answer.n for answer in long if answer not in figures)),
        tuple(sorted(answer.n for _, answer in lists.each(Kind.TOPIC_LIST) if answer.status == 200)),
        lists is view.lent,
        sum(answer.size for answer in figures),
    )


def _left_out(view: View, listed: list[str] | None, brokers: list[Broker]) -> Rejection | None:
    answer = brokers_answer(view)
    if not listed:
        told = "its list of brokers is empty" if listed is not None else "no list of its brokers could be read"
        reason = f"{told}: nothing is known of the cluster; check that a broker answers and take a new snapshot"
        return Rejection("cluster_policies", "list of brokers", NO_BROKERS, reason, answer.body if answer else None)
    if not any(broker.state == REPORTED for broker in brokers):
        states = ", ".join(f"{broker.name}: {broker.row['state_reason']}" for broker in brokers[:5])
        reason = (
            f"none of {len(brokers)} brokers told its figures ({states}); check the brokers and take a new snapshot"
        )
        return Rejection("broker_reports", "all brokers", NO_BROKER_ANSWERED, reason, None)
    return None
