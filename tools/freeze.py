"""Fingerprints of everything that this checkout decides, to show that a change of the code changes no decision.

`take` runs all golden cases, the demo's recordings and every recording that is named, with the code of this checkout,
and writes one JSON file. `compare` names every difference between two such files, and exits 1 if there is one:

    python tools/freeze.py take --out before.json
    python tools/freeze.py take --out after.json        (in the checkout with the change)
    python tools/freeze.py compare before.json after.json

Of a cycle the file holds what its manifest says of the decision and, per table, the rows' number and digests; of a
golden case it holds a digest of the whole answer. Write ids, run ids, paths, clock times and the code's version differ
between two runs of the same code, so they are left out. Each digest is also taken without the stored sentences: a
change of wording alone passes `compare --without-sentences`.

The cycles run through `evenkeel rebalance` and the rows are read with `deltalake`, so the script outlives a change of
the package's modules.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # devtools is not part of the installed package
GOLDEN = ROOT / "tests" / "golden"
DEMO = ROOT / "demo"
SNAPSHOT = re.compile(r"\d+\.jsonl?(\.gz)?")
# Every other column of a manifest is compared. These differ between two runs of the same code.
OF_THE_RUN = frozenset(
    {"write_id", "attempt_id", "predecessor_attempt_id", "snapshot", "files", "run_id", "code_version", "code_digest"}
    | {"recorded_at", "body_digest", "previous_digest", "manifest_digest"}
)
SENTENCE = "sentence"
ABSENT = object()
Row = Mapping[str, Any]
Fingerprints = dict[str, Any]


def main() -> int:
    """Runs `take` or `compare`; 0 if all went well and nothing differs, 1 if something differs, 2 if a run failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="take|compare")
    take = commands.add_parser("take", help="run everything and write the fingerprints")
    take.add_argument("--out", type=Path, required=True, metavar="FILE", help="rewritten after every recording")
    take.add_argument(
        *("--recordings", "--recording"),
        nargs="+",
        type=Path,
        default=[],
        metavar="DIR",
        help="recordings beside the demo's: a folder of snapshots, or a folder of such folders",
    )
    take.add_argument(
        "--every",
        type=int,
        default=1,
        metavar="N",
        help="take one N-th of each named recording: its first snapshot and consecutive ones from its middle",
    )
    take.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="settings of named recordings")
    take.add_argument("--resume", action="store_true", help="keep what FILE already holds; run what is missing")
    take.add_argument("--lakes", type=Path, metavar="DIR", help="keep the lakes there (default: they are deleted)")
    take.set_defaults(run=_take)
    compare = commands.add_parser("compare", help="name every difference between two files of fingerprints")
    compare.add_argument("before", type=Path, metavar="BEFORE")
    compare.add_argument("after", type=Path, metavar="AFTER")
    compare.add_argument("--without-sentences", action="store_true", help="accept a change of wording")
    compare.set_defaults(run=_compare)
    given = parser.parse_args()
    code: int = given.run(given)
    return code


def _take(given: argparse.Namespace) -> int:
    found: Fingerprints = {"golden": {}, "recordings": {}}
    if given.resume and given.out.exists():
        found = json.loads(given.out.read_text())
    sys.path.insert(0, str(ROOT / "spark"))
    _say("golden cases")
    found["golden"] = dict(golden_cases())
    _write(given.out, found)
    wanted = recordings_in([DEMO / "recordings", DEMO / "generated"]) | recordings_in(given.recordings)
    missing = {name: folder for name, folder in wanted.items() if name not in found["recordings"]}
    failed = []
    with tempfile.TemporaryDirectory(prefix="evenkeel-freeze-") as home:
        place = given.lakes.absolute() if given.lakes else Path(home)
        with _server(Path(home)) as environment:
            for number, (name, folder) in enumerate(missing.items(), start=1):
                of_demo = folder.is_relative_to(DEMO)
                snapshots = sample(folder, 1 if of_demo else given.every)
                _say(f"recording {number} of {len(missing)}: {name}, {len(snapshots)} snapshots")
                settings = _demo_settings(folder) if of_demo else given.set
                code = _rebalance(place / name, snapshots, settings, environment)
                if code > 1:
                    failed.append(name)
                    continue
                found["recordings"][name] = cycles_of(place / name / "lake")
                _write(given.out, found)
    _say(f"{len(found['golden'])} golden cases, {sum(map(len, found['recordings'].values()))} cycles: {given.out}")
    if failed:
        _say(f"could not be run: {', '.join(failed)}")
    return 2 if failed else 0


