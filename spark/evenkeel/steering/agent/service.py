"""The running agent: one thread receives, some carry out, one reports and deletes, one renews the right to messages."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from math import ceil

from evenkeel.steering.agent.ledger import Ledger
from evenkeel.steering.agent.processor import ClusterExecutor, Gone, Later, Processor
from evenkeel.steering.agent.queues import Left, Receiver, Reporter, Trouble
from evenkeel.steering.agent.setup import AgentError, AgentSettings, LedgerError, PauseSwitch, QueueClock
from evenkeel.steering.agent.work_queue import WorkQueue
from evenkeel.steering.pulsar_admin import Pace
from evenkeel.steering.queue.fifo import MOST_IN_BATCH, Fifo, QueueError, QueueRefused

LOG = logging.getLogger(__name__)
MOST_IN_HAND = 40
CONTROL_HIDDEN_SECONDS = (2, 8)
CONTROL_REST_SECONDS = 2.0
TICK_SECONDS = 1.0
SWEEP_SECONDS = 300.0
FAREWELL_SECONDS = 30.0


class Agent:
    """One agent of one cluster, from its settings and its executor of commands."""

    def __init__(
        self, settings: AgentSettings, carrier: ClusterExecutor, ledger: Ledger, clock: QueueClock | None = None
    ) -> None:
        self._settings = settings
        self._ledger = ledger
        self._clock = clock or QueueClock()
        self._commands = Fifo(settings.queue, heard=self._clock.heard)
        self._reports = Fifo(settings.reports)
        self._work_queue = WorkQueue()
        self._receiver = Receiver(settings.signature, ledger, self._work_queue, self._clock.now)
        self._reporter = Reporter(
            settings.signature, ledger, self._work_queue, self._commands, self._reports, self._clock.now
        )
        pause = PauseSwitch(settings.paused_file, ledger.paused, ledger.withdrawn)
        pace = Pace(settings.per_second)
        self._processor = Processor(
            settings, ledger, carrier, self._work_queue, self._commands, pause, pace, self._clock.now
        )
        self._stopping = threading.Event()
        self._leaving = threading.Event()
        self._wake = threading.Event()
        self._failure: BaseException | None = None

    def stop(self) -> None:
        """Ask the agent to finish what is under way and to end. Not from a signal handler: it takes locks."""
        self._stopping.set()
        self._work_queue.close()

    def run(self) -> None:
        """Work until `stop`, or until idle for as long as the settings say.

        Raises QueueRefused if the queues refuse from the start, LedgerError if the ledger fails, and QueueError if it
        was to end when idle and the queue could not be reached.
        """
        for command in self._ledger.half_way():
            self._work_queue.put(command)
        workers = [self._thread("carry", self._work) for _ in range(self._settings.most_in_flight)]
        others = [self._thread("clerk", self._pay), self._thread("keeper", self._keep)]
        try:
            self._poll()
        finally:
            self.stop()
            for worker in workers:
                worker.join()
            self._hand_back()
            self._leaving.set()
            self._wake.set()
            for other in others:
                other.join()
        if self._failure is not None:
            raise self._failure
        left = len(self._ledger.owed(MOST_IN_HAND))
        if left and self._settings.idle_s is not None:
            raise AgentError(f"{left} reports could not be sent; the ledger keeps them for the next run of the agent")

    def _thread(self, name: str, body: Callable[[], None]) -> threading.Thread:
        def guarded() -> None:
            try:
                body()
            except BaseException as error:  # any thread's end is the end of the agent
                self._failure = self._failure or error
                self.stop()

        thread = threading.Thread(target=guarded, name=f"agent-{name}", daemon=True)
        thread.start()
        return thread

    def _poll(self) -> None:
        trouble = Trouble("command queue")
        met = False
        busy_at = time.monotonic()
        while not self._stopping.is_set():
            pause = 0.0
            # While this agent has messages, the queue holds back those behind them: an empty answer means nothing then.
            blocked = self._work_queue.blocks() and not self._reporter.stuck
            try:
                if not met:
                    self._meet()
                    met = True
                busy = self._receive()
                trouble.worked()
            except QueueError as error:
                if isinstance(error, QueueRefused) and not met:
                    raise
                busy, pause = False, trouble.failed(error)
                if self._is_idle(busy_at):
                    raise
            if busy or blocked or self._work_queue.open():
                busy_at = time.monotonic()
            elif self._is_idle(busy_at) and not trouble.lasts:
                return
            self._stopping.wait(pause)

    def _is_idle(self, since: float) -> bool:
        idle = self._settings.idle_s
        return idle is not None and time.monotonic() - since >= idle

    def _receive(self) -> bool:
        """Take in what the queue gives; return False if it gave nothing (or only controls that stay on it)."""
        room = MOST_IN_HAND - self._work_queue.held()
        if room <= 0:
            self._stopping.wait(TICK_SECONDS)
            return True
        wait = self._settings.poll_s if self._settings.idle_s is None else 1
        taken = self._commands.receive(
            most=min(room, MOST_IN_BATCH), wait_s=wait, visibility_s=self._settings.visibility_s
        )
        left = [control for message in taken if (control := self._receiver.take_in(message)) is not None]
        self._wake.set()
        self._leave_to_others(left)
        return len(taken) > len(left)

    def _leave_to_others(self, controls: list[Left]) -> None:
        """Let other agents receive them: new ones at once, while this one pauses; old ones after a random while.

        With an equal while for all, one agent could receive the message again and again, and the others never.
        """
        for control in controls:
            hidden = 0 if control.new else random.randint(*CONTROL_HIDDEN_SECONDS)
            self._commands.renew([control.receipt], hidden)
        if any(control.new for control in controls):
            self._stopping.wait(CONTROL_REST_SECONDS)

    def _meet(self) -> None:
        """Make the first contact with both queues."""
        for queue in (self._commands, self._reports):
            try:
                attributes = queue.attributes()
            except QueueRefused as error:
                if "AccessDenied" not in str(error):
                    raise
                LOG.warning("the queue's attributes cannot be read, which is harmless by itself: %s", error)
                continue
            if "RedrivePolicy" in attributes:
                LOG.warning(
                    "%s has a redrive policy: a command that several agents gave back goes to the dead-letter queue "
                    "without an outcome. The agent sets bad messages aside by itself; remove the policy.",
                    queue.url,
                )
            if attributes.get("DeduplicationScope") == "messageGroup":
                advice = (
                    "a second agent may execute a command copied to another group: set DeduplicationScope to `queue`"
                )
                LOG.warning("%s deduplicates within a message group only; %s", queue.url, advice)
        LOG.info("agent %s of cluster %s receives commands", self._settings.name, self._settings.cluster)

    def _work(self) -> None:
        while not self._stopping.is_set():
            in_flight = self._work_queue.take(TICK_SECONDS)
            if in_flight is None:
                continue
            step = self._processor.go_on(in_flight)
            if isinstance(step, Later):
                self._work_queue.back(in_flight, step.seconds)
            elif isinstance(step, Gone):
                self._work_queue.forget(in_flight)
            else:
                self._work_queue.finish(in_flight)
                self._wake.set()

    def _pay(self) -> None:
        sweep_at = 0.0
        while not self._leaving.is_set():
            self._wake.wait(TICK_SECONDS)
            self._wake.clear()
            if time.monotonic() >= sweep_at:
                now = self._clock.now()
                # Messages that expired longer ago than they are held are in no agent's hands.
                before = now - timedelta(seconds=self._settings.visibility_s)
                for command_id in self._ledger.settle_forgotten(now, before):
                    LOG.info("command %s: stale (expired, and not delivered again)", command_id[:12])
                self._ledger.forget_old(now)
                sweep_at = time.monotonic() + SWEEP_SECONDS
            pause = self._reporter.round()
            if pause:
                self._leaving.wait(pause)
        until = time.monotonic() + FAREWELL_SECONDS
        while (pause := self._reporter.round()) and time.monotonic() + pause < until:
            time.sleep(pause)

    def _keep(self) -> None:
        trouble = Trouble("holding messages")
        beat = self._settings.visibility_s / 3
        while not self._leaving.wait(beat):
            receipts = self._work_queue.all_receipts()
            try:
                self._work_queue.lose(self._commands.renew(receipts, self._settings.visibility_s))
                trouble.worked()
                beat = self._settings.visibility_s / 3
            except QueueError as error:
                beat = min(beat, trouble.failed(error))

    def _hand_back(self) -> None:
        """Give back what was not begun; what may be under way from before a crash only once that must be over."""
        for in_flight in self._work_queue.waiting():
            receipts = self._work_queue.receipts_of(in_flight)
            try:
                begun = self._ledger.entry(in_flight.command_id).state == "sending"
                self._commands.renew(receipts, ceil(self._settings.longest_request_s) if begun else 0)
            except (QueueError, LedgerError) as error:
                LOG.warning("a command could not be given back; the queue gives it out again by itself: %s", error)
            self._work_queue.forget(in_flight)
