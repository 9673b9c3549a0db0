"""The transparency log of a lake: every manifest of `cycles` has its leaf, signed and given to witnesses.

The log lies in the folder `_log` of the lake's root, one for all clusters. It holds what the tables hold, once more and
out of their reach: a leaf is written for each manifest after the manifest, and a publish that was killed in between is
mended by the next. Nothing here is needed to decide or to publish, and nothing of it is imported without a key.
"""

import os

from evenkeel.secret import FILE

LOG_KEY = "EVENKEEL_LOG_KEY"
"""The environment variable with the log's private key; without it a lake is unsigned, and nothing here is used."""
WITNESSES = "EVENKEEL_WITNESSES"
"""The environment variable with the witnesses of a log, or `file:PATH` of a file that names them."""
LOG_FOLDER = "_log"
"""The folder of the log in a lake's root; no table has a name that begins with an underscore."""


def take_in(lake: str, *, to_witnesses: bool = True) -> None:
    """Takes what is on record and has no leaf into the log of a lake, where the operator has given it a key. Never
    raises; what goes wrong is logged."""
    if os.environ.get(LOG_KEY) or os.environ.get(LOG_KEY + FILE):
        from evenkeel.lake_log.publishing import log_manifests

        log_manifests(lake, to_witnesses=to_witnesses)
