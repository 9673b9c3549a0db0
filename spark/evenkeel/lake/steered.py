"""Who may steer a cluster, and what an operator said to it: pauses, leases of publishers, approvals of plans."""

from __future__ import annotations

from evenkeel.lake.schema import Column, Table

CONTROLS = Table(
    "controls",
    "acted",
    "One row per pause, resumption, takeover, handback, and step of a publisher's lease. The last pause or resumption "
    "of a cluster holds; so do its last takeover or handback, and the lease with the highest token.",
    ("kind", "token", "at"),
    ("publish",),
    (
        Column("cluster", "string", "Pulsar cluster", nullable=False),
        Column("kind", "string", "pause, resume, takeover, handback or lease", nullable=False),
        Column("at", "timestamp", "when the row was made, by the maker's clock", nullable=False),
        Column("by", "string", "who: an operator, or a publisher's try", nullable=False),
        Column("reason", "string", "why, in words"),
        Column("token", "bigint", "of a lease: rises with every new holder, 0 otherwise", "count", nullable=False),
        Column("until", "timestamp", "of a lease: to be renewed before this moment; the moment it was given back"),
        Column("switches", "string", "of a takeover: JSON of the brokers' dynamic values that it found"),
    ),
    partition=("cluster",),
    serializable=True,
)

APPROVALS = Table(
    "approvals",
    "acted",
    "One row per answer of an operator to a plan. It holds for that very plan, and for no other.",
    ("plan_id", "at"),
    ("publish",),
    (
        Column("cluster", "string", "Pulsar cluster", nullable=False),
        Column("plan_id", "string", "the plan", nullable=False),
        Column("answer", "string", "approved or rejected", nullable=False),
        Column("by", "string", "who answered", nullable=False),
        Column("at", "timestamp", "when", nullable=False),
        Column("note", "string", "what the operator said"),
    ),
    partition=("cluster",),
)

STEERED = (CONTROLS, APPROVALS)
