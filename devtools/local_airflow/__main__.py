"""`python -m devtools.local_airflow`: Airflow over a lake until Ctrl-C.

By default over a week of three generated clusters, which is made at the first start.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from devtools.local_airflow.home import USER, Wiring
from devtools.local_airflow.service import Airflow, airflow_for
from devtools.week.lake import WeekFolder
from evenkeel.errors import EvenkeelError
from evenkeel.object_store import hand_over
from evenkeel.spark.code import source_root
from evenkeel.spark.home import Home
from evenkeel.spark.server import engine_for

TICK_SECONDS = 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until it is interrupted (0), or until Airflow ends by itself (1)."""
    asked = _parse(arguments)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        _say("starting the Spark Connect server")
        with engine_for(asked.home) as engine:
            lake, configuration = asked.lake, asked.config
            if lake is None:
                week = WeekFolder(asked.home / "week")
                if not week.is_made:
                    week.make(engine, _say)
                lake, configuration = str(week.lake), configuration or week.configuration
            hand_over(Home.of(engine.home).folder, lake)
            wiring = Wiring(
                source_root().parent,
                engine.airflow_connection(),
                lake,
                configuration or source_root().parent / "demo" / "evenkeel.toml",
                asked.schedule,
                upkeep=asked.upkeep,
                heat=asked.heat,
            )
            with airflow_for(asked.home / "airflow", wiring, say=_say) as airflow:
                _serve(airflow)
    except EvenkeelError as error:
        _say(str(error))
        return 1
    except KeyboardInterrupt:
        _say("stopped")
    return 0


def _serve(airflow: Airflow) -> None:
    _say(f"Airflow: {airflow.url}  user {USER}  password {airflow.home.password()}")
    _say(f"the desk: {airflow.url}/evenkeel/")
    _say("Ctrl-C ends it")
    while True:
        airflow.check()
        time.sleep(TICK_SECONDS)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    checkout = source_root().parent
    ui = checkout / "build" / "ui"
    parser = argparse.ArgumentParser(prog="python -m devtools.local_airflow", description=__doc__)
    parser.add_argument("--home", type=Path, default=ui, help="folder for Airflow's and the engine's own files")
    parser.add_argument(
        "--lake",
        help="root of the tables: a folder, or s3a://BUCKET/PREFIX; default: a week of three generated clusters",
    )
    parser.add_argument("--config", type=Path, help="the clusters; default: the demo's, or those of the week")
    parser.add_argument("--schedule", default="none", help="cron expression of `rebalance`; none: manual runs")
    parser.add_argument("--upkeep", default="none", help="cron expression of `upkeep`, once a day; none: manual runs")
    parser.add_argument(
        "--heat", default="none", help="cron expression of `heat`, every ten minutes; none: manual runs"
    )
    return parser.parse_args(arguments)


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
