"""A process that needs an engine and waits to be killed: `python -m tests.spark.owner HOME`."""

import sys
import time

from evenkeel.spark.server import engine_for

if __name__ == "__main__":
    with engine_for(sys.argv[1]) as engine:
        print(engine.pid, engine.supervisor, flush=True)
        time.sleep(600)
