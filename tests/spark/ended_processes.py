from collections.abc import Callable
from pathlib import Path

TRIES = 3


def ended_processes(pid: int) -> int:
    """A figure that grows whenever a process that this one started has ended: the pages that all of them took."""
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[8])


def ends_processes(pid: int, work: Callable[[], object]) -> bool:
    """Whether processes end each time that the work is done: what was started before it may end meanwhile, once."""
    for _ in range(TRIES):
        before = ended_processes(pid)
        work()
        if ended_processes(pid) == before:
            return False
    return True
