"""Sessions by connection string: Spark Connect (`sc://host:port`) or a classic master (`local[*]`, `spark://…`)."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

from evenkeel.errors import EngineError
from evenkeel.spark.code import Files, package_files, runtime_digest, source_root, workers_files
from evenkeel.spark.command import (
    CLIENT_HOST,
    LOCAL_SETTINGS,
    SQL_SETTINGS,
    token_given,
    without_token,
)
from evenkeel.spark.endpoint import demand_answer, token_refused
from evenkeel.spark.jars import delta_jars
from evenkeel.spark.java import classic_java

if TYPE_CHECKING:
    from pyspark import StorageLevel
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.connect.client.retries import RetryPolicy


CONNECT_SCHEMES = ("sc://", "spark-connect://")
LOCAL_ENDPOINTS = ("sc://127.0.0.1", "sc://localhost")


def connect(url: str, app_name: str = "evenkeel") -> SparkSession:
    """A session at `url`.

    At a Connect endpoint it is a session of its own, shared with nobody; close it with `close`, since the server keeps
    what is not closed. A classic master gives the one session that a process can have there; it needs a full JDK.
    """
    if url.startswith(CONNECT_SCHEMES):
        return _connect_endpoint(with_token(f"sc://{url.partition('://')[2]}"), app_name)
    if url.startswith(("local", "spark://", "yarn", "k8s://")):
        return _connect_classic(url, app_name)
    raise EngineError(
        f"{without_token(url)!r} is not a Spark connection: expected sc://host:port (Spark Connect) or a master like "
        "local[*] or spark://host:port."
    )


def _connect_endpoint(url: str, app_name: str) -> SparkSession:
    from pyspark.sql.connect.client import SparkConnectClient
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    from evenkeel.spark.channel import TokenInHeader

    # pyspark asks the server, as the process ends, to forget machine learning models. There are none, and where the
    # server went first, or never let this client in, the process would stay for ten minutes and more to try again.
    cast(Any, SparkConnectClient)._cleanup_ml_cache = _nothing_to_forget
    if is_elsewhere(url):
        demand_answer(url)
    before = _sessions_in_use()
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # as pyspark's own builder does for a URL
    try:
        made = ConnectSession.builder.channelBuilder(TokenInHeader(url)).appName(app_name).create()
    except Exception as error:
        _drop_sessions_since(before)
        if "UNAUTHENTICATED" in str(error):
            raise token_refused(url) from None
        raise
    session = cast("SparkSession", made)
    client = cast(Any, session).client  # the stubs take it for something that is called
    if not is_elsewhere(url):
        client.set_retry_policies([_impatient()])
    _OPEN[session] = url
    return session


def with_token(url: str) -> str:
    """The URL with its token as a parameter: its own, also where that stands as a password before the host, as in
    Airflow's connections, else that of the environment.

    pyspark encrypts what carries a token unless the host's name is `localhost`, and a server on this machine speaks no
    TLS, so its address is written as that name.
    """
    endpoint, _, parameters = url.partition("/;")
    scheme, _, place = endpoint.partition("://")
    user, _, host = place.rpartition("@")
    endpoint = f"{scheme}://{host}"
    token = None if "token=" in parameters else unquote(user.rpartition(":")[2]) or token_given()
    parameters = ";".join(part for part in (parameters, f"token={token}" if token else "") if part)
    if "token=" in parameters and endpoint.startswith(LOCAL_ENDPOINTS):
        endpoint = re.sub(r"//127\.0\.0\.1(?=:|$)", f"//{CLIENT_HOST}", endpoint)
    return f"{endpoint.rstrip('/')}/;{parameters}" if parameters else endpoint


def is_elsewhere(url: str) -> bool:
    """Whether a Connect URL leads to another machine, or through a TLS proxy on this one."""
    return not url.startswith(LOCAL_ENDPOINTS) or "use_ssl=true" in url.lower()


_OPEN: dict[SparkSession, str] = {}
"""Connect sessions until `close`, with the URL of each, so that no garbage collection ends one.

pyspark's `SparkSession.__del__` closes the client, also a second time, and waits for threads of all sessions. Where the
collector happens to run in a thread of gRPC, which holds the lock that those threads want, the process stands still.
"""


def _sessions_in_use() -> tuple[Any, Any]:
    """The sessions that pyspark asks by itself: the thread's active one, and the process's default."""
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    return getattr(ConnectSession._active_session, "session", None), ConnectSession._default_session


def _drop_sessions_since(before: tuple[Any, Any]) -> None:
    """Forgets a session that the server did not let in: pyspark would ask it in place of the one that works."""
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    for broken in {id(one): one for one in _sessions_in_use() if one is not None and one not in before}.values():
        broken.client._channel.close()
        broken.client.close = _is_closed
    ConnectSession._active_session.session, ConnectSession._default_session = before


def _nothing_to_forget(_client: object) -> None:
    """Takes the place of what pyspark would do as the process ends."""


def _send_what_is_due() -> None:
    """Waits until the server has heard which results were read: pyspark tells it behind the caller's back, and the
    server logs an error with its trace for each that arrives once the session is closed."""
    from pyspark.sql.connect.client.reattach import ExecutePlanResponseReattachableIterator

    ExecutePlanResponseReattachableIterator.shutdown()


def _is_closed() -> None:
    """Takes the place of a closed client's `close`: there is nothing left to do."""


