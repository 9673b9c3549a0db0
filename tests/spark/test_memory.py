"""Memory that a process frees goes back to the system."""

import ast
import platform
import subprocess
import sys

import pytest

# Large blocks are freed among small ones that live on. The first blocks raise the size from which the C library asks
# the system for a block of its own, unless that size was set.
_FREED_AMONG_SMALL_ONES = """
import re
from evenkeel.spark.memory import return_freed, return_large_blocks

def resident():
    with open("/proc/self/smaps_rollup") as found:
        return int(re.search(r"Rss: +(\\d+)", found.read())[1]) // 1024

if {is_set}:
    return_large_blocks()
before = resident()
small = []
for _ in range(3):
    large = []
    for _ in range(100):
        large.append(bytearray(2_000_000))
        small.append(bytearray(100_000))
    del large
    if {trims}:
        return_freed()
    print(resident() - before)
"""


def _kept(*, is_set: bool, trims: bool) -> int:
    """MB that a process still holds: 30 that live on, and what it has freed of 200."""
    script = _FREED_AMONG_SMALL_ONES.format(is_set=is_set, trims=trims)
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return int(found.stdout.split()[-1])


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_large_blocks_and_what_is_trimmed_go_back() -> None:
    assert _kept(is_set=False, trims=False) > 100, "nothing has to be given back here"
    assert _kept(is_set=True, trims=False) < 60
    assert _kept(is_set=False, trims=True) < 60


def test_circles_of_garbage_are_looked_for_seldom_and_found_all_the_same() -> None:
    script = "import gc; from evenkeel.spark.memory import look_for_circles_seldom as f; f(); print(gc.get_threshold())"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    first, *others = ast.literal_eval(found.stdout)
    assert first >= 100_000
    assert all(0 < one <= 10 for one in others), "old ones are looked through, too, in a window of many cycles"