def _compare(given: argparse.Namespace) -> int:
    before, after = (json.loads(path.read_text()) for path in (given.before, given.after))
    lines = differences(before, after, with_sentences=not given.without_sentences)
    for line in lines:
        print(line)
    cycles = sum(len(recording) for recording in before["recordings"].values())
    print(f"{len(before['golden'])} golden cases and {cycles} cycles compared: {len(lines)} differences")
    return 1 if lines else 0


def differences(before: Fingerprints, after: Fingerprints, *, with_sentences: bool = True) -> list[str]:
    """One line for every golden case, recording, cycle, table and figure that differs or that one side lacks."""
    lines = [
        f"golden case {case}: {what}"
        for case, what in _pairs(before["golden"], after["golden"], "fingerprint", with_sentences)
    ]
    for name, was, now in _sides(before["recordings"], after["recordings"]):
        if ABSENT in (was, now):
            lines.append(f"recording {name}: {_where_absent(was)}")
            continue
        for cycle, old, new in _sides(was, now):
            if ABSENT in (old, new):
                lines.append(f"{name} {cycle}: cycle {_where_absent(old)}")
                continue
            lines += [f"{name} {cycle}: {what}" for what in _of_cycle(old, new, with_sentences)]
    return lines


def _of_cycle(old: Fingerprints, new: Fingerprints, with_sentences: bool) -> Iterator[str]:
    for column, was, now in _sides(old["manifest"], new["manifest"]):
        if ABSENT in (was, now):
            yield f"{column}: {_where_absent(was)}"
        elif was != now:
            yield f"{column}: {json.dumps(was)}, then {json.dumps(now)}"
    for part in ("tables", "reads"):
        kind = "table" if part == "tables" else "rows read of"
        for table, what in _pairs(old[part], new[part], "digest", with_sentences):
            yield f"{kind} {table}: {what}"


def _pairs(before: Row, after: Row, noun: str, with_sentences: bool) -> Iterator[tuple[str, str]]:
    """Names that only one side has, and names whose fingerprints differ, each with what differs."""
    for name, was, now in _sides(before, after):
        if ABSENT in (was, now):
            yield name, _where_absent(was)
            continue
        for key, old, new in _sides(was, now):
            if old != new and (with_sentences or key in ("rows", "without_sentences")):
                yield name, f"{key} {old}, then {new}" if key == "rows" else f"{noun} ({key}) {old}, then {new}"


def _sides(before: Row, after: Row) -> Iterator[tuple[str, Any, Any]]:
    for name in sorted(before.keys() | after.keys()):
        yield name, before.get(name, ABSENT), after.get(name, ABSENT)


def _where_absent(was: Any) -> str:
    return "only in the second file" if was is ABSENT else "missing in the second file"


def golden_cases() -> Iterator[tuple[str, dict[str, str]]]:
    """Each golden case with a digest of the whole answer; of a refusal, `without_sentences` leaves out the message."""
    from devtools.conformance.cases import case_files, read_cases
    from devtools.conformance.runner import judge

    for file in case_files([GOLDEN]):
        for case in read_cases(file):
            verdict = judge(case)
            refused = isinstance(verdict.got, str)
            bare = verdict.got.partition(":")[0] if refused else verdict.got
            yield case.id, {"answer": _digest([verdict.got]), "without_sentences": _digest([bare])}


def cycles_of(lake: Path) -> dict[str, Fingerprints]:
    """The fingerprints of every attempt in a lake, by its cycle's moment and its number, as its last manifest has it.

    `manifest` holds the columns that do not depend on the run, `tables` what the attempt wrote and `reads` what it took
    from the cycle before it.
    """
    last: dict[str, dict[str, Any]] = {}
    for row in sorted(DeltaTable(lake / "cycles").to_pyarrow_table().to_pylist(), key=lambda row: row["sequence"]):
        last[f"{row['cycle_at'].isoformat()} attempt {row['attempt']}"] = row
    contents = _Contents(lake)
    return {name: _fingerprint(row, contents) for name, row in last.items()}


def _fingerprint(row: Row, contents: _Contents) -> Fingerprints:
    left_out = OF_THE_RUN | {"writes", "reads"}
    manifest = {name: value for name, value in row.items() if name not in left_out}
    tables, reads = (_tables(row["cluster"], row[part], contents) for part in ("writes", "reads"))
    return {"manifest": json.loads(_text(manifest)), "tables": tables, "reads": reads}


