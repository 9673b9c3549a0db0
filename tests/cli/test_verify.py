"""What `evenkeel verify` prints: one of a thing is in the singular, and long counts have commas."""

from __future__ import annotations

from evenkeel.cli.verify import as_json, as_text
from evenkeel.record.verify import CHAIN, Fault, VerifyReport
from evenkeel.record.verify.check import Verified


def test_one_of_a_thing_is_in_the_singular() -> None:
    verified = Verified(by_files=1)
    fault = Fault("lab", None, CHAIN, "cycles", "its log", "it was rewritten")
    text = as_text(VerifyReport({"lab": 1}, {"lab": "5d1c70aa52cf8e10"}, 1, 1, 1, verified, (fault,))).splitlines()
    assert text[:3] == [
        "lab: a chain of 1 manifest, head 5d1c70aa52cf8e10",
        "1 write looked at by file, 0 by row",
        "1 attempt decided nothing (skipped or failed)",
    ]
    assert text[-1] == "not as it should be: 1 place"


def test_long_counts_have_commas() -> None:
    text = as_text(VerifyReport({"lab": 86_402}, {"lab": "5d1c"}, 2, 2, 0, Verified())).splitlines()
    assert text == [
        "lab: a chain of 86,402 manifests, head 5d1c",
        "of the range, and read in full: 2 manifests",
        "all is as it was written",
    ]


def test_what_the_digest_of_older_cycles_is_worth_is_said_and_changes_no_answer() -> None:
    found = VerifyReport({"lab": 6}, {"lab": "5d1c"}, 6, 3, 0, Verified(), sums=2)
    lines = as_text(found).splitlines()
    assert lines[1].startswith("2 attempts of an older version of Evenkeel, with a sum for the digest of rows")
    assert lines[-1] == "all is as it was written"
    assert as_json(found)["digests"] == {"roots": 1, "sums": 2}
    assert as_json(found)["sound"] is True
