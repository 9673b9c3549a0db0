"""The example of docs/how-to/write-a-shedder.md runs, prints what the page shows, and passes every shedder's checks."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from evenkeel.model.load import BundleStats
from evenkeel.shed import try_shedder
from evenkeel.shed.shedder import ModularShedder
from tests.cycle.clusters import Cluster, clusters
from tests.shed.shedder_checks import check

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "write-a-shedder.md"
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
MODULE, TRIAL, TESTS = (text for kind, text in BLOCKS if kind == "python")


def module() -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "busiest_bundle_shedder"}
    exec(compile(MODULE, str(PAGE), "exec"), names)
    return names


def test_the_trial_prints_what_the_page_shows() -> None:
    (shown,) = (text for kind, text in BLOCKS if kind == "text")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(TRIAL, str(PAGE), "exec"), module())
    assert printed.getvalue() == shown


def test_a_broker_of_a_trial_has_one_topic_in_each_bundle_and_the_sums_of_its_bundles() -> None:
    one, two = "t/n/0x00000000_0x80000000", "t/n/0x80000000_0xffffffff"
    report = try_shedder.broker("b1:8080", 50.0, {one: (1.0, 2.0), two: (3.0, 5.0)})
    assert report.stats[one] == BundleStats(topics=1, msg_rate_in=1.0, msg_throughput_in=2.0)
    assert (report.topics, report.msg_rate_in, report.msg_throughput_in, {*report.bundles}) == (2, 4.0, 7.0, {one, two})


def test_the_tests_of_the_page_pass_and_are_two() -> None:
    names = module()
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(TRIAL, str(PAGE), "exec"), names)
    exec(compile(TESTS, str(PAGE), "exec"), names)
    tests = [test for name, test in names.items() if name.startswith("test_")]
    assert len(tests) == 2
    for test in tests:
        test()


@settings(max_examples=30)
@given(cluster=clusters(), data=st.data())
def test_the_example_holds_what_every_shedder_holds(cluster: Cluster, data: st.DataObject) -> None:
    shedder: ModularShedder = module()["SHEDDER"]
    check(shedder, cluster, data)
