"""One real cluster for each load manager in a test run, started when a test first asks for it.

Both end with the last test that may use them (`tests.groups`). Tests share them, so each works in a tenant of its own
(`fresh_tenant`), gives back what it changed (dynamic settings, killed brokers), and takes a cluster of its own
(`cluster.cluster_for`) where it cannot.
"""

from __future__ import annotations

import re
import sys
from itertools import count
from typing import TYPE_CHECKING

import pytest

from tests.groups import until_the_group_ends

if TYPE_CHECKING:
    from devtools.lab.cluster import Cluster

_numbers = count(1)


@pytest.fixture(scope="session")
def modular_cluster() -> Cluster:
    """Three brokers with the modular load manager."""
    return _cluster("modular")


@pytest.fixture(scope="session")
def extensible_cluster() -> Cluster:
    """Three brokers with the extensible load manager."""
    return _cluster("extensible")


@pytest.fixture
def fresh_tenant(request: pytest.FixtureRequest) -> str:
    """A tenant's name that no other test of the run has; nothing is made yet."""
    return f"t{next(_numbers)}-{re.sub('[^a-z0-9]+', '-', request.node.name.lower())[:40]}".rstrip("-")


def _cluster(manager: str) -> Cluster:
    if sys.platform != "linux":
        pytest.skip("brokers are 127.0.0.1, 127.0.0.2, ...: only Linux answers on all of them")
    from devtools.lab.cluster import cluster_for
    from devtools.lab.settings import LabSettings

    return until_the_group_ends().enter_context(cluster_for(LabSettings(manager=manager)))
