"""The transparency log of a lake: every manifest of `cycles` has its leaf, signed and given to witnesses.

The log lies in the folder `_log` of the lake's root, one for all clusters. It holds what the tables hold, once more and
out of their reach: a leaf is written for each manifest after the manifest, and a publish that was killed in between is
mended by the next. Nothing here is needed to decide or to publish, and nothing of it is imported without a key.
"""

from evenkeel.secret import FILE

LOG_KEY = "EVENKEEL_LOG_KEY"
"""The environment variable with the log's private key; without it a lake is unsigned, and nothing here is used."""
LOG_CONNECTION = "EVENKEEL_LOG_CONNECTION"
"""The environment variable that names a connection of Airflow's instead, whose password is the key."""
KEY_PLACES = (LOG_KEY, LOG_KEY + FILE, LOG_CONNECTION)
"""The variables of which one says where the log's private key is."""
WITNESSES = "EVENKEEL_WITNESSES"
"""The environment variable with the witnesses of a log, or `file:PATH` of a file that names them."""
LOG_FOLDER = "_log"
"""The folder of the log in a lake's root; no table has a name that begins with an underscore."""
