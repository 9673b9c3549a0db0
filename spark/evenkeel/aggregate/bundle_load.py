"""Puts a bundle's row together: owner, measured and used figures, averages, and what the owner itself reported."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenkeel.aggregate.topic_sums import CYCLE, FIGURES, is_system_namespace

COUNTS = ("topics", "consumers", "producers")
CLIENTS = ("consumers", "producers", "msg_backlog")
_MEASURED = tuple(f"measured_{figure}" for figure in FIGURES)
_USED = tuple(f"used_{figure}" for figure in FIGURES)


def bundle_load(
    owned: DataFrame,
    sums: DataFrame,
    cut_short: DataFrame | None,
    previous: DataFrame,
    unsettled: DataFrame | None = None,
    inherited: DataFrame | None = None,
    quotas: DataFrame | None = None,
) -> DataFrame:
    """Rows of bundle_load, one for each bundle of `owned`.

    `owned` are the bundles in force with their owners (`owners`), `sums` the figures of `bundle_sums`, `cut_short` the
    bundles that lost a topic to a rejection (None if none did), `previous` the predecessor's rows of bundle_load,
    `unsettled` (cluster, bundle) those whose figures a command of late has upset (None if none), `inherited` what those
    of them that a split has just made take over from their topics (None if nothing; `inheriting`). A bundle that a
    split made has no predecessor, and its averages start anew. `quotas` (cluster, bundle and the four figures) are the
    resource quotas from which averages start where there are none (None if there are none).
    """
    gathered = _with_unsettled(_with_previous(_with_sums(owned, sums, cut_short), previous, inherited), unsettled)
    loaded = with_averages(started_from_quotas(_with_used(_with_measured(_with_gap(gathered))), quotas))
    return loaded.select(
        *CYCLE,
        *["bundle", "namespace", "lower", "upper", "owner", "ownership", "last_owner"],
        is_system_namespace(F.col("namespace")).alias("is_system"),
        *["has_non_persistent", "topics", "listed_topics", "consumers", "producers"],
        *[*_MEASURED, *_USED, "used_reason", "measured_gap", "trusted_at", *SAMPLES, *AVERAGES],
        *[f"reported_{name}" for name in SAID],
        *["msg_backlog", *(f"{name}_before" for name in CLIENTS), SINCE_QUOTA],
    )


def _with_sums(owned: DataFrame, sums: DataFrame, cut_short: DataFrame | None) -> DataFrame:
    joined = owned.join(sums, [*CYCLE, "bundle"], how="left")
    if cut_short is None:
        joined = joined.withColumn("lost_topics", F.lit(False))
    else:
        lost = cut_short.select(*CYCLE, "bundle", F.lit(True).alias("lost_topics"))
        joined = joined.join(lost, [*CYCLE, "bundle"], how="left")
    complete = " and ".join(f"{figure} is not null" for figure in FIGURES)
    return joined.selectExpr(
        *[*BUNDLE_COLUMNS, "owner", "ownership", "claimants", "answered"],
        *[f"reported_{name}" for name in SAID],
        *[f"coalesce({count}, 0) as {count}" for count in (*COUNTS, "listed_topics")],
        "coalesce(has_non_persistent, false) as has_non_persistent",
        f"coalesce(lost_topics, false) or not coalesce(all_known and (topics = 0 or {complete}), true) as is_cut_short",
        *[f"coalesce({figure}, 0.0D) as {figure}" for figure in FIGURES],
        "if(coalesce(topics, 0) = 0, 0, msg_backlog) as msg_backlog",
    )


def _with_previous(gathered: DataFrame, previous: DataFrame, inherited: DataFrame | None) -> DataFrame:
    before = previous.selectExpr(
        *["cluster", "bundle", "topics as topics_before", "last_owner as owner_before", "trusted_at as trusted_before"],
        *[f"{name} as {name}_before" for name in CLIENTS],
        *[f"used_{figure} as {figure}_before" for figure in FIGURES],
        *["'carried' as reason_before", *SAMPLES, *AVERAGES, SINCE_QUOTA],
    )
    if inherited is not None:
        taken_over = inherited.selectExpr(
            *["cluster", "bundle", "trusted_at as trusted_before", "'inherited' as reason_before"],
            *[f"{figure} as {figure}_before" for figure in FIGURES],
        )
        before = before.unionByName(taken_over, allowMissingColumns=True)
    return gathered.join(before, ["cluster", "bundle"], how="left")


def _with_unsettled(gathered: DataFrame, unsettled: DataFrame | None) -> DataFrame:
    """Adds whether a bundle's figures are upset and there are trusted ones of before to be used in their place."""
    if unsettled is None:
        return gathered.withColumn("is_upset", F.lit(False))
    marked = unsettled.select("cluster", "bundle", F.lit(True).alias("upset"))
    joined = gathered.join(F.broadcast(marked), ["cluster", "bundle"], how="left")
    is_upset = F.coalesce("upset", F.lit(False)) & F.col(f"{FIGURES[0]}_before").isNotNull()
    return joined.withColumn("is_upset", is_upset).drop("upset")


