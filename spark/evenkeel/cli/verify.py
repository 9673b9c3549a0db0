"""`evenkeel verify`: is the record whole, and is it decided again as it was?"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenkeel.cli.lakes import LAKE_UNREAD, add_lake_option, each_of, lakes_chosen, say_unread
from evenkeel.cli.options import session
from evenkeel.cli.output import VERSION, add_command, course_of
from evenkeel.errors import BadInput, visible
from evenkeel.model.amounts import plural
from evenkeel.times import IN_UTC, bounds_given
from evenkeel.verify import BUNDLES, TOPICS, LogReport, LogSources, VerifyReport, verify
from evenkeel.verify.runs import leave, run_of

if TYPE_CHECKING:
    from evenkeel.settings.lakes import LakeMap
    from evenkeel.transparency.witnesses import LakeWitness

_HEAD = re.compile(r"[0-9a-f]{64}")
_NAME = "verify"
NOT_SOUND = 1
_DEPTHS = {"topics": TOPICS, "bundles": BUNDLES, "chain": None}
EPILOG = """Reads exactly the rows that each manifest names, decides again with the recorded settings and state,
and compares. Ends with 0 if all rows match, with 1 if any does not; every such place is named. Of several
configured lakes each is verified; 2 if one of them cannot be read.

--depth topics (the default) begins at the topics on record, as far back as they are kept, and at the loads of bundles
before that; bundles always at those loads; chain checks the manifests alone.

A file that is still, byte for byte, the one in its manifest proves its rows; so does one that upkeep put
together and compared with the files before. Of the others rows are compared with those that were written, as long as
their own files are there. Spark is started for that, and for depth topics, only.

If the lake has a transparency log, each commit of each table must have its leaf and each leaf its commit, so a cut
end, another past and rows of strangers are named. Give --log-key, and --checkpoint or --against: everyone who may write
to the lake can also start another log, and only a witness of the first one can show it."""


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = add_command(
        commands, "verify", "prove that the record is whole and that its decisions come out again", EPILOG
    )
    add_lake_option(parser, "as configured: all lakes, one after the other")
    parser.add_argument("--cluster", metavar="NAME", help="only this cluster")
    parser.add_argument("--from", dest="since", metavar="TIME", help=f"first cycle ({IN_UTC}; default: the first)")
    parser.add_argument("--to", dest="until", metavar="TIME", help="last cycle; a date is its whole day")
    parser.add_argument("--depth", choices=sorted(_DEPTHS), default="topics", help="where deciding again begins")
    parser.add_argument(
        "--log-key", action="append", default=[], metavar="VKEY", help="the log's verifier key, as you were given it"
    )
    parser.add_argument(
        "--checkpoint",
        action="append",
        default=[],
        metavar="FILE|URL",
        help="a checkpoint, proof or witness's file that was given out: has the log grown from it? (repeatable)",
    )
    parser.add_argument(
        "--against",
        action="append",
        default=[],
        metavar="WITNESS",
        help="ask a witness what it has seen: `<verifier key> <URL>`, a URL in EVENKEEL_WITNESSES, a file's path, or "
        "s3://BUCKET/PREFIX",
    )
    parser.add_argument(
        "--stamp-ca",
        metavar="FILE",
        help="certificates (PEM) of time stamp authorities that you trust; without them times are reported as "
        "unverified",
    )
    parser.add_argument(
        "--expect-head",
        action="append",
        default=[],
        metavar="[CLUSTER=]HEAD",
        help="a head that was noted: does the chain still hold it? (repeatable)",
    )
    parser.add_argument(
        "--unrecorded", action="store_true", help="write no file to the lake with the time and result of this run"
    )
    parser.add_argument("--json", action="store_true", help="one JSON document for a program")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Verify and print the result."""
    lakes = lakes_chosen(given)
    if not lakes.is_several:
        report = _found(given, lakes.lakes[0].path)
        print(json.dumps(as_json(report), indent=2, ensure_ascii=False) if given.json else as_text(report))
        return 0 if report.is_sound else NOT_SOUND
    if given.cluster is not None:
        lakes = _with_cluster(lakes, given.cluster)
    codes, results = [], dict[str, Any]()
    for lake, answer in each_of(lakes, lambda path: _found(given, path)):
        if isinstance(answer, Exception):
            say_unread(lake, answer)
            results[lake.name] = {"lake": lake.path, "error": str(answer)}
            codes.append(LAKE_UNREAD)
        else:
            results[lake.name] = {"lake": lake.path, **as_json(answer)}
            if not given.json:
                print(f"lake {lake.name} ({lake.path}):\n{as_text(answer)}")
            codes.append(0 if answer.is_sound else NOT_SOUND)
    if given.json:
        whole = {"version": VERSION, "sound": not any(codes), "lakes": results}
        print(json.dumps(whole, indent=2, ensure_ascii=False))
    return max(codes)


