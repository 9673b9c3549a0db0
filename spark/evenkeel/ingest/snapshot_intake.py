"""Taking in one cluster's snapshot: what can be read, what is set aside, which settings hold, why it is left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evenkeel.errors import BadInput, SettingsError
from evenkeel.handover import ClusterCycle
from evenkeel.lake.schemas import TABLES
from evenkeel.pulsar.answers import (
    BEYOND_LIMIT,
    HTML_PAGE,
    MOST_REJECTIONS,
    UNREADABLE_JSON,
    Answers,
    Kind,
    Rejection,
)
from evenkeel.pulsar.limits import DEFAULT, BeyondLimit, Limits
from evenkeel.pulsar.observed_rows import ObservedRows, observe
from evenkeel.pulsar.snapshot import CLASSES, SnapshotView, own_cluster, times_that_do_not_fit
from evenkeel.pulsar.topic_stats import UNREADABLE_TOPIC, listed_topics, loaded_topics, sightings, topic_stats
from evenkeel.settings import Detected, EffectiveSettings, resolve
from evenkeel.sources.landed import LENT, OWN, CollectedAnswers, Landed, open_landed
from evenkeel.spark.session import keep
from evenkeel.spark.sql import any_of, first_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


UNREADABLE_SNAPSHOT = "unreadable_snapshot"
BROKEN_PART = "broken_part"
UNREADABLE_REQUEST = "unreadable_request"
REFUSED_SETTINGS = "refused_settings"
ODD_SETTING = "odd_setting"
_ROW_BYTES = 1_500


@dataclass
class SnapshotIntake:
    """One cluster while it is taken in. `rejections` stand with the file they were found in; `failed` marks a cluster
    that an operator's override keeps out from one whose snapshot does. `held` is what its rows and the texts in
    them take in this process, in bytes.
    """

    cycle: ClusterCycle
    own: Landed | None = None
    lent: Landed | None = None
    observed: ObservedRows | None = None
    settings: EffectiveSettings | None = None
    rejections: list[tuple[str, Rejection]] = field(default_factory=list)
    left_out: str | None = None
    failed: bool = False
    held: int = 0

    @property
    def limits(self) -> Limits:
        """How much is read of the cluster at most."""
        return Limits(**self.cycle.limits) if self.cycle.limits is not None else DEFAULT

    @property
    def cluster(self) -> str:
        """The name of the cluster."""
        return self.cycle.cluster

    @property
    def manager(self) -> str | None:
        """The operator's word, else what the brokers showed."""
        if self.settings is not None and self.settings.settings.evenkeelManager != "auto":
            return self.settings.settings.manager
        return str(self.observed.policies["manager"]) if self.observed is not None else None

    def file(self, source: str) -> str:
        """The file of the snapshot's own or lent answers."""
        landed = self.lent if source == LENT else self.own
        return str(landed.path) if landed is not None else self.cycle.snapshot.path

    def refuse(self, rejection: Rejection, file: str | None = None) -> None:
        """Sets an answer aside, found in `file` or else in the cycle's own snapshot."""
        self.rejections.append((file or self.cycle.snapshot.path, rejection))

    def leave_out(self, reason: str, *, failed: bool = False) -> None:
        """Of several reasons the first counts."""
        if self.left_out is None:
            self.left_out, self.failed = reason, failed


def opened(cycle: ClusterCycle) -> SnapshotIntake:
    """Looks whether the cycle's snapshot, and the one that lends configuration and topic lists, can be read at all."""
    intake = SnapshotIntake(cycle)
    for file, place, reason in cycle.unreadable:
        intake.refuse(Rejection("raw_answers", place, UNREADABLE_SNAPSHOT, reason, None), file)
    path, lender = cycle.snapshot.path, cycle.snapshot.configuration_path
    try:
        intake.own = open_landed(path, intake.limits)
    except BadInput as error:
        intake.refuse(_unreadable(error), path)
        intake.leave_out(f"the snapshot {path} cannot be read: {error}")
        return intake
    if lender is not None and lender != path:
        try:
            intake.lent = open_landed(lender, intake.limits)
        except BadInput as error:
            intake.refuse(_unreadable(error, "; configuration and topic lists are unknown in this cycle"), lender)
    for landed in (intake.own, intake.lent):
        for part, reason in landed.broken_parts if landed is not None else ():
            intake.refuse(Rejection("raw_answers", "end of file", BROKEN_PART, reason, None), str(part))
    return intake


