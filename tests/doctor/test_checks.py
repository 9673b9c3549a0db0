"""Checks beside each other: order, time, and what breaks off."""

import re
import threading
import time

import pytest

from evenkeel.cli.output import HANGING
from evenkeel.doctor.catalogue import CHECKS, chosen_checks
from evenkeel.doctor.checks import (
    THREAD,
    CheckFinding,
    CheckOutcome,
    Site,
    SiteCheck,
    exit_code,
    fail,
    ok,
    run_checks,
    skipped,
    warn,
)
from evenkeel.errors import BadInput, LakeError


def good(_: Site, __: str) -> CheckFinding:
    return ok("fine")


def broken(_: Site, __: str) -> CheckFinding:
    raise ZeroDivisionError("so\nit is")


def refused(_: Site, __: str) -> CheckFinding:
    raise LakeError("the lake is dry: fill it")


def slow(_: Site, __: str) -> CheckFinding:
    time.sleep(0.3)
    return ok("at last")


def test_results_come_in_the_order_of_the_checks_whatever_ends_first() -> None:
    checks = [SiteCheck(name, "", run) for name, run in (("slow", slow), ("good", good), ("refused", refused))]
    found = list(run_checks(checks, Site()))
    assert [(one.check, one.finding.outcome) for one in found] == [
        ("slow", CheckOutcome.OK),
        ("good", CheckOutcome.OK),
        ("refused", CheckOutcome.FAIL),
    ]
    assert found[2].finding.words == "the lake is dry: fill it"
    assert exit_code(found) == 1
    assert exit_code(found[:2]) == 0


def test_one_that_hangs_and_one_that_breaks_off_stop_no_other() -> None:
    end = threading.Event()

    def hangs(_: Site, __: str) -> CheckFinding:
        end.wait(60)
        return ok("too late")

    waited: list[str] = []
    checks = [SiteCheck("hangs", "", hangs, 0.3), SiteCheck("broken", "", broken), SiteCheck("good", "", good)]
    found = list(run_checks(checks, Site(), lambda name, _: waited.append(name), at_once=1))
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith(HANGING)] == [f"{THREAD}hangs"]
    end.set()
    assert [one.looked for one in found] == [False, False, True]
    assert found[0].finding.words == "could not look: no end after 0 s"
    assert found[1].finding.words == "could not look: ZeroDivisionError: so"
    assert "hangs" in waited
    assert exit_code(found) == 2


def test_no_more_run_at_once_than_are_allowed_and_all_are_told_of_every_subject() -> None:
    running, most, lock = [0], [0], threading.Lock()

    def counted(_: Site, subject: str) -> CheckFinding:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.02)
        with lock:
            running[0] -= 1
        return ok(subject)

    names = [f"c{number:02}" for number in range(20)]
    found = list(run_checks([SiteCheck("counted", "", counted, subjects=lambda _: names)], Site(), at_once=3))
    assert [(one.subject, one.finding.words) for one in found] == [(name, name) for name in names]
    assert 1 < most[0] <= 3


def test_a_check_without_a_subject_is_told_as_skipped() -> None:
    (found,) = run_checks([SiteCheck("none", "", broken, subjects=lambda _: (), without="there is no cluster")], Site())
    assert found.finding == skipped("there is no cluster")
    assert exit_code([found]) == 0


@pytest.mark.parametrize(
    ("finding", "code"), [(ok("x"), 0), (skipped("x"), 0), (warn("x", "y"), 1), (fail("x", "y"), 1)]
)
def test_the_exit_code_says_whether_there_is_something_to_do(finding: CheckFinding, code: int) -> None:
    found = list(run_checks([SiteCheck("one", "", lambda *_: finding)], Site()))
    assert exit_code(found) == code


def test_checks_are_chosen_by_name_and_stand_in_their_order() -> None:
    assert chosen_checks((), ()) == CHECKS
    assert [one.name for one in chosen_checks(("lake", "python"), ())] == ["python", "lake"]
    assert "java" not in [one.name for one in chosen_checks((), ("java",))]
    for only, skip in ((["jav"], []), ([], ["jav"])):
        with pytest.raises(BadInput, match="there is no check 'jav'; did you mean java"):
            chosen_checks(only, skip)


def test_every_check_has_a_name_a_time_and_a_sentence_of_its_own() -> None:
    assert len({check.name for check in CHECKS}) == len({check.run for check in CHECKS}) == len(CHECKS)
    for check in CHECKS:
        assert re.fullmatch(r"[a-z_]+", check.name)
        assert 0 < check.seconds <= 120
        assert check.run.__doc__
        assert check.about
