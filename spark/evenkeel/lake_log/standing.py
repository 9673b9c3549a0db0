"""What the transparency log says of a row of a chain, in words for a page."""

from __future__ import annotations

from evenkeel.errors import BadInput, BadNote, LogError
from evenkeel.lake_log.catch_up import has_log, open_log, storage_of
from evenkeel.lake_log.heads import logged_ends
from evenkeel.model.amounts import plural

UNSIGNED = "no: the lake has no transparency log, so nothing outside of it vouches for the record"


def signed_words(lake: str, cluster: str, sequence: int) -> str:
    """Whether the row of a cluster's chain is under the log's newest checkpoint, and by which log that is signed.

    By the log's own word, with the keys that lie beside it: `evenkeel verify --log-key` proves it. Raises nothing for a
    log that cannot be read, but says so.
    """
    try:
        storage = storage_of(lake)
        if not has_log(storage):
            return UNSIGNED
        opened = open_log(storage)
        newest = opened.checkpoint().checkpoint
        ends, _ = logged_ends(storage, opened.tree(newest))
    except (LogError, BadNote, BadInput) as error:
        return f"no: the transparency log of the lake cannot be read: {error}"
    end = ends.get(cluster)
    log = f"the transparency log {opened.origin} ({plural(newest.size, 'leaf', 'leaves')})"
    if end is None or end.sequence < sequence:
        return f"not yet: {log} has no leaf of row {sequence} of the chain"
    return f"in {log}; `evenkeel prove` writes a proof"
