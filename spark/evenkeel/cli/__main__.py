"""A command as a process of its own: the script `evenkeel`, and `python -m evenkeel.cli`."""

import gc
import os
import sys
import threading

from evenkeel.cli import main
from evenkeel.cli.completion import answer_shell
from evenkeel.cli.progress import HANGING

_OBJECTS = 100_000
"""So many new objects at least between two looks for garbage: what is imported stays, and looking through it again and
again took half of the processor time of the imports."""


def run() -> None:
    """Runs the command of this process, and ends it with the command's code."""
    gc.set_threshold(_OBJECTS, 20, 100)
    answer_shell()
    code = main()
    if any(thread.name.startswith(HANGING) for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # what hangs would be waited for
    gc.freeze()  # as it ends, Python would look through all of it once more
    sys.exit(code)


if __name__ == "__main__":
    run()
