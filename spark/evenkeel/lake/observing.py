"""Metrics of the rows that a write writes, taken in the very job that writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def observed(
    frame: DataFrame, metrics: Sequence[Column], name: str
) -> tuple[DataFrame, Callable[[DataFrame], Mapping[str, Any]]]:
    """The frame with its metrics observed, and what gives their values once a frame made of it was written.

    Spark Connect's `Observation` asks the server first whether the frame is a stream, which means analysing it once
    more; a name instead of an object asks nothing.
    """
    from pyspark.sql import Observation
    from pyspark.sql.connect.dataframe import DataFrame as ConnectFrame

    if isinstance(frame, ConnectFrame):
        return frame.observe(name, *metrics), lambda written: _told(written, name)
    observation = Observation(name)
    return frame.observe(observation, *metrics), lambda _written: observation.get


def _told(written: DataFrame, name: str) -> Mapping[str, Any]:
    info = written.executionInfo
    return dict(info.flows)[name] if info is not None else {}
