"""The publish task in a process of its own, to be killed: started by a fork server that has imported everything."""

import multiprocessing
from dataclasses import replace
from multiprocessing.context import ForkServerProcess

from evenkeel.handover import Handover
from evenkeel.publish.task import run
from evenkeel.spark.session import connect
from tests.publish.acting import QUICK, SHORT_LEASE_S, reaching


def start_publisher(engine: str, handover: Handover, brokers: str) -> ForkServerProcess:
    """Carries the plan out on the brokers of this URL; a try of its own, as Airflow's next one is."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.publish.publisher"])
    process = context.Process(target=_publish, args=(engine, handover.to_json(), brokers), daemon=True)
    process.start()
    return process


def _publish(engine: str, handover: str, brokers: str) -> None:
    sending = reaching(brokers, replace(QUICK, lease_s=SHORT_LEASE_S))
    run(connect(engine, "publisher"), Handover.from_json(handover), sending)