def _with_cluster(lakes: LakeMap, cluster: str) -> LakeMap:
    """Return the lakes that have the cluster on record; all if none has it, so that each reports it."""
    from evenkeel.lake.record import Record

    having = {
        lake.name
        for lake, names in each_of(lakes, lambda path: Record(path).clusters())
        if cluster in ([] if isinstance(names, Exception) else names)
    }
    kept = tuple(lake for lake in lakes.lakes if lake.name in having)
    return replace(lakes, lakes=kept or lakes.lakes)


def _found(given: argparse.Namespace, lake: str) -> VerifyReport:
    """Return the findings of a verification; a file with its scope and result is also written to the lake."""
    since, until = bounds_given(given.since, given.until)
    sources = _log_sources(given)
    with course_of("attempts") as progress:
        report = verify(
            lake,
            partial(session, _NAME, lake),
            cluster=given.cluster,
            since=since,
            until=until,
            depth=_DEPTHS[given.depth],
            log_sources=sources,
            progress=progress,
            say=progress.say,
        )
    if given.unrecorded:
        return report
    held_against = len(given.log_key) + len(sources.checkpoints) + len(sources.witnesses) + len(sources.expected_heads)
    run = run_of(
        report, depth=given.depth, cluster=given.cluster, since=since, until=until, held_against=held_against
    )  # fmt: skip
    why = leave(lake, run)
    if why is not None:  # an unwritable lake changes nothing else
        print(f"the desk will not show this run, since no file could be left in the lake: {why}", file=sys.stderr)
    return report


def _log_sources(given: argparse.Namespace) -> LogSources:
    """Return what the log is compared with: the keys in the environment too, if there are any."""
    from evenkeel.transparency.keys import VerifierKey, signers_from_environment

    verifiers = [signer.verifier for signer in signers_from_environment()]
    keys = dict.fromkeys([*map(VerifierKey.read, given.log_key), *verifiers])
    return LogSources(
        log_keys=tuple(keys),
        checkpoints={name: _content(name) for name in given.checkpoint},
        witnesses=tuple(map(_asked_witness, given.against)),
        expected_heads=tuple(map(_expected_head, given.expect_head)),
        stamp_ca=None if given.stamp_ca is None else (_read(given.stamp_ca, "--stamp-ca"), given.stamp_ca),
    )


def _content(name: str) -> bytes:
    if "://" in name:
        from evenkeel.transparency.witness_client import fetch_note

        return fetch_note(name)
    return _read(name, "--checkpoint")