def _with_gap(gathered: DataFrame) -> DataFrame:
    """Adds `measured_gap`, the reason why a bundle's sums are not its load; NULL where they are.

    not_owned: nobody says that he owns it. no_topic_figures: an owner's topic figures did not come.
    topics_rejected: one of its topics was set aside. just_moved: it has an owner new since the last cycle and shows no
    topic yet though it had some; for up to one stats period after a move they are in no broker's figures. unsettled: a
    command touched it, and for two stats periods its figures are missing, doubled or inflated.
    """
    gap = """case when size(claimants) = 0 then 'not_owned'
                  when size(array_except(claimants, answered)) > 0 then 'no_topic_figures'
                  when is_cut_short then 'topics_rejected'
                  when is_upset then 'unsettled'
                  when topics = 0 and topics_before > 0 and not (owner <=> owner_before) then 'just_moved' end"""
    return gathered.withColumn("measured_gap", F.expr(gap)).drop("answered", "topics_before", "is_upset")


def _with_measured(gathered: DataFrame) -> DataFrame:
    """What was measured; upset figures are shown, though they are not used."""
    is_known = F.col("measured_gap").isNull() | (F.col("measured_gap") == "unsettled")
    known = {count: F.when(is_known, F.col(count)) for count in (*COUNTS, "msg_backlog")}
    known |= {f"measured_{figure}": F.when(is_known, F.col(figure)) for figure in FIGURES}
    return gathered.withColumns(known).drop(*FIGURES)


def _with_used(measured: DataFrame) -> DataFrame:
    """Adds what decisions use: what was measured, else what was used in the cycle before (inherited: of the topics, by
    a split's child), else nothing."""
    is_measured = F.col("measured_gap").isNull()
    before = {f"used_{figure}": F.col(f"{figure}_before") for figure in FIGURES}
    used = {
        name: F.when(is_measured, F.col(name.replace("used_", "measured_"))).otherwise(value)
        for name, value in before.items()
    }
    reason = F.when(is_measured, F.lit("measured")).when(
        F.col(f"{FIGURES[0]}_before").isNotNull(), F.col("reason_before")
    )
    return measured.withColumns(
        used
        | {
            "used_reason": F.coalesce(reason, F.lit("unknown")),
            "trusted_at": F.when(is_measured, F.col("cycle_at")).otherwise(F.col("trusted_before")),
            "last_owner": F.coalesce(F.col("owner"), F.col("owner_before")),
        }
    ).drop("trusted_before", "owner_before", "reason_before", *[f"{figure}_before" for figure in FIGURES])


