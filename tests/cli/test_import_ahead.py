"""What a command imports in a thread of its own while it goes on."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import threading
from evenkeel.cli import rebalance

shared = {"grpc", "numpy", "pandas", "pyarrow", "pyspark", "pyspark.sql", "pyspark.sql.connect"}
assert not shared & {*sys.modules}, "else this program shows nothing"
there = []
rebalance.load_great_expectations = lambda: there.append(shared <= {*sys.modules})
rebalance._import_ahead()
for thread in threading.enumerate():
    if thread is not threading.current_thread():
        thread.join()
assert there == [True]
"""


def test_packages_that_both_threads_need_are_imported_before_there_are_two() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
