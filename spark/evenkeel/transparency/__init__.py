"""The transparency log of a lake: a signed Merkle tree with a leaf for every commit of every table of the record.

A leaf names a commit of a table's Delta log, the SHA-256 of its JSON, and the SHA-256 of the list of its data files.
The tree is kept in files in the folder `_log` of the lake, in the formats of C2SP (c2sp.org): signed notes,
checkpoints, tiles, cosignatures and proofs. Only commits that their writers handed on are logged. Deciding and
publishing need nothing of this room, and without a key nothing of it is imported. `tools/check_proof.py` reads a proof
without this package.
"""

from evenkeel.secret import FILE

LOG_KEY = "EVENKEEL_LOG_KEY"
"""The environment variable with the log's private key; without it the lake is unsigned."""
LOG_CONNECTION = "EVENKEEL_LOG_CONNECTION"
"""The environment variable that names a connection of Airflow's instead, whose password is the key."""
KEY_PLACES = (LOG_KEY, LOG_KEY + FILE, LOG_CONNECTION)
"""The variables, exactly one of which says where the log's private key is."""
WITNESSES = "EVENKEEL_WITNESSES"
"""The environment variable with the witnesses of a log, or `file:PATH` of a file that names them."""
LOG_FOLDER = "_log"
"""The folder of the log in a lake's root; no table has a name that begins with an underscore."""
