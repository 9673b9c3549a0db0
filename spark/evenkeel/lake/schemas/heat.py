"""Heat tables: the data of the heat map, derived from the record and outside its chain.

The rows have no write id and no manifest lists them. They are made again if the record differs, and all of them can be
made again as long as the source rows are kept. They are neither verified, exported nor logged. Values are bytes that
only `evenkeel.heat` reads, and rules never see them.
"""

from __future__ import annotations

from evenkeel.lake.schema import Column, Table

_PRODUCERS = ("heat",)

HEAT_BLOCKS = Table(
    "heat_blocks",
    "derived",
    "Outside the record, can be made again: a row per cluster, layer, metric, namespace and block of time, and per "
    "piece of it with the same bundles; beside them an overview of the whole cluster in 1,536 key ranges at most. One "
    "set of rows per block is visible at any time.",
    ("layer_seconds", "grain", "block_start", "namespace", "metric", "piece"),
    _PRODUCERS,
    (
        Column("cluster", "string", "Pulsar cluster", nullable=False),
        Column("layer_seconds", "int", "length of a column: 60, 600, 3600 or 21600; 0 in `state`", "s", nullable=False),
        Column(
            "grain", "string", "overview, namespaces, or state: what the cluster's heat is built from", nullable=False
        ),
        Column("block_start", "bigint", "first moment of the block, since 1970", "s", nullable=False),
        Column("namespace", "string", "tenant/namespace; empty in an overview", nullable=False),
        Column(
            "metric",
            "string",
            "message_rate, byte_rate, topics, sessions, broker_share, owner; `columns` says which columns there are, "
            "`state` up to where the record was looked at",
            nullable=False,
        ),
        Column("piece", "int", "position among the block's pieces of this namespace", "count", nullable=False),
        Column("first_column", "int", "the piece's first column among those of `columns`", "count"),
        Column("columns", "int", "columns of the piece", "count"),
        Column("ranges", "int", "key ranges of the piece", "count"),
        Column("boundaries", "binary", "64-bit integers: first hash of each range, then hash after each range"),
        Column(
            "names",
            "array<string>",
            "of an overview: its namespaces in order; a boundary is 2^32 times the namespace's position, plus the hash",
        ),
        Column("bundles", "binary", "of an overview: bundles in each range, 32-bit integers"),
        Column(
            "cells",
            "binary",
            "column after column: a byte per range on the metric's scale, 0 unknown, 1 nothing; "
            "of owner 16 bits, 0 unknown, 65535 several, else position in `brokers` from 1",
        ),
        Column(
            "shared",
            "binary",
            "column after column, a bit per range: a bundle's figure was shared by width; NULL: none",
        ),
        Column("starts", "array<bigint>", "of `columns`: first moment of each column, since 1970", "s"),
        Column("digests", "array<string>", "of `columns`: digest of the attempts that each column was built from"),
        Column("brokers", "array<string>", "of `columns`: brokers that own anything in the block"),
        Column("through_sequence", "bigint", "of `state`: the newest row of `cycles` that was looked at", "count"),
        Column("through_at", "timestamp", "of `state`: the newest cycle by then"),
        Column("exact_since", "timestamp", "of `state`: first moment of the kept rows of `bundle_load`"),
        Column("format", "int", "version of what the bytes mean", "count", nullable=False),
    ),
    partition=("cluster", "layer_seconds", "grain", "block_start"),
)

HEAT_MARKS = Table(
    "heat_marks",
    "derived",
    "Outside the record, can be made again: a row per move, split, held command and bounce, for the heat map.",
    ("at", "kind", "namespace", "lower", "text"),
    _PRODUCERS,
    (
        Column("cluster", "string", "Pulsar cluster", nullable=False),
        Column(
            "block_start", "bigint", "first moment of the ten days that hold the cycle, since 1970", "s", nullable=False
        ),
        Column("at", "timestamp", "the cycle that decided it, or of a bounce first saw it", nullable=False),
        Column(
            "kind",
            "string",
            "move, split, held, or bounce: back at a broker that it left in the hour before",
            nullable=False,
        ),
        Column("namespace", "string", "tenant/namespace", nullable=False),
        Column("lower", "bigint", "first hash of the bundle's range", nullable=False),
        Column("upper", "bigint", "hash after the range; 4294967295 closes the last one", nullable=False),
        Column("text", "string", "source and destination, and the outcome", nullable=False),
    ),
    partition=("cluster", "block_start"),
)

HEAT = (HEAT_BLOCKS, HEAT_MARKS)