# Short- and long-term averages of a bundle by Pulsar's update rule (TimeAverageMessageData.update).
#
# With a sample `s`: n = min(n + 1, most), average = ((n - 1) * average + s) / n; most is 10 for the short term, 1000
# for the long one. A bundle never seen before starts from Pulsar's defaults with n = 0, so that its first sample
# replaces them. Pulsar takes the sample from the brokers' reports, several times per report; here it is the sum over
# the bundle's topics, once per cycle.
#
# Where a bundle has a resource quota stored, Pulsar starts it from that with n at its most, as if it had ample history
# (ModularLoadManagerImpl.getBundleDataOrDefault): the first sample then counts for a tenth and a thousandth. Until that
# sample the quota counts as it is now, as Pulsar reads it again each time that it asks.

MOST_SAMPLES = {"short": 10, "long": 1_000}

# Pulsar's NamespaceBundleStats defaults: ModularLoadManagerImpl.DEFAULT_MESSAGE_RATE and DEFAULT_MESSAGE_THROUGHPUT.
DEFAULTS = {"msg_rate_in": 50.0, "msg_rate_out": 50.0, "msg_throughput_in": 50_000.0, "msg_throughput_out": 50_000.0}
AVERAGES = tuple(f"{term}_{figure}" for term in MOST_SAMPLES for figure in FIGURES)
SAMPLES = tuple(f"{term}_samples" for term in MOST_SAMPLES)
SINCE_QUOTA = "samples_since_quota"


def default_average(average: str) -> float:
    """What Pulsar assumes of a bundle it has never seen, e.g. for `short_msg_rate_in`."""
    return DEFAULTS[average.split("_", 1)[1]]


def updated_samples(samples: Column, sample: Column, most: int) -> Column:
    """The number of samples after `sample`; unchanged where there is none."""
    return F.when(sample.isNull(), samples).otherwise(F.least(samples + F.lit(1), F.lit(most)))


def updated_average(average: Column, samples_after: Column, sample: Column) -> Column:
    """The average after `sample`, in the very operations and order of Pulsar's; unchanged where there is none."""
    n = samples_after.cast("double")
    return F.when(sample.isNull(), average).otherwise(((n - F.lit(1.0)) * average + sample) / n)


def started_from_quotas(bundles: DataFrame, quotas: DataFrame | None) -> DataFrame:
    """Puts the figures of a bundle's resource quota where its averages have had no sample.

    `bundles` as for `with_averages`; `quotas` (cluster, bundle and the four figures), None if there are none.
    """
    if quotas is None:
        return bundles
    figures = [F.col(figure).alias(f"quota_{figure}") for figure in FIGURES]
    known = bundles.join(F.broadcast(quotas.select("cluster", "bundle", *figures)), ["cluster", "bundle"], how="left")
    unmeasured = f"(coalesce(long_samples, 0) = 0 or coalesce({SINCE_QUOTA} = 0, false))"
    starts = F.expr(f"quota_{FIGURES[0]} is not null and {unmeasured}")
    begun = {f"{term}_samples": F.lit(most) for term, most in MOST_SAMPLES.items()}
    begun |= {average: F.col(f"quota_{average.split('_', 1)[1]}") for average in AVERAGES}
    begun[SINCE_QUOTA] = F.lit(0).cast("bigint")
    started = {name: F.when(starts, value).otherwise(F.col(name)) for name, value in begun.items()}
    return known.withColumns(started).drop(*[f"quota_{figure}" for figure in FIGURES])


def with_averages(bundles: DataFrame) -> DataFrame:
    """Carries the averages on by one sample, the bundle's measured_* figures; without them they stay as they were, and
    so they do where a measured_gap says that they are not to be used.

    `bundles` hold the averages and sample counts of the cycle before, NULL where there was none.
    """
    # The four figures of a bundle are known together or not at all, so any of them tells whether there is a sample.
    is_usable = F.col("measured_gap").isNull()
    sample = F.when(is_usable, F.col("measured_msg_rate_in"))
    started = {name: F.coalesce(F.col(name), F.lit(0)) for name in SAMPLES}
    started |= {name: F.coalesce(F.col(name), F.lit(default_average(name))) for name in AVERAGES}
    counted = {
        f"{term}_samples": updated_samples(F.col(f"{term}_samples"), sample, most)
        for term, most in MOST_SAMPLES.items()
    }
    averaged = {
        f"{term}_{figure}": updated_average(
            F.col(f"{term}_{figure}"), F.col(f"{term}_samples"), F.when(is_usable, F.col(f"measured_{figure}"))
        )
        for term in MOST_SAMPLES
        for figure in FIGURES
    }
    # NULL stays NULL: averages that did not begin from a quota.
    counted[SINCE_QUOTA] = F.col(SINCE_QUOTA) + F.when(sample.isNull(), F.lit(0)).otherwise(F.lit(1))
    return bundles.withColumns(started).withColumns(counted).withColumns(averaged)


