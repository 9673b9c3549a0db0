"""A small lake with a chain of manifests, decisions and approvals, and ways in which somebody may tamper with it.

Written by deltalake, without Spark; its commits are handed on as writers of ours hand theirs on.
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from evenkeel.handover import Commit
from evenkeel.lake.manifest import body_digest
from evenkeel.lake.pending_commits import hand_on, take_away
from evenkeel.lake.schema import SCHEMA_VERSION
from evenkeel.lake.schemas import TABLES
from evenkeel.transparency.keys import SignerKey
from evenkeel.transparency.lake_log import Growth, append_commits, commits_there, numbers_by_table, open_log, storage_of
from evenkeel.transparency.leaves import CommitLeaf, parse_leaf
from tests.lakes.small_lake import arrow_schema, completed
from tests.transparency.logs import LOG_KEY

Row = dict[str, Any]
NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)
BUNDLE = "acme/ns1/0x80000000_0x90000000"
DECISIONS = "unload_decisions"
CLUSTERS = ("lab", "lab", "modular", "modular", "silent")


def small_lake(folder: Path) -> Path:
    """A lake of 11 commits: five publishes of three clusters, and an approval."""
    lake = folder / "lake"
    for cluster in CLUSTERS:
        publish_more(lake, cluster)
    approve(lake)
    return lake


def publish_more(lake: Path, cluster: str, cycles: int = 1, **changed: Any) -> list[Commit]:
    """Further cycles of a cluster, a minute later each, each in a commit of decisions and one of `cycles`, which waits
    for its leaf; `changed`: columns of the manifests. Returns the commits."""
    made: list[Commit] = []
    for _ in range(cycles):
        chain = rows_of(lake, cluster)
        last = chain[-1] if chain else {"cycle_at": NOON, "manifest_digest": "", "sequence": 0}
        at = last["cycle_at"] + timedelta(minutes=1)
        name = hashlib.sha256(f"{cluster}{at}{changed}".encode()).hexdigest()
        own = {"cluster": cluster, "cycle_at": at, "cycle_date": at.date()}
        decisions = [
            {**own, "write_id": name, "subject": subject, "outcome": "unload", "sentence": f"{subject} leaves {n}."}
            for n, subject in enumerate((BUNDLE, BUNDLE, "broker-1:8080"))
        ]
        (decided,) = append(lake, DECISIONS, decisions)
        write = {
            **{"table": DECISIONS, "write_id": name, "version": decided.version, "rows": len(decisions)},
            **{"digest": decided.digest, "commit": decided.digest},
        }
        files = [
            {"table": DECISIONS, "write_id": name, "path": file.path, "size": file.size, "digest": file.digest}
            for file in decided.files
        ]
        common = {
            **own, "write_id": name, "attempt": 1, "attempt_id": name, "plan_id": name, "kind": "live",
            "mode": "dry_run", "writes": [_known("writes", write)], "files": files, "reads": [], "dag_id": "rebalance",
            "run_id": "manual",
            "schema_version": SCHEMA_VERSION, "code_version": "1.0.0", "code_digest": "c0de" * 16,
            "recorded_at": at + timedelta(seconds=9), "predecessor_status": "none", **changed,
        }  # fmt: skip
        rows = [{**common, "row_kind": kind, "status": kind} for kind in ("planned", "closed")]
        completed_rows = [completed(TABLES["cycles"], row) for row in rows]
        manifests = append(lake, "cycles", linked(completed_rows, last["manifest_digest"], last["sequence"]))
        made += [decided, *handed_on(lake, manifests)]
    return made


def _known(column: str, value: Row) -> Row:
    """The value as far as the structs in a column of `cycles` have its fields."""
    kind = arrow_schema(TABLES["cycles"]).field(column).type.value_type
    return {field.name: value[field.name] for field in kind}


def approve(lake: Path, **changed: Any) -> list[Commit]:
    """A row of `approvals`, which waits for its leaf; returns its commit."""
    return handed_on(lake, forge_approval(lake, **changed))


def forge_approval(lake: Path, **changed: Any) -> list[Commit]:
    """A row of `approvals` by somebody who may write to the table; returns its commit."""
    row = {"cluster": "lab", "plan_id": "p" * 64, "answer": "approved", "by": "alice", "at": NOON}
    return append(lake, "approvals", [{**row, **changed}])


def forge_outcome(lake: Path) -> list[Commit]:
    """A row of `outcomes` by somebody who may write to the table; returns its commit."""
    row = {"cluster": "lab", "cycle_at": NOON, "cycle_date": NOON.date(), "write_id": "forged", "command_id": "c" * 32}
    return append(lake, "outcomes", [{**row, "outcome": "done", "seen_at": NOON, "detail": ""}])


def handed_on(lake: Path, commits: list[Commit]) -> list[Commit]:
    """The commits of a table outside manifests, handed on by files."""
    for commit in commits:
        hand_on(str(lake), commit)
    return commits


def append(lake: Path, table: str, rows: list[Row], mode: str = "append") -> list[Commit]:
    """Writes rows in one commit, which is not handed on, and returns it."""
    schema = arrow_schema(TABLES[table])
    body = pa.Table.from_pylist([completed(TABLES[table], row) for row in rows], schema)
    write_deltalake(str(lake / table), body, mode=mode, partition_by=[*TABLES[table].partition])
    return newest_commits(lake, table)


def newest_commits(lake: Path, table: str, count: int = 1) -> list[Commit]:
    """The newest commits of a table."""
    return [*commits_there(str(lake), table, numbers_by_table(str(lake))[table][-count:])]


def grow(lake: Path, commits: list[Commit], *keys: SignerKey) -> Growth:
    """Appends the leaves of commits, signed by these keys; they wait no more."""
    grown = append_commits(str(lake), keys or [LOG_KEY], commits)
    take_away(str(lake), commits)
    return grown


def published(lake: Path, cluster: str = "lab", cycles: int = 1, **changed: Any) -> Growth:
    """Further cycles of a cluster, which are logged."""
    return grow(lake, publish_more(lake, cluster, cycles, **changed))


def leaves(lake: Path) -> list[CommitLeaf]:
    """The leaves of commits, in their order."""
    tree = open_log(storage_of(str(lake))).tree()
    found = [parse_leaf(entry) for entry in tree.entries(0, tree.size)]
    return [leaf for leaf in found if isinstance(leaf, CommitLeaf)]


def size_of(lake: Path) -> int:
    """The number of leaves."""
    return open_log(storage_of(str(lake))).checkpoint().checkpoint.size


def rows_of(lake: Path, cluster: str) -> list[Row]:
    """The rows of a cluster's chain, whole and in order."""
    if not (lake / "cycles").is_dir():
        return []
    rows = DeltaTable(str(lake / "cycles")).to_pyarrow_dataset().to_table().to_pylist()
    return sorted((row for row in rows if row["cluster"] == cluster), key=lambda row: row["sequence"])


