"""`evenkeel log` and `evenkeel prove`: the transparency log of a lake with its keys, and proofs by it."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenkeel.cli.lakes import ALL, add_lake_option, first_with, lakes_chosen
from evenkeel.cli.options import check_file, check_folder
from evenkeel.cli.output import add_command, add_json, course_of, print_result
from evenkeel.errors import BadInput, SettingsError
from evenkeel.model.amounts import plural
from evenkeel.transparency import LOG_KEY

if TYPE_CHECKING:
    from evenkeel.transparency.keys import SignerKey
    from evenkeel.transparency.lake_log import Growth
    from evenkeel.transparency.witnesses import WitnessState


NOT_SOUND = 1
_LOG_EPILOG = f"""A log's private key is in {LOG_KEY}, or in a file that only its owner may read: {LOG_KEY}=file:PATH.
Publish the verifier key that make-key prints: those who check a proof need it, by a way that
writers of the lake cannot change. Witnesses are in EVENKEEL_WITNESSES: one a line, `<verifier key>
<URL>`, the path of a file, `s3://BUCKET/PREFIX` of a bucket with Object Lock, or `rfc3161 <URL> ca_file=PATH`."""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `log` and `prove`."""
    parser = add_command(
        commands, "log", "the transparency log of a lake: begin, catch up, show; its keys", _LOG_EPILOG
    )
    acts = parser.add_subparsers(dest="act", required=True, metavar="ACT")
    make = acts.add_parser("make-key", help="make a private key, and print its verifier key")
    make.add_argument("name", metavar="NAME", help="the log's name, e.g. example.com/evenkeel")
    make.add_argument("--out", required=True, metavar="FILE", help="a new file, which its owner alone may read")
    add_json(make)
    make.set_defaults(run=make_key)
    for name, words, run in (
        ("begin", "begin the log of a lake with all that is on record", begin_log),
        ("catch-up", "change keys, adopt commits, and give the checkpoint to the witnesses", catch_up_log),
        ("show", "say what the log has, and how far the witnesses are", show_log),
    ):
        subparser = acts.add_parser(name, help=words)
        subparser.add_argument("--lake", required=True, metavar="DIR", help="where the tables are")
        if name == "catch-up":
            subparser.add_argument(
                "--adopt",
                action="store_true",
                help="take in the commits that no task handed on, with your login in their leaves: of a killed task, "
                "or of a publish that could not log. Know whose they are before",
            )
            subparser.add_argument(
                "--old-key-is-lost",
                metavar="VKEY",
                help="go on with a new key though the old one, of this verifier key, is not there to sign; is told in "
                "the log, and whoever has the old verifier key has to be given the new one",
            )
        add_json(subparser)
        subparser.set_defaults(run=run)
    _add_prove(commands)


def make_key(given: argparse.Namespace) -> int:
    """Write a new private key into a file, and print the verifier key."""
    from evenkeel.transparency.keys import SignerKey, make_key_file

    key = SignerKey.make(given.name)
    make_key_file(Path(given.out), key.secret())
    print_result(given, key.verifier.text, {"verifier_key": key.verifier.text, "file": given.out})
    return 0


def begin_log(given: argparse.Namespace) -> int:
    """Begin a log, and report its first leaves."""
    from evenkeel.transparency.lake_log import begin

    check_folder(given.lake, "--lake")
    signers = _signers()
    with course_of("commits") as progress:
        growth = begin(given.lake, signers, progress=progress)
    words = [
        f"the log {signers[0].verifier.name} begins with {plural(growth.commits, 'commit')}, which had no "
        "witness before; give its verifier key to those who check proofs:",
        *(signer.verifier.text for signer in signers),
    ]
    return _told(given, signers, growth, words)


def catch_up_log(given: argparse.Namespace) -> int:
    """Change the log's keys, adopt commits if asked, inform the witnesses; 1 if a table or witness contradicts it."""
    from evenkeel.spark.home import login
    from evenkeel.transparency.keys import VerifierKey
    from evenkeel.transparency.lake_log import append_commits
    from evenkeel.transparency.overview import read_overview

    signers = _signers()
    lost = None if given.old_key_is_lost is None else VerifierKey.read(given.old_key_is_lost)
    with course_of("commits") as progress:
        growth = append_commits(
            given.lake, signers, adopt_by=login() if given.adopt else "", lost=lost, progress=progress
        )
    words = [f"{plural(growth.leaves, 'leaf', 'leaves')} appended"]
    if growth.rotation is not None:
        words.append(f"the log's keys have changed, and its last leaf says so: {growth.rotation.words}")
    overview = read_overview(given.lake, signers)
    code = _told(given, signers, growth, [*words, *overview.table_words()])
    return NOT_SOUND if overview.lost else code


