"""`evenkeel log`: the transparency log of a lake, its keys, and a witness of logs."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenkeel.cli.options import check_folder
from evenkeel.cli.output import add_json, print_result
from evenkeel.cli.progress import course_of
from evenkeel.cli.serving import address_in, cannot_listen, serve_until_ended
from evenkeel.errors import SettingsError
from evenkeel.lake_log import LOG_KEY
from evenkeel.model.amounts import plural

if TYPE_CHECKING:
    from evenkeel.lake_log.catch_up import CaughtUp
    from evenkeel.lake_log.witnessing import WitnessState
    from evenkeel.transparency.keys import SignerKey

NOT_SOUND = 1
EPILOG = f"""A log's private key stands in {LOG_KEY}, or in a file that only its owner may read: {LOG_KEY}=file:PATH.
Give away the verifier key that make-key prints: whoever checks a proof needs it, and gets it from you by a way that
cannot be changed by whoever may write to the lake. Witnesses stand in EVENKEEL_WITNESSES: one a line, `<verifier key>
<URL>`, the path of a file, `s3://BUCKET/PREFIX` of a bucket with Object Lock, or `rfc3161 <URL> ca_file=PATH`."""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "log",
        help="the transparency log of a lake: begin, catch up, show; keys and witnesses",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    acts = parser.add_subparsers(dest="act", required=True, metavar="ACT")
    make = acts.add_parser("make-key", help="make a private key, and print its verifier key")
    make.add_argument("name", metavar="NAME", help="the log's or witness's name, e.g. example.com/evenkeel")
    make.add_argument("--witness", action="store_true", help="a key for a witness, and not for a log")
    make.add_argument("--out", required=True, metavar="FILE", help="a new file, which its owner alone may read")
    add_json(make)
    make.set_defaults(run=make_key)
    for name, words, run in (
        ("begin", "begin the log of a lake with all that is on record", begin_log),
        ("catch-up", "take in what a publish has left, and tell the witnesses", catch_up_log),
        ("show", "say what the log has, and how far the witnesses are", show_log),
    ):
        own = acts.add_parser(name, help=words)
        own.add_argument("--lake", required=True, metavar="DIR", help="where the tables are")
        if name == "catch-up":
            own.add_argument(
                "--old-key-is-lost",
                metavar="VKEY",
                help="go on with a new key though the old one, of this verifier key, is not there to sign; is told in "
                "the log, and whoever has the old verifier key has to be given the new one",
            )
        add_json(own)
        own.set_defaults(run=run)
    serve = acts.add_parser("witness", help="cosign the checkpoints of logs that have grown from what was seen before")
    serve.add_argument("--address", required=True, metavar="HOST:PORT", help="where to listen, e.g. 127.0.0.1:7380")
    serve.add_argument("--key", required=True, metavar="FILE", help="the witness's private key")
    serve.add_argument("--state", required=True, metavar="DIR", help="its memory: never restore an old copy of it")
    serve.add_argument(
        "--log-key", action="append", required=True, metavar="VKEY", help="a log to be witnessed (repeatable)"
    )
    serve.set_defaults(run=serve_witness)


def make_key(given: argparse.Namespace) -> int:
    """Writes a new private key into a file, and prints the verifier key."""
    from evenkeel.lake_log.private_keys import make_key_file
    from evenkeel.transparency.keys import COSIGNATURE, ED25519, SignerKey

    key = SignerKey.make(given.name, COSIGNATURE if given.witness else ED25519)
    make_key_file(Path(given.out), key.secret())
    print_result(given, key.verifier.text, {"verifier_key": key.verifier.text, "file": given.out})
    return 0


def begin_log(given: argparse.Namespace) -> int:
    """Begins a log, and says what it begins with."""
    from evenkeel.lake_log.catch_up import begin

    check_folder(given.lake, "--lake")
    signers = _signers()
    with course_of("manifests") as progress:
        found = begin(given.lake, signers, progress=progress)
    words = [
        f"the log {signers[0].verifier.name} begins with {plural(found.manifests, 'manifest')}, which nothing had "
        "witnessed before; give its verifier key to whoever is to check proofs:",
        *(signer.verifier.text for signer in signers),
    ]
    return _told(given, signers, found, words)


def catch_up_log(given: argparse.Namespace) -> int:
    """Takes in what has no leaf, and tells the witnesses; 1 where a chain or a witness contradicts the log."""
    from evenkeel.lake_log.catch_up import catch_up
    from evenkeel.transparency.keys import VerifierKey

    signers = _signers()
    lost = None if given.old_key_is_lost is None else VerifierKey.read(given.old_key_is_lost)
    with course_of("manifests") as progress:
        found = catch_up(given.lake, signers, lost=lost, progress=progress)
    words = [f"{plural(found.leaves, 'leaf', 'leaves')} appended"]
    if found.rotation is not None:
        words.append(f"the log's keys have changed, and its last leaf says so: {found.rotation.words}")
    return _told(given, signers, found, words)


def show_log(given: argparse.Namespace) -> int:
    """Prints the checkpoint, the keys and their rotations, chains that are longer or shorter than their leaves, and
    where the witnesses are; 1 where rows are gone, or a witness has seen another tree."""
    from evenkeel.lake_log.overview import read_overview
    from evenkeel.lake_log.private_keys import signers_from_environment

    found = read_overview(given.lake, signers_from_environment())
    lines = [found.checkpoint.note.data.decode()]
    lines += [f"key: {key.text}{'' if key in found.named else ', which the log does not name'}" for key in found.keys]
    lines += [f"keys were changed at {line}" for line in found.rotations]
    result = {
        "checkpoint": found.checkpoint.note.data.decode(),
        "leaves": found.checkpoint.checkpoint.size,
        "keys": [{"verifier_key": key.text, "named": key in found.named} for key in found.keys],
        "rotations": [*found.rotations],
        "beside": dict(found.beside),
        "witnesses": [*map(_witness, found.witnesses)],
    }
    print_result(given, "\n".join([*lines, *found.chain_words(), *found.witness_words()]), result)
    return NOT_SOUND if found.is_wrong else 0


def _told(given: argparse.Namespace, signers: tuple[SignerKey, ...], found: CaughtUp, words: Sequence[str]) -> int:
    """Tells the witnesses, prints the words with what came of it and what is wrong; the exit code."""
    from evenkeel.lake_log.catch_up import open_log, storage_of
    from evenkeel.lake_log.witness_lines import witnesses_from_environment
    from evenkeel.lake_log.witnessing import tell_witnesses

    storage, witnesses = storage_of(given.lake), witnesses_from_environment()
    states = tell_witnesses(storage, open_log(storage, signers), witnesses) if witnesses else []
    size = found.checkpoint.checkpoint.size
    result = {
        "log": signers[0].verifier.name,
        "verifier_keys": [signer.verifier.text for signer in signers],
        "appended": found.leaves,
        "manifests": found.manifests,
        "leaves": size,
        "rotation": None if found.rotation is None else found.rotation.words,
        "witnesses": [*map(_witness, states)],
        "problems": [*found.problems],
    }
    print_result(given, "\n".join([*words, *(f"witness {state.words(size)}" for state in states)]), result)
    for problem in found.problems:
        print(problem, file=sys.stderr)
    return NOT_SOUND if found.problems or any(state.is_inconsistent for state in states) else 0


def _witness(state: WitnessState) -> dict[str, Any]:
    """What is known of a witness; `seen_at` and `failing_since` in seconds since 1970, None where never."""
    return {
        "name": state.name,
        "leaves": state.size,
        "seen_at": state.at or None,
        "failing_since": state.since or None,
        "fault": state.fault or None,
        "inconsistent": state.is_inconsistent,
    }


def _signers() -> tuple[SignerKey, ...]:
    from evenkeel.lake_log.private_keys import signers_from_environment

    signers = signers_from_environment()
    if not signers:
        raise SettingsError(
            f"{LOG_KEY} is not set: `evenkeel log make-key NAME --out FILE` makes a key, then set {LOG_KEY}=file:FILE"
        )
    return signers


def serve_witness(given: argparse.Namespace) -> int:
    """Serves until it is told to end (SIGTERM, SIGINT)."""
    from evenkeel.lake_log.private_keys import signers_of
    from evenkeel.transparency.keys import VerifierKey
    from evenkeel.transparency.storage import FolderStorage
    from evenkeel.transparency.witness import Witness
    from evenkeel.transparency.witness_server import WitnessServer

    (signer, *more) = signers_of(f"file:{given.key}", "--key")
    if more:
        raise SettingsError(f"--key {given.key} holds several keys: a witness has one")
    logs: dict[str, list[VerifierKey]] = {}
    for key in map(VerifierKey.read, given.log_key):
        logs.setdefault(key.name, []).append(key)
    check_folder(given.state, "--state")
    witness = Witness(signer, logs, FolderStorage(Path(given.state)))
    host, port = address_in(given.address, "--address", "127.0.0.1:7380")
    try:
        server = WitnessServer((host, port), witness)
    except OSError as error:
        raise cannot_listen("--address", given.address, error) from None
    logging.getLogger("evenkeel.transparency").setLevel(logging.INFO)
    print(f"{signer.verifier.text} http://{host}:{server.server_port}", flush=True)
    serve_until_ended(server)
    return 0
