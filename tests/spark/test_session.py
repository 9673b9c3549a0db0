import gc
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest

from evenkeel.errors import EngineError
from evenkeel.spark.code import source_root
from evenkeel.spark.command import ServerSettings
from evenkeel.spark.grouped import grouped_map
from evenkeel.spark.jars import JAVA_VARIABLE, classic_java, server_java
from evenkeel.spark.server import Engine, engine_for
from evenkeel.spark.session import ISOLATION, close, connect, session_for_a_while
from tests.left_out import FULL_JDK, lacking

CHECKOUT = Path(__file__).resolve().parents[2]


# `make setup` links the package into the environment; this takes it off the path of the server's workers again.
WITHOUT_THE_PACKAGE = """
import os, sys
sys.path[:] = [path for path in sys.path if not os.path.isdir(os.path.join(path, "evenkeel"))]
"""


def has_full_jdk() -> bool:
    try:
        classic_java()
    except EngineError:
        return False
    return True


@pytest.mark.spark
def test_every_session_is_its_own(engine: Engine) -> None:
    first, second = connect(engine.url), connect(engine.url)
    first.conf.set("spark.sql.shuffle.partitions", "17")
    first.range(3).createOrReplaceTempView("mine")
    assert second.conf.get("spark.sql.shuffle.partitions") == "2"
    assert [table.name for table in second.catalog.listTables()] == []
    close(first)
    assert second.range(5).count() == 5
    close(second)


@pytest.mark.spark
def test_a_delta_table_is_written_and_its_history_read(engine: Engine, tmp_path: Path) -> None:
    spark = connect(f"spark-connect://127.0.0.1:{engine.url.rpartition(':')[2]}")
    path = str(tmp_path / "table")
    spark.range(10).write.format("delta").option("userMetadata", "first").save(path)
    spark.range(5).write.format("delta").mode("append").save(path)
    assert spark.read.format("delta").load(path).count() == 15
    assert spark.read.format("delta").option("versionAsOf", 0).load(path).count() == 10
    history = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").select("version", "userMetadata").collect()
    assert [(row.version, row.userMetadata) for row in history] == [(1, None), (0, "first")]
    close(spark)


@pytest.mark.exhaustive
@pytest.mark.spark
@pytest.mark.slow
def test_a_classic_master_with_a_full_jdk_decides_as_the_server_does(tmp_path: Path) -> None:
    if not has_full_jdk():
        pytest.skip(lacking(FULL_JDK))
    script = (
        "import sys\n"
        "from evenkeel.spark.grouped import grouped_map\n"
        "from evenkeel.spark.session import close, connect\n"
        "from tests.spark import deciders\n"
        "spark = connect('local[2]')\n"
        f"path = {str(tmp_path / 'table')!r}\n"
        "given = spark.createDataFrame([('c', 1, -0.0)], 'cluster string, id int, value double')\n"
        "out = grouped_map({'in': given}, by=['cluster'], decide=deciders.echo, outputs={'out': given.schema})['out']\n"
        "out.write.format('delta').save(path)\n"
        "print('answer', spark.read.format('delta').load(path).collect())\n"
        "close(spark)\n"
    )
    environment = {"PYTHONPATH": f"{source_root()}:{CHECKOUT}", "PATH": "/usr/bin:/bin", "HOME": str(Path.home())}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "answer [Row(cluster='c', id=1, value=-0.0)]" in done.stdout, done.stderr[-2000:]


@pytest.mark.exhaustive
@pytest.mark.spark
@pytest.mark.slow
def test_code_reaches_workers_that_know_nothing_of_the_package_where_sessions_are_kept_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenkeel.spark.command.source_root", lambda: tmp_path)
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_THE_PACKAGE)
    stock = (("spark.python.daemon.module", "pyspark.daemon"), (ISOLATION, "true"))

    def decide(spark: Any) -> None:
        given = spark.createDataFrame([("c", "x")], "cluster string, body string")
        grouped_map({"in": given}, by=["cluster"], decide=json_of, outputs={"cluster": given.schema})

    with engine_for(tmp_path, settings=ServerSettings(memory="512m", spark=stock)) as bare:
        spark = connect(bare.url)
        spark.conf.set(ISOLATION, "false")
        with pytest.raises(EngineError, match="cannot import evenkeel: put this version of it on their path"):
            decide(spark)
        close(spark)
        spark = connect(bare.url)
        # The package is there, and what lies outside of it is not.
        with pytest.raises(EngineError, match="No module named 'tests"):
            decide(spark)
        with session_for_a_while(spark) as own, pytest.raises(EngineError, match="No module named 'tests"):
            decide(own)
        close(spark)


def json_of(key: object, rows: object) -> dict[str, object]:
    return {}


def test_a_java_without_the_vector_module_cannot_run_a_classic_master(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(JAVA_VARIABLE, raising=False)
    small = server_java()
    monkeypatch.setenv(JAVA_VARIABLE, str(small))
    with pytest.raises(EngineError, match=r"lacks the module jdk\.incubator\.vector"):
        connect("local[1]")


def test_a_java_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(JAVA_VARIABLE, "/nowhere/bin/java")
    with pytest.raises(EngineError, match=r"No java that can be run at /nowhere/bin/java \(EVENKEEL_JAVA names it"):
        server_java()


def test_a_connection_that_is_none_is_refused() -> None:
    with pytest.raises(EngineError, match="'mesos://x' is not a Spark connection"):
        connect("mesos://x")


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("closed", [True, False])
def test_a_session_that_is_dropped_is_not_ended_by_the_garbage_collector(
    engine: Engine, closed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may run in any thread, also in one that holds the lock which pyspark waits for then."""
    from pyspark.sql.connect.client.reattach import ExecutePlanResponseReattachableIterator

    spark = connect(f"spark-connect://127.0.0.1:{engine.url.rpartition(':')[2]}")
    assert spark.range(3).count() == 3
    opened = id(spark)
    if closed:
        close(spark)
    ended = []
    monkeypatch.setattr(ExecutePlanResponseReattachableIterator, "shutdown", lambda: ended.append(opened))
    seen = weakref.ref(spark)
    del spark
    gc.collect()
    assert (ended, seen() is None) == ([], closed)
    monkeypatch.undo()
    if (left := seen()) is not None:
        close(left)