def linked(rows: list[Row], head: str, sequence: int) -> list[Row]:
    """The rows as a chain behind a head, with digests and places of their own."""
    found = []
    for number, row in enumerate(rows, start=1):
        made = {**row, "sequence": sequence + number, "previous_digest": head}
        made["body_digest"] = body_digest(made)
        head = made["manifest_digest"] = hashlib.sha256((head + made["body_digest"]).encode()).hexdigest()
        found.append(made)
    return found


def rewrite(lake: Path, table: str, change: Callable[[list[Row]], list[Row]]) -> None:
    """Puts other rows in the place of all rows of a table, as somebody with the right to write may."""
    rows = DeltaTable(str(lake / table)).to_pyarrow_dataset().to_table().to_pylist()
    append(lake, table, change(rows), mode="overwrite")


def set_back(lake: Path, table: str = "cycles", versions: int = 1) -> None:
    """Removes the newest commits of a table, so that it is as it was before them."""
    log = lake / table / "_delta_log"
    for commit in sorted(log.glob("[0-9]*.json"))[-versions:]:
        commit.unlink()


def commit_file(lake: Path, table: str, number: int) -> Path:
    """The JSON of a commit."""
    return lake / table / "_delta_log" / f"{number:020d}.json"


def age(lake: Path, table: str, hours: float) -> None:
    """Has the newest commit of a table say that it was made so many hours ago."""
    file = sorted((lake / table / "_delta_log").glob("[0-9]*.json"))[-1]
    actions = [json.loads(line) for line in file.read_text().splitlines()]
    for action in actions:
        if "commitInfo" in action:
            action["commitInfo"]["timestamp"] -= int(hours * 3_600_000)
    file.write_text("\n".join(map(json.dumps, actions)))


def copied(lake: Path, folder: Path) -> Path:
    """A copy of a lake, or of its log."""
    shutil.copytree(lake, folder)
    return folder
