"""`python -m devtools.demo`: the whole pipeline under Airflow, over the recordings in `demo/`."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

from devtools.demo import afternoon
from devtools.demo.course import Leg, course
from devtools.demo.folder import DemoFolder, taken
from devtools.demo.progress import Console, run_leg
from devtools.demo.summary import bullet, comparison_lines, decision_lines, outcome, totals
from devtools.local_airflow.home import Wiring
from devtools.local_airflow.service import airflow_for
from evenkeel.airflow.order import AirflowError
from evenkeel.errors import BadInput, EvenkeelError
from evenkeel.lake.store import Lake
from evenkeel.lake.table_files import is_delta_table
from evenkeel.object_store import access, explained, hand_over, is_object_store
from evenkeel.report import build_report
from evenkeel.spark.code import source_root
from evenkeel.spark.home import Home
from evenkeel.spark.server import airflow_connection, engine_beside, free_port

# The cluster in whose recording Pulsar's own shedder was at work.
COMPARED = "own-threshold"
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; 0 when all of it worked, 1 with a message when not, 130 when it was interrupted."""
    asked = _parse(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    console = Console()
    try:
        with taken(asked.build) as folder:
            return _demo(asked, folder, console)
    except KeyboardInterrupt:
        console.end()
        console.say("Interrupted; everything that was started has been ended.")
        return INTERRUPTED
    except Exception as error:
        reason = error if isinstance(error, EvenkeelError) else explained(error, asked.lake)
        if reason is None:
            raise
        console.end()
        console.say(f"The demo failed: {reason}")
        return 1


def _demo(asked: argparse.Namespace, folder: DemoFolder, console: Console) -> int:
    if folder.path != asked.build.resolve():
        console.say(f"{asked.build} is in use by another demo; this one works in {folder.path}")
    folder.clear()
    lake = _lake(asked, folder)
    legs = course(asked.config, cycles=asked.cycles)
    console.say(f"{len(legs)} cycles over recordings of a real Pulsar cluster: one per snapshot, which is as few as")
    console.say("show a broker that dies, one that is overloaded for minutes, and an anti-affinity group at work")
    console.say("starting the Spark Connect server (on the JVM from PyPI), and Airflow beside it")
    port = free_port()
    with engine_beside(folder.path, port) as starting:
        wiring = Wiring(source_root().parent, airflow_connection(folder.path, port), lake, asked.config)
        with airflow_for(folder.airflow, wiring, say=console.say) as airflow:
            engine = starting.result()
            hand_over(Home.of(engine.home).folder, lake)
            console.say(f"Airflow runs at {airflow.url} for the length of the demo; tasks below with their seconds")
            for number, leg in enumerate(legs, start=1):
                console.begin(f"[{number:2d}/{len(legs)}] {leg.cluster} {leg.clock}:")
                ran = run_leg(leg, airflow, engine, console)
                console.end(f" ({ran.seconds:.1f} s)")
                if ran.failure:
                    raise AirflowError(f"{ran.failure}\nAirflow's logs lie in {folder.airflow / 'logs'}.")
                console.say(f"{'':8}{outcome(lake, leg)}")
            airflow.leave()
            past = asked.config.parent / afternoon.RECORDING
            if asked.cycles is None and past.is_dir():
                console.say("Airflow is told to end; a backfill: the snapshots of an afternoon, decided as one window")
                console.say(f"{'':8}{afternoon.backfill(lake, past, engine).text()}")
            console.say("writing the report")
            build_report(lake, out=folder.report)
    console.say("Airflow and the Spark Connect server have been stopped")
    _tell(asked, folder, lake, legs, console)
    return 0


def _lake(asked: argparse.Namespace, folder: DemoFolder) -> str:
    """Return the folder of the tables. Raises BadInput if a lake already exists in it; that lake stays unchanged."""
    if asked.lake is None:
        return str(folder.lake)
    lake = Lake(asked.lake)
    if is_object_store(lake.root):
        access()  # faults are reported before anything is started
    if is_delta_table(lake.path("cycles")):
        raise BadInput(f"a lake already exists at {lake.root}, and a demo begins without one: name another place")
    return lake.root


def _tell(asked: argparse.Namespace, folder: DemoFolder, lake: str, legs: Sequence[Leg], console: Console) -> None:
    sums = totals(lake)
    place = _short(lake)
    recordings = asked.config.parent / "recordings"
    for line in (
        "",
        f"{sums.cycles} cycles: {sums.splits} splits, {sums.unloads} unloads, {sums.placements} placements, "
        f"{sums.refusals} refusals. A dry run: nothing was sent to any cluster.",
        *bullet(decision_lines(lake)),
        *_beside_pulsar(lake, recordings / COMPARED),
        "",
        f"report   {_short(folder.report)}  (open it in a browser; it needs no network)",
        f"tables   {place}  (Delta)",
        f'next     make ui ARGS="--lake {place}"   Airflow and the desk over these tables, until Ctrl-C',
        "         make ui                               the same over a week of three larger clusters",
        f"         .venv/bin/evenkeel report --lake {place} --cluster {legs[-1].cluster} --cycle latest",
        f"         .venv/bin/evenkeel rebalance --recording {_short(recordings / legs[-1].cluster)} "
        "--lake build/my-lake --all",
    ):
        console.end(line)


def _beside_pulsar(lake: str, recording: Path) -> list[str]:
    lines = comparison_lines(lake, COMPARED, recording) if recording.is_dir() else []
    return ["", f"Beside Pulsar's own shedder, which was at work in {COMPARED}:", *bullet(lines)] if lines else []


def _short(path: Path | str) -> str:
    """Return the path relative to the working directory, if it is below; the address of an object store unchanged."""
    if is_object_store(str(path)):
        return str(path)
    try:
        return str(Path(path).resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    checkout = source_root().parent
    parser = argparse.ArgumentParser(prog="python -m devtools.demo", description=__doc__)
    parser.add_argument("--build", type=Path, default=checkout / "build" / "demo", help="folder for all that it makes")
    parser.add_argument("--config", type=Path, default=checkout / "demo" / "evenkeel.toml", help="clusters to run over")
    parser.add_argument("--lake", help="where the tables go, a folder or s3a://BUCKET/PREFIX; default: beside the rest")
    parser.add_argument("--cycles", type=int, help="only the first so many cycles")
    return parser.parse_args(arguments)


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    """Turn a request to end into an exception, so that every `with` block ends what it started."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
