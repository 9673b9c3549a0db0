"""What befalls a cluster, out of the words of Spark."""

import pytest

from evenkeel.spark.cluster_faults import cluster_fault

ABORTED = (
    "(org.apache.spark.SparkException) Job aborted due to stage failure: Task 0 in stage 7.0 failed 4 times, most "
    "recent failure: Lost task 0.3 in stage 7.0 (TID 31) ({host} executor {number}): {cause}\n\tat org.apache.spark"
)


def aborted(cause: str, host: str = "10.0.0.7", number: str = "1") -> str:
    return ABORTED.format(cause=cause, host=host, number=number)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            aborted("java.io.IOException: No space left on device"),
            "No space left on device on the worker 10.0.0.7 (executor 1): make room in that machine's scratch folder",
        ),
        (
            aborted("ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: worker lost"),
            "a worker of the cluster has gone while it worked on the worker 10.0.0.7 (executor 1). This try",
        ),
        (
            aborted("org.apache.spark.SparkException: Checkpoint block rdd_12_0 not found! Either the executor that "),
            "a worker of the cluster has gone, and with it rows that it kept for this task. This try",
        ),
        ("[INVALID_HANDLE.SESSION_NOT_FOUND] The handle x is invalid.", "the Spark server was restarted, or has"),
        ("Cannot call methods on a stopped SparkContext.\nThis stopped", "the cluster's master has ended the Spark"),
    ],
)  # fmt: skip
def test_what_befell_a_cluster_is_one_line_that_says_what_to_do(text: str, words: str) -> None:
    found = cluster_fault(text)
    assert found is not None
    assert str(found).startswith(words)
    assert "\n" not in str(found)


@pytest.mark.parametrize(
    "text",
    [
        aborted("java.io.IOException: No space left on device", host="127.0.0.1", number="driver"),
        aborted("org.apache.spark.api.python.PythonException: ValueError: no"),
        "[TABLE_OR_VIEW_NOT_FOUND] The table cannot be found.",
    ],
)
def test_what_befell_no_cluster_is_left_alone(text: str) -> None:
    assert cluster_fault(text) is None