def look_at(intake: SnapshotIntake, collected: CollectedAnswers) -> None:
    """Reads the small answers, resolves the settings and judges whether the snapshot can be decided on."""
    path = intake.cycle.snapshot.path
    if collected.beyond is not None:
        intake.refuse(_beyond("raw_answers", "snapshot", collected.beyond))
        intake.leave_out(f"the snapshot {path} is not read: {collected.beyond}")
        return
    for row in collected.unread[:MOST_REJECTIONS]:
        _refuse_request(intake, row)
    if len(collected.unread) > MOST_REJECTIONS:
        reason = (
            f"{len(collected.unread):,} of its requests cannot be read; the first {MOST_REJECTIONS:,} are on record"
        )
        intake.refuse(Rejection("raw_answers", "snapshot", UNREADABLE_REQUEST, reason, None))
    if OWN not in collected.answers:
        reason = "it holds no request that can be read: `requests` is empty, or the JSON is malformed inside"
        intake.refuse(_unreadable(reason))
        intake.leave_out(f"the snapshot {path} cannot be read: {reason}")
    view = _view(intake, collected.answers)
    try:
        intake.observed = observe(view)
    except BeyondLimit as error:
        intake.refuse(_beyond("raw_answers", "snapshot", str(error)))
        intake.leave_out(f"the snapshot {path} is not read: {error}")
        return
    intake.held = collected.size + _ROW_BYTES * sum(len(rows) for rows in intake.observed.rows.values())
    for rejection in intake.observed.rejections:
        intake.refuse(rejection)
    if intake.observed.left_out is not None:
        intake.leave_out(intake.observed.left_out.reason)
    _settle(intake)
    if intake.settings is None:
        return
    misfit = times_that_do_not_fit(view, intake.settings.settings.evenkeelFutureToleranceSeconds)
    if misfit is not None:
        intake.refuse(misfit)
        intake.leave_out(misfit.reason)


def mark_unreadable_figures(intake: SnapshotIntake, brokers: set[str]) -> None:
    """Topic figures of these brokers came and could not be read: they are unknown, not none."""
    for row in intake.observed.rows["broker_reports"] if intake.observed is not None else ():
        if row["broker"] in brokers:
            row["has_topic_figures"] = False


def leave_out_the_largest(intakes: Sequence[SnapshotIntake]) -> None:
    """Leaves out the clusters that take the most of this process, until the others fit into it (`run_mib`)."""
    limits = max((intake.limits for intake in intakes), key=lambda each: each.run_mib)
    while (together := sum(intake.held for intake in intakes)) > limits.bytes_of("run_mib"):
        largest = max(intakes, key=lambda intake: (intake.held, intake.cluster))
        what = f"its rows and their texts take {largest.held:,} bytes, and those of all clusters {together:,}"
        reason = limits.beyond("run_mib", what, "give it a run of its own, see what answers in the brokers' place")
        largest.refuse(_beyond("raw_answers", "snapshot", reason))
        largest.leave_out(f"the snapshot {largest.cycle.snapshot.path} is not read: {reason}")
        largest.observed, largest.settings, largest.held = None, None, 0


def leave_out_topics(intake: SnapshotIntake, count: int) -> None:
    """Leaves a cluster out whose answers name more topics than its limit allows."""
    advice = "see what answers in the brokers' place"
    reason = intake.limits.beyond("topics", f"its answers name {count:,} topics", advice)
    intake.refuse(_beyond("topic_stats", "topic figures", reason))
    intake.leave_out(f"the snapshot {intake.cycle.snapshot.path} is not read: {reason}")


def _view(intake: SnapshotIntake, answers: dict[str, Answers]) -> SnapshotView:
    assert intake.own is not None
    own = answers.get(OWN, Answers(()))
    lent = answers.get(LENT, Answers(()))
    header, age = intake.own.header, None
    if intake.lent is not None:
        age = (header.finished_at - intake.lent.header.finished_at).total_seconds()
    name = _pulsar_name(intake.cluster, own, lent)
    return SnapshotView(
        name, str(intake.own.path), header.started_at, header.finished_at, own, lent, age, limits=intake.limits
    )


def _pulsar_name(cluster: str, own: Answers, lent: Answers) -> str:
    """The cluster's name in Pulsar, which its paths carry; a run may know it under another name."""
    answer = own.about(Kind.CLUSTERS)
    body = answer.body if answer is not None and answer.status == 200 else None
    configurations = [found for answers in (own, lent) for _, found in answers.each(Kind.CONFIGURATION)]
    configuration = next((found.body for found in configurations if found.status == 200), None)
    for wanted in (cluster, None):
        try:
            return own_cluster(body, configuration, wanted, where="the snapshot")
        except BadInput:
            continue
    return cluster


