"""Results that stay with the server, computed once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import StorageLevel
    from pyspark.sql import DataFrame


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
