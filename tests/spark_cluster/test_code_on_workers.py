"""The package reaches a cluster's workers by itself; where it is installed there, another copy is refused."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evenkeel.doctor import spark_endpoint
from evenkeel.doctor.checks import CheckOutcome, Site
from evenkeel.errors import EngineError, StaleCode
from evenkeel.spark.code import source_root
from evenkeel.spark.session import ISOLATION, close, connect
from tests.spark_cluster.standalone import StandaloneCluster

pytestmark = [pytest.mark.exhaustive, pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def installed(cluster: StandaloneCluster) -> Iterator[Path]:
    """The package as it is installed on the workers."""
    yield Path(
        shutil.copytree(
            source_root() / "evenkeel", cluster.installed / "evenkeel", ignore=shutil.ignore_patterns("__pycache__")
        )
    )
    shutil.rmtree(cluster.installed / "evenkeel")


def asked(cluster: StandaloneCluster, *, apart: bool) -> str:
    """What the workers answer in a session of its own, which is or is not kept apart from others: "", or the error."""
    from evenkeel.spark.grouped import grouped_map
    from evenkeel.spark.worker import same_rows

    spark: Any = connect(cluster.url, "tests")
    try:
        if not apart:
            spark.conf.set(ISOLATION, "false")
        rows = spark.createDataFrame([("a", 1), ("b", 2)], "name string, value int")
        found = grouped_map({"rows": rows}, by=["name"], decide=same_rows, outputs={"rows": rows.schema})
        assert sorted(map(tuple, found["rows"].collect())) == [("a", 1), ("b", 2)]
    finally:
        close(spark)
    return ""


def test_the_package_reaches_workers_that_have_none(cluster: StandaloneCluster) -> None:
    with pytest.raises(Exception, match="cannot import evenkeel: put this version"):
        asked(cluster, apart=False)
    assert asked(cluster, apart=True) == ""
    found = spark_endpoint.check_workers(Site(environment={"EVENKEEL_SPARK": cluster.url}), "")
    assert (found.outcome, found.words) == (CheckOutcome.OK, "the workers have this client's code")


def test_an_installed_copy_decides_where_sessions_share_workers_and_another_one_is_refused(
    cluster: StandaloneCluster, installed: Path
) -> None:
    assert asked(cluster, apart=False) == ""
    with (installed / "spark" / "worker.py").open("a", encoding="utf-8") as file:
        file.write("# other code\n")
    with pytest.raises(StaleCode, match="run other code than this client") as refused:
        asked(cluster, apart=False)
    assert "on a cluster install this version on the workers" in str(refused.value)
    assert "\n" not in str(refused.value)
    assert isinstance(refused.value, EngineError)


def test_what_a_session_was_sent_goes_before_an_installed_copy(cluster: StandaloneCluster, installed: Path) -> None:
    with (installed / "spark" / "worker.py").open("a", encoding="utf-8") as file:
        file.write("raise ImportError('an older version')\n")
    assert asked(cluster, apart=True) == ""