def _settle(intake: SnapshotIntake) -> None:
    """Settings in force: an override over the leader's runtime configuration over the defaults."""
    assert intake.observed is not None
    policies = intake.observed.policies
    versions = [row.get("pulsar_version") for row in intake.observed.rows["broker_reports"]]
    try:
        settings = resolve(
            observed=configuration_of(policies),
            overrides=intake.cycle.overrides,
            generation=Detected(policies["generation"], tuple(versions)),
        )
    except SettingsError as error:
        intake.refuse(Rejection("settings", "overrides", REFUSED_SETTINGS, str(error), None))
        intake.leave_out(f"the settings given for {intake.cluster} are refused: {error}", failed=True)
        return
    intake.settings = settings
    for n, problem in enumerate(settings.problems):
        place = f"configuration of {policies['configuration_broker']}, problem {n + 1}"
        intake.refuse(Rejection("settings", place, ODD_SETTING, problem, None))


def configuration_of(policies: Mapping[str, Any]) -> dict[str, str]:
    """The configuration, with the load manager that the brokers show to run: the file may be of an earlier snapshot."""
    shown = {"loadManagerClassName": CLASSES[policies["manager"]]} if policies["manager"] in CLASSES else {}
    return dict(policies["configuration"] or {}) | shown


def _refuse_request(intake: SnapshotIntake, row: Any) -> None:
    place = f"request {row['n']}"
    reason = f"{place} cannot be read as a request; whatever was answered to it is unknown in this cycle"
    intake.refuse(
        Rejection("raw_answers", place, UNREADABLE_REQUEST, reason, row["unread"]), intake.file(row["source"])
    )


def _unreadable(reason: str | BadInput, more: str = "") -> Rejection:
    rule = BEYOND_LIMIT if isinstance(reason, BeyondLimit) else UNREADABLE_SNAPSHOT
    return Rejection("raw_answers", "snapshot", rule, f"{reason}{more}", None)


def _beyond(table: str, place: str, reason: str) -> Rejection:
    return Rejection(table, place, BEYOND_LIMIT, reason, None)


# The frames that ingest appends: small rows from this process, topic-sized ones by Spark alone.

_REFUSED = ("cluster", "cycle_at", "n", "broker", "path", "topic", "refused", "rest")
_ONE_FILE_CHARACTERS = 32 << 20
# The least that a topic takes in an answer, as in `[1,2]`.
_TOPIC_CHARACTERS = 2
_REASONS = {
    HTML_PAGE: "it is an HTML page in place of JSON",
    UNREADABLE_JSON: "it is not JSON of the shape due, or ends too early",
    UNREADABLE_TOPIC: "this topic's name or object cannot be read; the others of the answer are kept",
}


