"""The numbers of a worker: what is added up, and how many series there can be."""

from __future__ import annotations

import pytest
from prometheus_client import generate_latest

from mutirao.model.jobs.states import OutcomeKind
from mutirao.ports.measurements import EndedAttempt
from mutirao.telemetry.prometheus.families import OTHERS, Distribution
from mutirao.telemetry.prometheus.text import scraped
from mutirao.telemetry.prometheus.worker_metrics import MOST_QUEUES, WorkerMetrics


def attempt(queue: str = "mail", wait: float = 0.0, seconds: float = 0.0) -> EndedAttempt:
    """Return an attempt that has succeeded."""
    return EndedAttempt(queue, "send", OutcomeKind.SUCCEEDED, 1, wait, seconds, None)


def test_a_value_on_a_bound_is_not_above_it() -> None:
    """As Prometheus means it: `le` is "less or equal"."""
    distribution = Distribution((0.5, 1))
    for value in (0.5, 0.6, 1, 7):
        distribution.add(value)
    assert distribution.buckets() == ([("0.5", 1.0), ("1.0", 3.0), ("+Inf", 4.0)], 9.1)


def test_queues_without_end_have_no_series_without_end() -> None:
    """A queue for each customer: those that come first have one, the others one together."""
    metrics = WorkerMetrics()
    metrics.ended([attempt(f"customer-{number}") for number in range(5 * MOST_QUEUES)])
    text = generate_latest(metrics.registry()).decode()
    assert text.count("mutirao_wait_seconds_count{") == MOST_QUEUES + 1
    assert f'mutirao_wait_seconds_count{{queue="{OTHERS}"}} {4.0 * MOST_QUEUES}' in text


def test_names_are_what_they_are() -> None:
    """Quotes, line ends and half characters in a queue's name do not break the text."""
    metrics = WorkerMetrics()
    metrics.ended([attempt('a"b\\c\nd'), attempt("lone\ud800")])
    text = generate_latest(metrics.registry())
    assert rb'{queue="a\"b\\c\nd"}' in text


@pytest.mark.parametrize(
    "accept", ["application/openmetrics-text; version=abc", "text/plain;version=²"]
)
def test_what_nobody_can_accept(accept: str) -> None:
    """It is answered by a text of metrics, and is no error; earlier clients take any version."""
    reply = scraped(WorkerMetrics().registry(), accept)
    kind = reply.content_type.partition(";")[0]
    assert reply.status == 200
    assert kind in ("text/plain", accept.partition(";")[0])
