"""One code decides a cycle: a task takes no hand-over from other deciding code.

Airflow's processes are upgraded one after the other, and in place while they run. So the tasks of one run may find
different versions installed. Each hand-over names the code that made it (`Handover.code`). A task with other deciding
code fails at once with one line; otherwise no single version could decide the cycle again.
"""

from __future__ import annotations

from dataclasses import replace

from evenkeel.airflow.seal import Origin
from evenkeel.errors import BadInput, StaleCode
from evenkeel.handover import CodeId, Handover
from evenkeel.lake.handover_files import taken
from evenkeel.settings.lakes import configured_lakes
from evenkeel.spark.code import code_digest, code_version


class OtherCode(BadInput):
    """The hand-over to a task comes from another version of Evenkeel."""


def stamped(handover: Handover) -> Handover:
    """The hand-over with the code of this process as the one that made it."""
    return replace(handover, code=_own())


def read_handover(text: str, origin: Origin) -> Handover:
    """Return the hand-over in a text that the task has sealed.

    Raises `OtherCode` for one that this version cannot read, and the errors of `taken`.
    """
    try:
        return taken(text, configured_lakes())
    except (LookupError, TypeError, ValueError) as error:
        # The seal proves that Evenkeel's own task wrote it.
        raise OtherCode(
            f"what {origin} handed on cannot be read by Evenkeel {code_version()}, which runs this task: another "
            f"version left it ({type(error).__name__}: {error}). {_WHAT_TO_DO}"
        ) from None


def refuse_other_code(handover: Handover, origin: Origin) -> None:
    """Raise `OtherCode` where the hand-over was made by other deciding code than that of this process."""
    own_code, other = _own(), handover.code
    if other.digest and other.digest != own_code.digest:
        raise OtherCode(f"{origin} ran {_named(other)}, and this task runs {_named(own_code)}. {_WHAT_TO_DO}")


def with_version(error: StaleCode) -> StaleCode:
    """Return the error for a Spark server that runs other code than this task, with the task's version."""
    return StaleCode(
        f"{error} This task runs {_named(_own())}: the server and all of Airflow have to be of one version"
    )


_WHAT_TO_DO = (
    "Nothing was decided and nothing was sent: bring all of Airflow's processes and the Spark server to one version, "
    "and restart them; then trigger a new run of rebalance, or clear all tasks of that run"
)


def _own() -> CodeId:
    return CodeId(code_version(), code_digest())


def _named(code: CodeId) -> str:
    return f"Evenkeel {code.version} (code {code.digest[:20]})"
