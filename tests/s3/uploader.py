"""A process that uploads one snapshot and may be killed: `python -m tests.s3.uploader ENDPOINT PATH URL CLUSTER`."""

from __future__ import annotations

import sys

from evenkeel.sources.s3.upload import upload_snapshot
from tests.s3.conftest import client_of

if __name__ == "__main__":
    endpoint, path, url, cluster = sys.argv[1:]
    print(upload_snapshot(path, url, cluster, client=client_of(endpoint), collector="killed").outcome, flush=True)