def _read(name: str, option: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise BadInput(f"{option} {name}: it cannot be read: {error.strerror}") from None


def _asked_witness(text: str) -> LakeWitness:
    from evenkeel.transparency.witnesses import witnesses_from_environment, witnesses_of

    named = (
        [witness for witness in witnesses_from_environment() if witness.name == text.strip()]
        if " " not in text.strip()
        else []
    )
    (first, *more) = named or witnesses_of(text, "--against") or (None,)
    if first is not None and first.authority is not None:
        raise BadInput("--against a time stamp authority: it remembers nothing; give its certificates (--stamp-ca)")
    if first is None or more:
        raise BadInput("--against names one witness: its verifier key and URL, or the path of a file")
    return first


def _expected_head(text: str) -> tuple[str, str]:
    cluster, _, head = text.rpartition("=")
    if not _HEAD.fullmatch(head):
        raise BadInput(f"--expect-head {text[:80]!r}: a head is 64 hex digits, as `verify` prints it")
    return cluster, head


def as_text(report: VerifyReport) -> str:
    """Return the report for a person: the chains, the number of equal cycles, and every fault."""
    lines = [
        f"{cluster}: a chain of {plural(count, 'manifest')}, head {report.heads[cluster]}"
        for cluster, count in sorted(report.manifests.items())
    ]
    lines += [] if report.log is None else _log_lines(report.log)
    if report.read < sum(report.manifests.values()):
        lines.append(f"of the range, and read in full: {plural(report.read, 'manifest')}")
    verified = report.verified
    if verified.by_files or verified.by_rows:
        writes = plural(verified.by_files, "write")
        lines.append(f"{writes} proven by their files, {verified.by_rows:,} looked at by row")
    if verified.tried:
        depths = Counter(verified.reproduced.values())
        deep = ", ".join(f"{count:,} from the {depth} on" for depth, count in sorted(depths.items(), reverse=True))
        came_out = f"{len(verified.reproduced):,} of {plural(verified.tried, 'cycle')} reproduced"
        lines.append(f"{came_out} ({deep})" if deep else came_out)
    if verified.reworded:
        lines.append(
            f"{len(verified.reworded):,} of them in wording only: another version of Evenkeel wrote their sentences, "
            "and this one says the same decisions in other words"
        )
    if verified.expired:
        lines.append(f"{plural(len(verified.expired), 'cycle')} past the period: only the chain is looked at there")
    if report.idle:
        lines.append(f"{plural(report.idle, 'attempt')} decided nothing (skipped or failed)")
    lines += [f"{fault.kind}: {fault.sentence()}" for fault in report.faults]
    lines.append(
        "all is as it was written" if report.is_sound else f"not as it should be: {plural(len(report.faults), 'place')}"
    )
    return "\n".join(map(visible, lines))


def _log_lines(log: LogReport) -> list[str]:
    """Return lines with the whole checkpoint, and with the keys and witnesses that confirm it."""
    if not log.is_there:
        return ["unsigned: the lake has no transparency log, so nothing outside of it vouches for the record"]
    if log.checkpoint is None:
        return ["unsigned: the transparency log of the lake cannot be read"]
    size = log.checkpoint.checkpoint.size
    lines = [f"log {log.checkpoint.checkpoint.origin}: {plural(size, 'leaf', 'leaves')}, by the checkpoint"]
    lines += [f"    {line}" for line in log.checkpoint.note.data.decode().splitlines()]
    for key in log.keys:
        note = " (as the log itself names it: hold it against the one that you were given)" if log.own_keys else ""
        lines.append(f"    key {key.text}{note}")
    lines += [f"    keys were changed at {line}" for line in log.rotations]
    if log.before:
        lines.append(f"{plural(log.before, 'commit')} from before the log began, without any witness at that time")
    lines += [f"adopted though no task had handed them on: {line}" for line in log.adopted]
    if log.expired:
        lines.append(f"{plural(log.expired, 'commit')} past the log retention of their tables")
    lines += [f"the log has grown from what {who} has" for who in log.agreed]
    lines += log.stamps
    return [*lines, *(f"witness {line}" for line in log.lines), *log.waiting]


def as_json(report: VerifyReport) -> dict[str, Any]:
    """Return the report for a program."""
    faults = [asdict(fault) for fault in report.faults]
    for fault in faults:
        fault["cycle_at"] = fault["cycle_at"].isoformat() if fault["cycle_at"] else None
    return {
        "version": VERSION,
        "sound": report.is_sound,
        "chains": {name: {"manifests": n, "head": report.heads[name]} for name, n in sorted(report.manifests.items())},
        "manifests_read": report.read,
        "attempts": report.attempts,
        "writes_by_files": report.verified.by_files,
        "writes_by_rows": report.verified.by_rows,
        "reproduced": len(report.verified.reproduced),
        "wording_only": len(report.verified.reworded),
        "differing": len(report.verified.differing),
        "expired": len(report.verified.expired),
        "undecidable": len(report.verified.undecidable),
        "log": None if report.log is None else _log_as_json(report.log),
        "faults": faults,
    }


def _log_as_json(log: LogReport) -> dict[str, Any]:
    newest = log.checkpoint
    return {
        "signed": newest is not None,
        "checkpoint": None if newest is None else newest.note.data.decode(),
        "leaves": 0 if newest is None else newest.checkpoint.size,
        "keys": [key.text for key in log.keys],
        "keys_as_the_log_names_them": log.own_keys,
        "rotations": [*log.rotations],
        "stamps": [*log.stamps],
        "commits_before": log.before,
        "commits_adopted": [*log.adopted],
        "commits_expired": log.expired,
        "agreed": [*log.agreed],
        "witnesses": [*log.lines],
        "not_logged_yet": [*log.waiting],
    }
