"""Loads of bundles and brokers made again from the topics in proven files, in processes of this machine.

Only whether they came out as recorded is found here: what differs is told by Spark (`decide_again.loads_again`), which
also makes the loads of large cycles and of whatever is rare.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from evenkeel.aggregate import inputs
from evenkeel.aggregate.bundles_in_force import namespaces_in_force
from evenkeel.aggregate.local_sums import COLUMNS, MOST_TOPICS, WholeNumbers, sums_of, whole_numbers
from evenkeel.aggregate.round import LOADS_BEFORE, OUTPUTS, decide
from evenkeel.cycle.frames import MOST_HERE, children_of_splits
from evenkeel.lake.table_files import row_count
from evenkeel.repetition.repeat import same
from evenkeel.spark.rows import tick_of
from evenkeel.verify.by_files import Proven
from evenkeel.verify.decide_again import covered
from evenkeel.verify.recorded_cycle import RecordedCycle
from evenkeel.verify.rows_in_files import Part, in_stretches, named, parts_of, rows_in, whole_rows_in

_TOPICS = "topic_stats"
_OWN = ("namespace_bundles", "bundle_ownership", "broker_reports", "resource_quotas", *OUTPUTS)
_OF_A_CYCLE = ("namespace_bundles", "bundle_ownership")
"""What is summed up by the moment of its cycle."""
_MOST_TOPICS_IN_A_FILE = 400_000
"""So many topics of a file at most are kept as whole numbers: some 32 MB."""
# A cycle's topics lie in one file or two, and the next cycle's in the same.
_FILES_AT_HAND = 4

Row = Mapping[str, Any]
Files = Mapping[str, tuple[Part, ...]]
"""Where the rows are of each input, and of each table of `OUTPUTS` as it is on record."""


def load_files(one: RecordedCycle, proven: Proven) -> Files | None:
    """None for an attempt whose loads Spark makes: rows are not all in proven files of their own, or are many; records
    were set aside; or splits have made bundles of late, which inherit figures of the cycle before."""
    attempt = one.attempt
    if any(write.rows for write in attempt.writes_of(inputs.REJECTED)) or children_of_splits(one.cycle):
        return None
    asked = {name: attempt.writes_of(name) for name in (*_OWN, _TOPICS)}
    asked |= {name: attempt.reads_of(table) for name, table in inputs.TABLE_OF.items()}
    topics = sum(write.rows for write in asked[_TOPICS])
    if topics > MOST_TOPICS or sum(write.rows for own in asked.values() for write in own) - topics > MOST_HERE:
        return None
    files = {name: parts for name, own in asked.items() if (parts := parts_of(own, proven)) is not None}
    return files if len(files) == len(asked) else None


def came_out(cycle: Row, files: Files) -> bool:
    """Return True if the loads of this cycle are those on record, to the bit; False where that is for Spark to say."""
    cluster, at = cycle["cluster"], cycle["cycle_at"]
    rows: dict[str, Sequence[Row]] = {"cycle": [cycle]}
    for name, columns in inputs.COLUMNS.items():
        if name == LOADS_BEFORE:  # all of their columns have been read for the cycle before
            rows[name] = whole_rows_in(files[name], "bundle_load", cluster)
            continue
        moment = ("cycle_at",) if name in _OF_A_CYCLE else ()
        rows[name] = rows_in(files[name], inputs.TABLE_OF.get(name, name), (*moment, *columns), cluster)
    if any(row["cycle_at"] != at for name in _OF_A_CYCLE for row in rows[name]):
        return False
    topics = [part for one in files[_TOPICS] if (part := _topics_in(*one)) is not None]
    spaces = namespaces_in_force(rows["namespace_bundles"], rows["bundle_ownership"])
    sums = sums_of(topics, tick_of(at), spaces) if len(topics) == len(files[_TOPICS]) else None
    if sums is None:
        return False
    made = decide({"cluster": cluster}, {**rows, inputs.TOPIC_SUMS: sums})
    return all(
        same(table, covered(table), whole_rows_in(files[table], table, cluster), made[table]) for table in OUTPUTS
    )


def _topics_in(file: str, write_id: str) -> WholeNumbers | None:
    """The topics of a write in a file; None where they are not to be had as whole numbers."""
    found = named(file, _topics_by_write, file)
    return None if found is None else found.get(write_id)


@lru_cache(maxsize=_FILES_AT_HAND)
def _topics_by_write(file: str) -> Mapping[str, WholeNumbers] | None:
    if row_count(file) > _MOST_TOPICS_IN_A_FILE:
        return None
    rows, stretches = in_stretches(file, _TOPICS, COLUMNS)
    whole = whole_numbers(rows)
    return None if whole is None else {write_id: whole.part(*stretch) for write_id, stretch in stretches.items()}