def show_log(given: argparse.Namespace) -> int:
    """Print the checkpoint, the keys and their rotations, commits without a leaf or lost, and the witnesses; 1 if
    commits are lost, or a witness has seen another tree."""
    from evenkeel.transparency.keys import signers_from_environment
    from evenkeel.transparency.overview import read_overview

    overview = read_overview(given.lake, signers_from_environment())
    lines = [overview.checkpoint.note.data.decode()]
    lines += [
        f"key: {key.text}{'' if key in overview.named else ', which the log does not name'}" for key in overview.keys
    ]
    lines += [f"keys were changed at {line}" for line in overview.rotations]
    result = {
        "checkpoint": overview.checkpoint.note.data.decode(),
        "leaves": overview.checkpoint.checkpoint.size,
        "keys": [{"verifier_key": key.text, "named": key in overview.named} for key in overview.keys],
        "rotations": [*overview.rotations],
        "unlogged": dict(overview.unlogged),
        "lost": dict(overview.lost),
        "witnesses": [*map(_witness, overview.witnesses)],
    }
    print_result(given, "\n".join([*lines, *overview.table_words(), *overview.witness_words()]), result)
    return NOT_SOUND if overview.is_wrong else 0


def _told(given: argparse.Namespace, signers: tuple[SignerKey, ...], growth: Growth, words: Sequence[str]) -> int:
    """Notify the witnesses, print the words with results and faults; return the exit code."""
    from evenkeel.transparency.lake_log import open_log, storage_of
    from evenkeel.transparency.witnesses import tell_witnesses, witnesses_from_environment

    storage, witnesses = storage_of(given.lake), witnesses_from_environment()
    states = tell_witnesses(storage, open_log(storage, signers), witnesses) if witnesses else []
    size = growth.checkpoint.checkpoint.size
    result = {
        "log": signers[0].verifier.name,
        "verifier_keys": [signer.verifier.text for signer in signers],
        "appended": growth.leaves,
        "commits": growth.commits,
        "leaves": size,
        "rotation": None if growth.rotation is None else growth.rotation.words,
        "witnesses": [*map(_witness, states)],
        "problems": [*growth.problems],
    }
    print_result(given, "\n".join([*words, *(f"witness {state.words(size)}" for state in states)]), result)
    for problem in growth.problems:
        print(problem, file=sys.stderr)
    return NOT_SOUND if growth.problems or any(state.is_inconsistent for state in states) else 0


def _witness(state: WitnessState) -> dict[str, Any]:
    """Return the state of a witness; `seen_at` and `failing_since` in seconds since 1970, None if never."""
    return {
        "name": state.name,
        "leaves": state.size,
        "seen_at": state.at or None,
        "failing_since": state.since or None,
        "fault": state.fault or None,
        "inconsistent": state.is_inconsistent,
    }


def _signers() -> tuple[SignerKey, ...]:
    from evenkeel.transparency.keys import signers_from_environment

    signers = signers_from_environment()
    if not signers:
        raise SettingsError(
            f"{LOG_KEY} is not set: `evenkeel log make-key NAME --out FILE` makes a key, then set {LOG_KEY}=file:FILE"
        )
    return signers


_PROOF_EPILOG = """\
The proof is in the format c2sp.org/tlog-proof: the checkpoint with its signatures, the leaf of a commit,
the hashes between, and the list of the commit's data files. The Parquet file with the row is copied beside it.
Receivers of both check them with tools/check_proof.py, which needs Python, the package cryptography, and your log's
verifier key; with pyarrow it prints the row. It needs neither Evenkeel nor the lake."""


def _add_prove(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """The options of `prove`."""
    parser = add_command(
        commands, "prove", "write a proof of a cycle, or of a decision, for people outside", _PROOF_EPILOG
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
    parser.set_defaults(run=run_prove)


def run_prove(given: argparse.Namespace) -> int:
    """Write the proof and its data file, and report how they are checked."""
    from evenkeel.cli.output import busy_with
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