def body_frame(spark: SparkSession, table: str, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """Rows of a table as a frame of one partition, hence one file; a column that a row lacks is NULL."""
    schema = TABLES[table].body_type()
    names = schema.fieldNames()
    return spark.createDataFrame([tuple(_plain(row.get(name)) for name in names) for row in rows], schema).coalesce(1)


@dataclass(frozen=True, slots=True)
class TopicFrames:
    """Rows of topic_stats; topics and answers that are refused, if any; the answers refused as a whole."""

    topic_stats: DataFrame
    refused: DataFrame | None
    unreadable: tuple[tuple[str, int, str], ...]
    """cluster, n and broker of each."""
    too_many: Mapping[str, int]
    """Clusters that name more topics than they may, and how many; the frames hold nothing of theirs."""


def topic_frames(
    requests: DataFrame, apart: DataFrame, observed: Mapping[str, ObservedRows], most: Mapping[str, int]
) -> TopicFrames:
    """Reads the topics once; they stay with the server until the frames are gone. `most`: topics by cluster.

    They are needed three times: for the table, for what is refused, and to see which topic shows twice or nowhere.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions as F

    figures = [(cluster, OWN, found.topic_figures) for cluster, found in observed.items()]
    lists = [(c, LENT if found.lists_are_lent else OWN, found.topic_lists) for c, found in observed.items()]
    loaded = keep(loaded_topics(requests.where(_is_one_of(figures))), StorageLevel.DISK_ONLY)
    listed = listed_topics(apart.where(_is_one_of(lists))) if any(found for _, _, found in lists) else None
    too_many = _too_many(loaded, listed, observed, most)
    if too_many:
        loaded = loaded.where(~F.col("cluster").isin(list(too_many)))
        listed = listed.where(~F.col("cluster").isin(list(too_many))) if listed is not None else None
    odd = keep(sightings(loaded, listed))
    refused = loaded.where("refused is not null").select(*_REFUSED, F.lit(OWN).alias("source"))
    if listed is not None:
        lent = [cluster for cluster, found in observed.items() if found.lists_are_lent]
        source = F.when(F.col("cluster").isin(lent), F.lit(LENT)).otherwise(F.lit(OWN))
        refused = refused.unionByName(listed.where("refused is not null").select(*_REFUSED, source.alias("source")))
    where = ("cluster", "n", "broker", "source", "is_figures", F.col("topic").isNull().alias("as_a_whole"))
    is_figures = F.col("path").rlike("/broker-stats/topics").alias("is_figures")
    marks = refused.select("*", is_figures).select(*where).distinct().collect()
    unreadable = tuple(sorted((row[0], row[1], row[2]) for row in marks if row["as_a_whole"] and row["is_figures"]))
    topics = topic_stats(loaded, listed, odd)
    if sum(found.topic_characters for found in observed.values()) < _ONE_FILE_CHARACTERS:
        topics = topics.coalesce(1)
    return TopicFrames(topics, refused if marks else None, unreadable, too_many)


def _too_many(
    loaded: DataFrame, listed: DataFrame | None, observed: Mapping[str, ObservedRows], most: Mapping[str, int]
) -> dict[str, int]:
    """Clusters with more topics than they may have, in figures or in lists. They are counted only where their text has
    room for so many."""
    from pyspark.sql import functions as F

    suspects = [
        cluster
        for cluster, found in observed.items()
        if max(found.topic_characters, found.listed_characters) > _TOPIC_CHARACTERS * most[cluster]
    ]
    if not suspects:
        return {}
    topics = loaded.select("cluster", F.lit(True).alias("is_loaded"))
    if listed is not None:
        topics = topics.unionByName(listed.select("cluster", F.lit(False).alias("is_loaded")))
    counts = topics.where(F.col("cluster").isin(suspects)).groupBy("cluster", "is_loaded").count().collect()
    found = sorted((row["cluster"], row["count"]) for row in counts)
    return {cluster: count for cluster, count in found if count > most[cluster]}


def refused_topics(refused: DataFrame, files: Mapping[tuple[str, str], str]) -> DataFrame:
    """Rows of rejected: `files` names the file by cluster and source."""
    from pyspark.sql import functions as F

    unknown = F.lit(None).cast("string")
    cases = [
        ((F.col("cluster") == cluster) & (F.col("source") == source), path) for (cluster, source), path in files.items()
    ]
    file = first_of(cases, unknown)
    reason = first_of(((F.col("refused") == rule, words) for rule, words in _REASONS.items()), unknown)
    place = F.concat_ws(" ", "broker", "path", "topic")
    return refused.select(
        "cluster",
        "cycle_at",
        F.lit("topic_stats").alias("rejected_from"),
        file.alias("file"),
        place.alias("place"),
        F.col("refused").alias("rule"),
        F.concat(place, F.lit(": "), reason, F.lit("; unknown in this cycle")).alias("reason"),
        F.substring("rest", 1, 2000).alias("record"),
        F.lit(None).cast("string").alias("record_key"),
    )


def raw_answers(
    requests: DataFrame,
    apart: DataFrame,
    observed: Mapping[str, ObservedRows],
    unreadable: Iterable[tuple[str, int, str]],
) -> DataFrame:
    """Rows of raw_answers: every request of the snapshots.

    Only figures that went into topic_stats leave their text out; those that cannot be read, or that another answer
    supersedes, keep it.
    """
    from pyspark.sql import functions as F

    refused = {(cluster, n) for cluster, n, _ in unreadable}
    kept: list[tuple[str, str, list[int]]] = []
    read: list[tuple[str, str, list[int]]] = []
    for cluster, found in observed.items():
        lost = [n for n in found.topic_figures if (cluster, n) in refused]
        kept.append((cluster, OWN, [*lost, *found.superseded_figures]))
        read.append((cluster, OWN, [n for n in found.topic_figures if n not in lost]))
    rows = apart.where((F.col("source") == OWN) & ~_is_one_of(kept)).drop("size")
    rows = rows.withColumn("body", F.when(~_is_one_of(read), F.coalesce("body", "unread")))
    if any(positions for _, _, positions in kept):
        rows = rows.unionByName(requests.where(_is_one_of(kept)))
    return rows.select(
        *("cluster", "cycle_at", "n", "broker", "method", "path", "status"),
        F.try_to_timestamp("at").alias("at"),
        *("elapsed_ms", "location", "body"),
    )


def _is_one_of(wanted: Iterable[tuple[str, str, Sequence[int]]]) -> Column:
    from pyspark.sql import functions as F

    return any_of(
        (F.col("cluster") == cluster) & (F.col("source") == source) & F.col("n").isin(list(positions))
        for cluster, source, positions in wanted
        if positions
    )


def _plain(value: Any) -> Any:
    """Text that UTF-8 can hold: half a surrogate pair, which JSON can, becomes a question mark."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {_plain(key): _plain(item) for key, item in value.items()}
    return value
