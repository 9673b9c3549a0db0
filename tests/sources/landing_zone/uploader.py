"""A process that uploads one snapshot and may be killed.

`python -m tests.sources.landing_zone.uploader ENDPOINT PATH URL CLUSTER`
"""

import sys

from evenkeel.sources.landing_zone.spool import upload_snapshot
from tests.sources.landing_zone.conftest import client_of

if __name__ == "__main__":
    endpoint, path, url, cluster = sys.argv[1:]
    print(upload_snapshot(path, url, cluster, client=client_of(endpoint)).outcome, flush=True)
