"""A command as a separate process: the script `evenkeel`, and `python -m evenkeel.cli`."""

import gc
import os
import select
import sys
import threading

from evenkeel.cli import main
from evenkeel.cli.completion import answer_shell
from evenkeel.cli.output import HANGING

_OBJECTS = 100_000
"""Minimum number of new objects between two garbage collections: imported modules stay, and checking them again and
again took half of the processor time of the imports."""
READER_GONE = 128 + 13
"""The exit code that a shell reports for a program ended by SIGPIPE."""


def run() -> None:
    """Run the command of this process, and end it with the command's code."""
    gc.set_threshold(_OBJECTS, 20, 100)
    answer_shell()
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:
        poll, output = select.poll(), sys.stdout.fileno()
        poll.register(output, select.POLLOUT)
        if not any(event & select.POLLERR for _, event in poll.poll(0)):
            raise
        # No process reads standard output any more, as in `evenkeel settings | head`: the rest is dropped.
        os.dup2(os.open(os.devnull, os.O_WRONLY), output)
        code = READER_GONE
    if any(thread.name.startswith(HANGING) for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # a hanging process would be waited for
    if "duckdb" not in sys.modules:  # which lists all that is left of it on standard error
        gc.freeze()  # as it ends, Python would look through all of it once more
    sys.exit(code)


if __name__ == "__main__":
    run()