def _tables(cluster: str, writes: Iterable[Row], contents: _Contents) -> Fingerprints:
    """Per table the number of rows that the manifest lists, and digests of the rows, whole and without sentences."""
    by_table: dict[str, list[Row]] = {}
    for write in writes:
        by_table.setdefault(write["table"], []).append(write)
    found: Fingerprints = {}
    for table, own in sorted(by_table.items()):
        rows = [row for write in own for row in contents.rows(table, write["write_id"]) if row["cluster"] == cluster]
        bare = [{name: value for name, value in row.items() if name != SENTENCE} for row in rows]
        found[table] = {
            "rows": sum(write["rows"] for write in own),
            "whole": _digest(rows),
            "without_sentences": _digest(bare),
        }
    return found


class _Contents:
    """The rows of a lake's tables by write id; each table is read once."""

    def __init__(self, lake: Path) -> None:
        self._lake = lake
        self._tables: dict[str, dict[str, list[Row]]] = {}

    def rows(self, table: str, write_id: str) -> list[Row]:
        """The rows of a write without its id."""
        if table not in self._tables:
            by_write: dict[str, list[Row]] = {}
            for row in DeltaTable(self._lake / table).to_pyarrow_table().to_pylist():
                by_write.setdefault(row.pop("write_id"), []).append(row)
            self._tables[table] = by_write
        return self._tables[table].get(write_id, [])


def recordings_in(folders: Iterable[Path]) -> dict[str, Path]:
    """The recordings among these folders and in them, by the name of their folder; a name may stand for one only."""
    found: dict[str, Path] = {}
    for given in folders:
        folder = given.absolute()
        if not folder.is_dir():
            raise SystemExit(f"freeze: there is no folder {given}")
        own = [folder] if _snapshots(folder) else sorted(one for one in folder.iterdir() if _snapshots(one))
        for one in own:
            if found.setdefault(one.name, one) != one:
                raise SystemExit(f"freeze: two recordings are called {one.name}: {found[one.name]} and {one}")
    return found


def sample(folder: Path, every: int) -> list[Path]:
    """One n-th of a recording's snapshots, two at least where it has two: the first, which holds the brokers'
    configuration, and consecutive ones from the middle, since a cycle goes on from the state of the one before it."""
    snapshots = _snapshots(folder)
    count = max(2, -(-len(snapshots) // every))
    if count >= len(snapshots):
        return snapshots
    begin = 1 + (len(snapshots) - count) // 2
    return [snapshots[0], *snapshots[begin : begin + count - 1]]


def _snapshots(folder: Path) -> list[Path]:
    return sorted(one for one in folder.iterdir() if SNAPSHOT.fullmatch(one.name)) if folder.is_dir() else []


def _demo_settings(folder: Path) -> list[str]:
    clusters = tomllib.loads((DEMO / "evenkeel.toml").read_text())["clusters"]
    own = [one for one in clusters.values() if (DEMO / one["recording"]) == folder]
    return [f"{key}={value}" for one in own for key, value in one.get("settings", {}).items()]


def _rebalance(place: Path, snapshots: Iterable[Path], settings: Iterable[str], environment: Mapping[str, str]) -> int:
    """Runs all cycles into `place`/lake. Rows hold the snapshot's path as it was given, so it is the same everywhere:
    relative to the folder that the command runs in."""
    (place / "recording").mkdir(parents=True)
    for snapshot in snapshots:
        (place / "recording" / snapshot.name).symlink_to(snapshot)
    command = [sys.executable, "-m", "evenkeel.cli", "rebalance", "--recording", "recording", "--lake", "lake", "--all"]
    given = [argument for pair in settings for argument in ("--set", pair)]
    return subprocess.run([*command, *given], cwd=place, env=environment, stdout=sys.stderr).returncode


@contextmanager
def _server(home: Path) -> Iterator[dict[str, str]]:
    """One Spark server for all recordings; gives the environment that leads a command to it and to this checkout."""
    environment = {name: value for name, value in os.environ.items() if name != "EVENKEEL_SPARK"}
    environment |= {"EVENKEEL_HOME": str(home), "PYTHONPATH": str(ROOT / "spark")}
    engine = [sys.executable, "-m", "evenkeel.cli", "engine"]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the server ends with this script
    try:
        subprocess.run([*engine, "start"], env=environment, stdout=sys.stderr, check=True)
        yield environment
    finally:
        subprocess.run([*engine, "stop"], env=environment, stdout=sys.stderr)


def _digest(values: Iterable[Any]) -> str:
    """A digest of values in any order: rows of a table have none."""
    return hashlib.sha256("\n".join(sorted(map(_text, values))).encode()).hexdigest()[:32]


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def _write(file: Path, found: Fingerprints) -> None:
    partial = file.with_name(f"{file.name}.partial")
    partial.write_text(json.dumps(found, indent=1, sort_keys=True))
    partial.replace(file)


def _say(text: str) -> None:
    print(f"freeze: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
