"""Answers scrapes: GET /metrics in Prometheus's text or in OpenMetrics, GET /health, and nothing else.

A scrape reads no lake: it gets the last reading of `LakeWatch`, and its age. The server is one of the standard library.
It listens on plain HTTP; put a proxy with TLS before it outside a trusted network. Bounded are the seconds of a
connection, the number of connections at a time, and the size of a request.
"""

from __future__ import annotations

import gzip
import hmac
import logging
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from evenkeel.metrics.declarations import CLUSTER, CONFIGURATION_USABLE, COUNTER, METRICS, ExportedMetric
from evenkeel.metrics.lake_watch import ConfigurationWatch, LakeReading, LakeWatch, WatchedLakes
from evenkeel.secret import Secret
from evenkeel.transparency.keys import shown

CONNECTION_SECONDS = 20.0
"""Longest time of a connection, with all its requests (seconds)."""
MOST_SCRAPES = 8
"""Connections at a time; further ones are closed at once."""
_BEARER = "Bearer "

log = logging.getLogger(__name__)

Watched = LakeWatch | ConfigurationWatch


class LakeCollector(Collector):
    """The metrics of a watched lake, as prometheus_client takes them; of several with the label `lake`."""

    def __init__(self, watched: Watched) -> None:
        self._watched = watched

    def collect(self) -> Iterator[Metric]:
        """Every metric that has a value now."""
        lakes: WatchedLakes | None = None
        more: tuple[str, ...] = ()
        if isinstance(self._watched, LakeWatch):
            last = {"": self._watched.last}
        else:
            yield _family(CONFIGURATION_USABLE, {(): float(self._watched.is_usable)})
            lakes = self._watched.watched
            last = {name: watch.last for name, watch in lakes.watches.items()}
            more = ("lake",) if lakes.lakes.is_several else ()
        for metric in METRICS:
            values: dict[tuple[str, ...], float] = {}
            for lake, reading in last.items():
                for labels, value in sorted(_values(reading, metric.name).items()):
                    if value is not None and (
                        lakes is None or metric.labels[:1] != CLUSTER or lakes.counts(lake, labels[0])
                    ):
                        values[(lake, *labels) if more else labels] = value
            if values:
                yield _family(metric, values, more)


def _family(
    metric: ExportedMetric, values: Mapping[tuple[str, ...], float], more: tuple[str, ...] = ()
) -> GaugeMetricFamily | CounterMetricFamily:
    make = CounterMetricFamily if metric.kind == COUNTER else GaugeMetricFamily
    family: GaugeMetricFamily | CounterMetricFamily = make(
        metric.name, f"{metric.meaning} ({metric.unit})", labels=(*more, *metric.labels)
    )
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family


def _values(last: LakeReading, name: str) -> Mapping[tuple[str, ...], float | None]:
    """Return the values of a metric by its labels: the exporter's own, or those of the last reading."""
    samples = {
        "evenkeel_up": float(last.is_up),
        "evenkeel_reading_age_seconds": last.age_seconds(),
        "evenkeel_reading_duration_seconds": last.seconds,
        "evenkeel_reading_failures_total": float(last.failures),
        "evenkeel_unread_parts": float(len(last.figures.unread)) if last.is_up else None,
    }
    return {(): samples[name]} if name in samples else last.figures.values.get(name, {})


class MetricsServer(ThreadingHTTPServer):
    """Server of the metrics of one or several watched lakes; with a `token`, only for clients that send it.

    It serves at an address `(host, port)`, port 0 for a free one. `serve_forever`, `shutdown` and `server_close` are
    those of the standard library.
    """

    daemon_threads = True
    request_queue_size = 32

    def __init__(self, address: tuple[str, int], watched: Watched, token: Secret | None = None) -> None:
        self.token = token
        self.connection_seconds = CONNECTION_SECONDS
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(LakeCollector(watched))
        self._free = threading.BoundedSemaphore(MOST_SCRAPES)
        if ":" in address[0]:
            self.address_family = socket.AF_INET6
        super().__init__(address, _ScrapeHandler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Hand a connection to a thread, or close it if too many are open."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection to its end."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log what went wrong in a connection, in one line; connections that break are nothing unusual."""
        log.info("a connection of %s ended early", client_address, exc_info=log.isEnabledFor(logging.DEBUG))


class _ScrapeHandler(BaseHTTPRequestHandler):
    """A connection that is cut after the server's `connection_seconds`."""

    sys_version = ""
    server_version = "evenkeel-metrics"
    server: MetricsServer

    def setup(self) -> None:
        """Begin to count the connection's seconds."""
        super().setup()
        self.connection.settimeout(self.server.connection_seconds)
        self._end = threading.Timer(self.server.connection_seconds, self._cut)
        self._end.daemon = True
        self._end.start()

    def finish(self) -> None:
        """End the connection."""
        self._end.cancel()
        super().finish()

    def _cut(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/health":
            self._send(200, b"ok\n")
        elif path != "/metrics":
            self._send(404, b"GET /metrics is served here, and GET /health\n")
        elif not self._may_read():
            self._send(401, b"a token is needed: Authorization: Bearer TOKEN\n", {"WWW-Authenticate": "Bearer"})
        else:
            encode, content_type = choose_encoder(self.headers.get("Accept", ""))
            body, more = encode(self.server.registry), {"Content-Type": content_type}
            if "gzip" in (self.headers.get("Accept-Encoding") or ""):
                body, more["Content-Encoding"] = gzip.compress(body, compresslevel=1), "gzip"
            self._send(200, body, more)

    def _refused(self) -> None:
        self._send(405, b"GET alone is served here\n", {"Allow": "GET"})

    do_DELETE = do_HEAD = do_OPTIONS = do_PATCH = do_POST = do_PUT = _refused

    def _may_read(self) -> bool:
        if self.server.token is None:
            return True
        given = self.headers.get_all("Authorization", [])
        if len(given) != 1 or not given[0].startswith(_BEARER):
            return False
        shown_token = given[0].removeprefix(_BEARER).strip().encode("utf-8", "surrogateescape")
        return hmac.compare_digest(shown_token, self.server.token.reveal().encode())

    def _send(self, status: int, body: bytes, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        headers = {
            "Content-Type": "text/plain; charset=utf-8", "Content-Length": str(len(body)),
            "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
        }  # fmt: skip
        for name, value in {**headers, **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        log.debug("%s: %s", self.client_address[0], shown(format % args))
