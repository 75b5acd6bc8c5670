"""What the server counts, for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)


class Metrics:
    """Counts of one server.

    >>> metrics = Metrics()
    >>> metrics.requests.labels("/sparql", "200").inc()
    >>> b'sheaves_requests_total{route="/sparql",status="200"} 1.0' in metrics.text()
    True
    """

    content_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "sheaves_requests", "Requests answered.", ["route", "status"], registry=registry
        )
        self.seconds = Histogram(
            "sheaves_request_seconds",
            "From a request's arrival to its answer.",
            ["route"],
            buckets=SECONDS,
            registry=registry,
        )
        self.work = Histogram(
            "sheaves_work_seconds", "In a worker.", buckets=SECONDS, registry=registry
        )
        self.waiting = Gauge(
            "sheaves_requests_inside", "Requests with a worker or waiting.", registry=registry
        )
        self.lost = Counter(
            "sheaves_workers_ended",
            "Workers ended at a deadline, by dying, or because their client left.",
            ["why"],
            registry=registry,
        )
        self.generations = Counter(
            "sheaves_models_read", "How often the models were read.", registry=registry
        )

    def text(self) -> bytes:
        """All counts as Prometheus reads them."""
        return generate_latest(self._registry)