def _impatient() -> RetryPolicy:
    """Gives up after some seconds, not after ten minutes: a local server that is gone does not come back by itself."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    return DefaultPolicy(max_retries=6, max_backoff=2000)


def _connect_classic(master: str, app_name: str) -> SparkSession:
    from pyspark.sql import SparkSession

    java = classic_java()
    os.environ.setdefault("JAVA_HOME", str(java.parent.parent))
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).appName(app_name)
    for key, value in classic_settings(master).items():
        builder = builder.config(key, value)
    builder = builder.config("spark.jars", ",".join(map(str, delta_jars())))
    return builder.config("spark.executorEnv.PYTHONPATH", str(source_root())).getOrCreate()


def classic_settings(master: str) -> dict[str, str]:
    """The settings of a classic master that the Connect server has too; a cluster's own security is its operator's."""
    is_local = master == "local" or master.startswith("local[")
    return {**SQL_SETTINGS, **LOCAL_SETTINGS} if is_local else dict(SQL_SETTINGS)


def close(spark: SparkSession) -> None:
    """Ends the session; at a Connect endpoint the server forgets it, a classic master ends with it."""
    if spark in _OPEN:
        _send_what_is_due()
    spark.stop()
    _WITH_CODE.discard(spark)
    if _OPEN.pop(spark, None) is not None:
        cast(Any, spark).client.close = _is_closed


@contextmanager
def session_for_a_while(spark: SparkSession) -> Iterator[SparkSession]:
    """Another session at the same Connect endpoint, closed behind the block; of a classic master the one that it has.

    The server keeps every table that a session sends it for as long as the session lasts.
    """
    url = _OPEN.get(spark)
    if url is None:
        yield spark
        return
    own = connect(url)
    try:
        yield own
    finally:
        close(own)
        _make_active(spark)


def ship_code(spark: SparkSession) -> None:
    """Has the workers of a Connect server import this very package; nothing happens where a session has it already.

    A server that keeps what sessions send it apart, as Spark does by default, gets what workers import, once a session:
    half a megabyte, of which Spark leaves a copy with the driver and each executor until they end. Where
    it does not (`spark.sql.artifact.isolation.enabled=false`, as on the local server) a file would be everybody's, and
    would be missed by others when this session ends: there the workers have to find the package on their path, and a
    grouped map refuses to decide where they find another one. A classic master has it on its executors' path.
    """
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    session: object = spark  # the stubs know the classic class alone
    if spark in _WITH_CODE or not isinstance(session, ConnectSession):
        return
    _WITH_CODE.add(spark)
    if spark.conf.get(ISOLATION, "true") != "true":
        return
    folder = Path(tempfile.mkdtemp(prefix="evenkeel-"))
    try:
        spark.addArtifacts(str(package_zip(folder, workers_files())), pyfile=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


ISOLATION = "spark.sql.artifact.isolation.enabled"
_WITH_CODE: set[Any] = set()
"""Sessions whose workers have the package, until `close`."""


def package_zip(folder: Path, files: Files | None = None) -> Path:
    """These files of the package, or all that this process first read, as a zip that can stand on a Python path.

    Equal code gives equal bytes.
    """
    files = package_files() if files is None else files
    path = folder / f"evenkeel-{runtime_digest(files)[:16]}.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, body in files.items():
            archive.writestr(zipfile.ZipInfo(f"evenkeel/{name}"), body, zipfile.ZIP_DEFLATED)
    return path


# Results that stay with the server, computed once.


def keep(frame: DataFrame, storage_level: StorageLevel | None = None) -> DataFrame:
    """Computes the frame and keeps its rows with the server for as long as the answer is in use.

    pyspark's Connect client binds what a checkpoint gives to the thread's active session, which is the first one that
    was opened there and not always the frame's own; asked in that one, the server knows nothing of it.
    """
    _make_active(frame.sparkSession)
    if storage_level is None:
        return frame.localCheckpoint(eager=True)
    return frame.localCheckpoint(eager=True, storageLevel=storage_level)


def _make_active(session: Any) -> None:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    if isinstance(session, ConnectSession):
        ConnectSession._active_session.session = session