# Who owns a bundle, by the brokers' own lists of what they own now.

BUNDLE_COLUMNS = (*CYCLE, "namespace", "bundle", "lower", "upper")
SAID = ("msg_rate_in", "msg_rate_out", "msg_throughput_in", "msg_throughput_out", "topics")


def owners(bundles: DataFrame, claims: DataFrame, brokers: DataFrame, rejected: DataFrame | None) -> DataFrame:
    """The bundles with `owner`, `ownership`, `claimants`, `answered` and `reported_*`.

    ownership: owned: exactly one broker has it in its list. doubled: more than one has, as for a moment while it moves.
    unowned: none has, and every available broker's list came. unknown: none has, but a list is missing (or a claim to
    it was set aside), so it may well be owned. `claimants` are the brokers that say they own it, `answered` all brokers
    of the cluster whose topic figures came, `reported_*` what the owner itself says of the bundle.
    `claims` are checked rows of bundle_ownership, `brokers` rows of broker_reports, `rejected` rows of `rejected`, None
    if there are none.
    """
    known = bundles.join(_claimed(claims), [*CYCLE, "bundle"], how="left")
    known = known.join(F.broadcast(_heard(brokers)), list(CYCLE), how="left")
    if rejected is None:
        known = known.withColumn("is_refused", F.lit(False))
    else:
        known = known.join(_refused_claims(rejected), [*CYCLE, "bundle"], how="left")
    judged = known.selectExpr(
        *BUNDLE_COLUMNS,
        "said",
        "coalesce(answered, array()) as answered",
        "coalesce(claimants, array()) as claimants",
        "if(size(claimants) = 1, claimants[0], null) as owner",
        """case when size(claimants) = 1 then 'owned'
                when size(claimants) > 1 then 'doubled'
                when coalesce(all_lists_came, false) and not coalesce(is_refused, false) then 'unowned'
                else 'unknown' end as ownership""",
    )
    own = judged.withColumn("own", F.expr("array_max(filter(said, s -> s.broker = owner))"))
    return own.withColumns({f"reported_{name}": F.col(f"own.{name}") for name in SAID}).drop("said", "own")


def _claimed(claims: DataFrame) -> DataFrame:
    """Per bundle who owns it and what each broker says of it; of a claim made twice the larger figures count."""
    return claims.groupBy(*CYCLE, "bundle").agg(
        F.array_sort(F.collect_set(F.when(F.col("is_owned"), F.col("broker")))).alias("claimants"),
        F.collect_list(F.struct("broker", *SAID)).alias("said"),
    )


def _heard(brokers: DataFrame) -> DataFrame:
    """Per cluster whether every available broker's list of bundles came, and whose topic figures came."""
    listed = F.when(F.col("is_listed"), F.col("owned_bundles").isNotNull())
    return brokers.groupBy(*CYCLE).agg(
        F.every(listed).alias("all_lists_came"),
        F.collect_set(F.when(F.col("has_topic_figures"), F.col("broker"))).alias("answered"),
    )


def _refused_claims(rejected: DataFrame) -> DataFrame:
    named = rejected.where("rejected_from = 'bundle_ownership' and record_key is not null")
    bundle = F.expr("get_json_object(record_key, '$[0]')").alias("bundle")
    return named.select(*CYCLE, bundle, F.lit(True).alias("is_refused")).distinct()
