"""What `evenkeel verify` prints: one of a thing is in the singular, and long counts have commas."""

from evenkeel.cli.verify import as_text
from evenkeel.verify import VerifyReport
from evenkeel.verify.chain import CHAIN, Fault
from evenkeel.verify.check import Verified


def test_one_of_a_thing_is_in_the_singular() -> None:
    verified = Verified(by_files=1)
    fault = Fault("lab", None, CHAIN, "cycles", "its log", "it was rewritten")
    text = as_text(VerifyReport({"lab": 1}, {"lab": "5d1c70aa52cf8e10"}, 1, 1, 1, verified, (fault,))).splitlines()
    assert text[:3] == [
        "lab: a chain of 1 manifest, head 5d1c70aa52cf8e10",
        "1 write proven by their files, 0 looked at by row",
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
