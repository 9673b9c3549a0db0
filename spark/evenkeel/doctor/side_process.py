"""Questions that a separate process answers, for Spark and Airflow: it can be ended, and it loads the heavy modules.

The question comes on standard input and the answer on standard output, both as JSON; no secret is on a command line.
Libraries that print write to standard error.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from typing import Any

from evenkeel.errors import EvenkeelError
from evenkeel.spark.code import source_root

Answer = dict[str, Any]
ERROR = "error"
_SHOWN = 400


class AsideFailed(EvenkeelError):
    """A process that was to look at something ended without an answer, or with an error."""


def asked_aside(module: str, question: Mapping[str, Any], seconds: float) -> Answer:
    """Return the answer of `python -m MODULE` to a question; raise AsideFailed with its message if there is none in
    time."""
    path = os.pathsep.join(part for part in (str(source_root()), os.environ.get("PYTHONPATH", "")) if part)
    try:
        done = subprocess.run(
            [sys.executable, "-m", module],
            input=json.dumps(question),
            capture_output=True,
            text=True,
            timeout=seconds,
            env={**os.environ, "PYTHONPATH": path},
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise AsideFailed(f"no answer within {seconds:.0f} s") from None
    try:
        answer: Answer = json.loads(done.stdout)
    except ValueError:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["it printed nothing"]
        raise AsideFailed(f"it ended with code {done.returncode}: {lines[-1][:_SHOWN]}") from None
    if ERROR in answer:
        raise AsideFailed(str(answer[ERROR]))
    return answer


def answer_aside(answer: Callable[[dict[str, Any]], Answer]) -> None:
    """Answer the question on standard input; an error ends in its words."""
    question = json.load(sys.stdin)
    try:
        with redirect_stdout(sys.stderr):
            reply = answer(question)
    except EvenkeelError as error:
        reply = {ERROR: str(error)}
    except Exception as error:
        reply = {ERROR: f"{type(error).__name__}: {(str(error).strip() or '?').splitlines()[0][:_SHOWN]}"}
    sys.stdout.write(json.dumps(reply))
    sys.stdout.flush()
