"""A collector of OpenTelemetry's metrics that listens here (OTLP by HTTP), and the gauges that it was sent."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.serving import answering


@contextmanager
def collector(bodies: list[bytes]) -> Iterator[int]:
    """The port of a collector of OpenTelemetry's metrics (OTLP by HTTP), and what it was sent."""

    def keep(_: object, body: bytes) -> tuple[int, bytes]:
        bodies.append(body)
        return 200, b""

    with answering(keep) as port:
        yield port


def gauges(bodies: list[bytes]) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Name and tags of each gauge in what a collector was sent -> its value."""
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    found = {}
    for body in bodies:
        request = ExportMetricsServiceRequest.FromString(body)
        scopes = [scope for resource in request.resource_metrics for scope in resource.scope_metrics]
        for metric in (one for scope in scopes for one in scope.metrics):
            for point in metric.gauge.data_points:
                tags = tuple(sorted((one.key, one.value.string_value) for one in point.attributes))
                found[metric.name, tags] = point.as_double or float(point.as_int)
    return found
