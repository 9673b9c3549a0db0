"""Sends and receives messages: the process behind `traffic`, with real clients.

Runs as `python -m devtools.lab.sender`, with its order on standard input. It ends by itself after the given time, on
SIGTERM, and when its owner is gone; always with a tally, except on SIGKILL.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import struct
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pulsar

from devtools.lab.connections import Connections
from devtools.lab.tally import Counts, Pauses, Tally
from evenkeel.spark.home import lives

TICK_SECONDS = 0.05
REPORT_SECONDS = 1.0
LONGEST_CATCH_UP_SECONDS = 1.0
SEND_TIMEOUT_MS = 60_000  # longer than the loss of a broker takes
CONNECTIONS_AT_ONCE = 16
QUEUE = 20_000
BATCHING_MS = 50  # topics send a few messages a second; without a delay each would be a separate batch
NUMBER = struct.Struct(">Q")
SUBSCRIPTION = "tally"
PROGRESS, RESULT, CLIENT_LOG = "progress.json", "tally.json", "client.log"


@dataclass(frozen=True, slots=True)
class Order:
    """An order: topics with their rates in messages/s, the duration, and the owner of this process."""

    service_url: str
    token: str | None
    topics: Sequence[tuple[str, float]]
    message_bytes: int
    is_batched: bool
    seconds: float
    drain_seconds: float
    owner: str
    folder: str


class Sender:
    """Producers and consumers of all topics, and their counts."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._names = [name for name, _ in order.topics]
        self._rates = [rate for _, rate in order.topics]
        self._counts = Counts(self._names)
        self._connections = Connections(Path(order.folder) / CLIENT_LOG)
        self._filling = bytes(max(0, order.message_bytes - NUMBER.size))
        self._stopping = False
        self._began = time.monotonic()
        self._pauses, self._sent_until = Pauses(self._names, self._began), 0.0
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)

    def run(self) -> Tally:
        client = self._client()
        self._report("connecting")
        with ThreadPoolExecutor(CONNECTIONS_AT_ONCE) as pool:  # consumers first, so that nothing is missed
            consumers = list(pool.map(partial(self._subscribe, client), range(len(self._names))))
            producers = list(pool.map(partial(self._produce, client), self._names))
        self._began = time.monotonic()
        self._pauses.begin(self._began)
        self._send(producers)
        self._sent_until = time.monotonic()
        self._drain()
        tally = self._tally("ended", final=True)
        del consumers
        client.shutdown()
        return tally

    def _client(self) -> Any:
        order = self._order
        # At this level it logs every connection of a producer or consumer, and no message.
        log = pulsar.FileLogger(pulsar.LoggerLevel.Info, str(Path(order.folder) / CLIENT_LOG))
        authentication = pulsar.AuthenticationToken(order.token) if order.token else None
        return pulsar.Client(
            order.service_url, authentication=authentication, logger=log, io_threads=1, message_listener_threads=1
        )

    def _subscribe(self, client: Any, topic: int) -> Any:
        def on_message(consumer: Any, message: Any) -> None:
            self._pauses.received(topic, time.monotonic())
            self._counts.received(topic, NUMBER.unpack_from(message.data())[0])
            consumer.acknowledge(message)

        return client.subscribe(
            self._names[topic],
            SUBSCRIPTION,
            consumer_type=pulsar.ConsumerType.Shared,
            message_listener=on_message,
            initial_position=pulsar.InitialPosition.Earliest,
        )

    def _produce(self, client: Any, name: str) -> Any:
        return client.create_producer(
            name,
            batching_enabled=self._order.is_batched,
            batching_max_publish_delay_ms=BATCHING_MS,
            send_timeout_millis=SEND_TIMEOUT_MS,
            max_pending_messages=QUEUE,
            max_pending_messages_across_partitions=0,
        )

    def _send(self, producers: Sequence[Any]) -> None:
        credit = [0.0] * len(producers)
        last = reported = self._began
        while self._goes_on():
            now = time.monotonic()
            passed, last = min(now - last, LONGEST_CATCH_UP_SECONDS), now
            for topic, producer in enumerate(producers):
                credit[topic] += self._rates[topic] * passed
                while credit[topic] >= 1.0:
                    credit[topic] -= 1.0
                    self._send_one(producer, topic)
            if now - reported >= REPORT_SECONDS:
                reported = now
                self._report("running")
            time.sleep(max(0.0, now + TICK_SECONDS - time.monotonic()))

    def _send_one(self, producer: Any, topic: int) -> None:
        number = self._counts.next_number(topic)
        try:
            producer.send_async(NUMBER.pack(number) + self._filling, self._on_answer(topic, number))
        except Exception as error:  # a full queue, a closed producer: the client has a class for each
            self._counts.failed(type(error).__name__)

    def _on_answer(self, topic: int, number: int) -> Callable[[Any, Any], None]:
        def answered(result: Any, _message: Any) -> None:
            if result == pulsar.Result.Ok:
                self._counts.acknowledged(topic, number)
            else:
                self._counts.failed(str(result))

        return answered

    def _goes_on(self) -> bool:
        return not self._stopping and time.monotonic() - self._began < self._order.seconds and lives(self._order.owner)

    def _drain(self) -> None:
        """Wait until everything has arrived, for a bounded time."""
        self._report("draining")
        until = time.monotonic() + self._order.drain_seconds
        while not self._counts.settled() and time.monotonic() < until and lives(self._order.owner):
            time.sleep(TICK_SECONDS)

    def _tally(self, state: str, *, final: bool = False) -> Tally:
        times, now = os.times(), time.monotonic()
        pause, paused = self._pauses.longest(self._sent_until or now)
        self._connections.read_on()
        return self._counts.tally(
            final=final,
            state=state,
            producer_reconnects=self._connections.reconnects("producer"),
            consumer_reconnects=self._connections.reconnects("consumer"),
            longest_pause_seconds=round(pause, 2),
            longest_pause_topic=paused,
            seconds=round(now - self._began, 2),
            cpu_seconds=round(times.user + times.system, 2),
        )

    def _report(self, state: str) -> None:
        self._tally(state).write(Path(self._order.folder) / PROGRESS)

    def _stop(self, _signal: int, _frame: object) -> None:
        self._stopping = True


def main() -> int:
    order = Order(**json.loads(sys.stdin.read()))
    Sender(order).run().write(Path(order.folder) / RESULT)
    if not lives(order.owner):  # no one is left to read it
        shutil.rmtree(order.folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
