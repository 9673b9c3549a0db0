"""`evenkeel prove`: a file that proves a decision to a third party, by the log's key and the witnesses'."""

from __future__ import annotations

import argparse
import shlex
from functools import partial
from pathlib import Path

from evenkeel.cli.lakes import ALL, add_lake_option, first_with, lakes_chosen
from evenkeel.cli.options import check_file
from evenkeel.cli.output import add_json, print_result
from evenkeel.errors import BadInput

EPILOG = """The proof is in the format c2sp.org/tlog-proof: the checkpoint with its signatures, the leaf of a commit,
the hashes between, and the list of the commit's data files. The Parquet file with the row is copied beside it.
Receivers of both check them with tools/check_proof.py, which needs Python, the package cryptography, and your log's
verifier key; with pyarrow it prints the row. It needs neither Evenkeel nor the lake."""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "prove",
        help="write a proof of a cycle, or of a decision, for people outside",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("cluster", metavar="CLUSTER")
    parser.add_argument("cycle", metavar="CYCLE", help="the cycle's time (UTC where no zone is given), or `latest`")
    parser.add_argument(
        "--decision", metavar="SUBJECT", help="instead of the manifest, the decision about a bundle, broker or request"
    )
    parser.add_argument("--table", metavar="TABLE", help="only decisions in this table, e.g. unload_decisions")
    parser.add_argument("--number", type=int, metavar="N", help="which of several decisions, as they are listed")
    add_lake_option(parser, ALL)
    parser.add_argument("--log-key", action="append", default=[], metavar="VKEY", help="the log's key, if not its own")
    parser.add_argument(
        "--out", required=True, metavar="FILE", help="the proof; its data file is written beside it, to FILE.parquet"
    )
    add_json(parser)
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Write the proof and its data file, and report how they are checked."""
    from evenkeel.cli.progress import busy_with
    from evenkeel.transparency.keys import VerifierKey
    from evenkeel.transparency.witnesses import witnesses_from_environment
    from evenkeel.verify.prove import TABLES_OF_DECISIONS, prove_cycle

    check_file(given.out, "--out")
    if given.decision is None and (given.table or given.number is not None):
        raise BadInput("--table and --number go with --decision: they say which of several rows is meant")
    if given.table and given.table not in TABLES_OF_DECISIONS:
        raise BadInput(f"--table {given.table}: decisions stand in {', '.join(TABLES_OF_DECISIONS)}")
    witnesses = [witness.address for witness in witnesses_from_environment() if witness.address is not None]
    witness_keys = [key for address in witnesses for key in address.keys]
    proving = partial(
        prove_cycle,
        cluster=given.cluster,
        cycle=given.cycle,
        subject=given.decision,
        table=given.table,
        number=given.number,
        log_keys=[VerifierKey.read(text) for text in given.log_key],
        witness_keys=witness_keys,
    )
    with busy_with("reading the record and its log"):
        proved = first_with(lakes_chosen(given), proving, given.cluster)
    out = Path(given.out)
    file = out.with_name(f"{out.name}.parquet")
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_bytes(proved.proof.data)
    file.write_bytes(proved.content)
    size = proved.proof.checkpoint.split(b"\n", 2)[1].decode()
    row = proved.row
    options = [f"--where {shlex.quote(f'{column}={value}')}" for column, value in row.where.items()]
    options += [f"--log-key {key.text}" for key in proved.keys]
    options += [f"--witness-key {key.text}" for key in witness_keys]
    of = "the manifest" if given.decision is None else f"the decision about {given.decision}"
    at = proved.manifest["cycle_at"].isoformat()
    sizes = f"{out}: {len(proved.proof.data):,} bytes; {file}: {len(proved.content):,} bytes"
    words = (
        f"{given.cluster} at {at}: {of} is in version {row.version} of {row.table}, "
        f"leaf {proved.proof.index} of {size}\n"
        f"{sizes}. Receivers of both check them with\n"
        f"    python tools/check_proof.py {shlex.quote(str(out))} {shlex.quote(str(file))} {' '.join(options)}"
    )
    result = {
        "cluster": given.cluster,
        "cycle_at": proved.manifest["cycle_at"],
        "leaf": proved.proof.index,
        "leaves": int(size),
        "table": row.table,
        "commit": row.version,
        "row": dict(row.where),
        "decision": given.decision,
        "file": str(out),
        "bytes": len(proved.proof.data),
        "data_file": str(file),
        "log_keys": [key.text for key in proved.keys],
        "witness_keys": [key.text for key in witness_keys],
    }
    print_result(given, words, result)
    return 0
