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
from evenkeel.spark import SESSION_SETTINGS
from evenkeel.spark.code import Files, package_files, runtime_digest, source_root, workers_files
from evenkeel.spark.command import (
    CLIENT_HOST,
    LOCAL_SETTINGS,
    SQL_SETTINGS,
    token_given,
    without_token,
)
from evenkeel.spark.endpoint import demand_answer, token_refused
from evenkeel.spark.jars import classic_java, delta_jars

if TYPE_CHECKING:
    from pyspark import StorageLevel
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.connect.client.retries import RetryPolicy


CONNECT_SCHEMES = ("sc://", "spark-connect://")
LOCAL_ENDPOINTS = ("sc://127.0.0.1", "sc://localhost")


def connect(url: str, app_name: str = "evenkeel") -> SparkSession:
    """Open a session at `url`.

    At a Connect endpoint it is a new session that is not shared; close it with `close`, since the server keeps unclosed
    ones. A classic master has one session for each process; it needs a full JDK.
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

    # As the process ends, pyspark asks the server to forget machine learning models. There are none. If the server
    # ended first, or refused this client, the process would retry for more than ten minutes.
    cast(Any, SparkConnectClient)._cleanup_ml_cache = _nothing
    if is_elsewhere(url):
        demand_answer(url)
    before = _sessions_in_use()
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # as pyspark's own builder does for a URL
    try:
        builder = ConnectSession.builder.channelBuilder(TokenInHeader(url)).appName(app_name)
        connected = builder.config(map=dict(SESSION_SETTINGS)).create()
    except Exception as error:
        _drop_sessions_since(before)
        if "UNAUTHENTICATED" in str(error):
            raise token_refused(url) from None
        raise
    session = cast("SparkSession", connected)
    client = cast(Any, session).client  # the stubs take it for something that is called
    if not is_elsewhere(url):
        client.set_retry_policies([_impatient()])
    _OPEN[session] = url
    return session


def with_token(url: str) -> str:
    """Return the URL with its token as a parameter: its own token, else that of the environment.

    Its own token may also be a password before the host, as in Airflow's connections. pyspark encrypts requests with a
    token unless the host's name is `localhost`. A server on this machine speaks no TLS, so its address is written as
    that name.
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
    """Return True if a Connect URL leads to another machine, or through a TLS proxy on this one."""
    return not url.startswith(LOCAL_ENDPOINTS) or "use_ssl=true" in url.lower()


_OPEN: dict[SparkSession, str] = {}
"""Connect sessions until `close`, with the URL of each, so that no garbage collection ends one.

pyspark's `SparkSession.__del__` closes the client, also a second time, and waits for threads of all sessions. If the
collector runs in a thread of gRPC, which holds the lock that those threads need, the process hangs.
"""


def _sessions_in_use() -> tuple[Any, Any]:
    """Return the sessions that pyspark uses by itself: the thread's active one, and the process's default."""
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    return getattr(ConnectSession._active_session, "session", None), ConnectSession._default_session


def _drop_sessions_since(before: tuple[Any, Any]) -> None:
    """Forget a session that the server refused: pyspark would use it instead of the one that works."""
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    for broken in {
        id(session): session for session in _sessions_in_use() if session is not None and session not in before
    }.values():
        broken.client._channel.close()
        broken.client.close = _nothing
    ConnectSession._active_session.session, ConnectSession._default_session = before


def _nothing(*_: object) -> None:
    """Replace pyspark's requests at the end of the process, and the `close` of a closed client."""


def _send_what_is_due() -> None:
    """Wait until the server has received all acknowledgements of results.

    pyspark sends them in the background, and the server logs an error with its trace for each that arrives after the
    session is closed.
    """
    from pyspark.sql.connect.client.reattach import ExecutePlanResponseReattachableIterator

    ExecutePlanResponseReattachableIterator.shutdown()


def _impatient() -> RetryPolicy:
    """Return a policy that gives up after some seconds, not ten minutes: an ended local server does not come back."""
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
    return builder.getOrCreate()


def classic_settings(master: str) -> dict[str, str]:
    """Return the settings of a classic master: those of the Connect server, Delta's jars, and where the package is.

    The security of a cluster is its operator's.
    """
    is_local = master == "local" or master.startswith("local[")
    own = {"spark.jars": ",".join(map(str, delta_jars())), "spark.executorEnv.PYTHONPATH": str(source_root())}
    return {**SQL_SETTINGS, **(LOCAL_SETTINGS if is_local else {}), **own}


def close(spark: SparkSession) -> None:
    """End the session; at a Connect endpoint the server forgets it, a classic master ends with it."""
    if spark in _OPEN:
        _send_what_is_due()
    spark.stop()
    _WITH_CODE.discard(spark)
    if _OPEN.pop(spark, None) is not None:
        cast(Any, spark).client.close = _nothing


@contextmanager
def session_for_a_while(spark: SparkSession) -> Iterator[SparkSession]:
    """Open another session at the same Connect endpoint, closed after the block; give the same session of a classic
    master.

    The server keeps every table that a session sends it for as long as the session lasts.
    """
    url = _OPEN.get(spark)
    if url is None:
        yield spark
        return
    session = connect(url)
    try:
        yield session
    finally:
        close(session)
        _make_active(spark)


def ship_code(spark: SparkSession) -> None:
    """Make the workers of a Connect server import this package; do nothing if the session has it already.

    By default Spark keeps the files of sessions apart. Such a server gets the workers' imports once a session: half a
    megabyte, of which Spark leaves a copy with the driver and each executor until they end. Other servers
    (`spark.sql.artifact.isolation.enabled=false`, as the local one) would share a file between all sessions, which
    would miss it when this one ends. Their workers find the package on their path, and a grouped map refuses to decide
    if they find another one. A classic master has it on its executors' path.
    """
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    session: object = spark  # the stubs know only the classic class
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
    """Write the given files of the package, or all that this process first read, as a zip for a Python path.

    Equal code gives equal bytes.
    """
    files = package_files() if files is None else files
    path = folder / f"evenkeel-{runtime_digest(files)[:16]}.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, body in files.items():
            archive.writestr(zipfile.ZipInfo(f"evenkeel/{name}"), body, zipfile.ZIP_DEFLATED)
    return path


def keep(frame: DataFrame, storage_level: StorageLevel | None = None) -> DataFrame:
    """Compute the frame and keep its rows with the server for as long as the returned frame is in use.

    pyspark's Connect client binds a checkpoint's result to the thread's active session. That is the first one that was
    opened in the thread, not always the frame's own, and in it the server does not know the result.
    """
    _make_active(frame.sparkSession)
    if storage_level is None:
        return frame.localCheckpoint(eager=True)
    return frame.localCheckpoint(eager=True, storageLevel=storage_level)


def _make_active(session: Any) -> None:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    if isinstance(session, ConnectSession):
        ConnectSession._active_session.session = session
