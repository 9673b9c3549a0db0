"""How the tasks of all DAGs are tried again: every one of them may be killed anywhere and run once more."""

from __future__ import annotations

from datetime import timedelta
from typing import Any


def tried_again(
    *,
    ends_after: timedelta,
    first_wait: timedelta = timedelta(seconds=5),
    longest_wait: timedelta = timedelta(minutes=2),
) -> dict[str, Any]:
    """`default_args` of a DAG: two more tries, with waits that grow; a try is ended after `ends_after`."""
    return {
        "owner": "evenkeel",
        "retries": 2,
        "retry_delay": first_wait,
        "retry_exponential_backoff": True,
        "max_retry_delay": longest_wait,
        "execution_timeout": ends_after,
    }
