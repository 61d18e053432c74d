"""Measurements by OpenTelemetry agree with what was done."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from mutirao import Mutirao, Retry
from mutirao.model.jobs.states import OutcomeKind
from mutirao.ports.measurements import EndedAttempt
from mutirao.telemetry.opentelemetry import OpenTelemetry
from mutirao.telemetry.opentelemetry_metrics import KINDS_KEPT, Instruments, WorkerMeasurements
from tests.integration.worker.kit import ended, working
from tests.support.waiting import until


@pytest.fixture
def url(lite_url: str) -> str:
    """One database is enough: the engine decides what is told."""
    return lite_url


class Meters:
    """What an SDK has measured."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self.provider = MeterProvider([self._reader], shutdown_on_exit=False)

    def points(self, name: str) -> dict[frozenset[tuple[str, Any]], Any]:
        """Return the points of an instrument, by their attributes but for the system."""
        found = self._reader.get_metrics_data()
        for resource in found.resource_metrics if found else ():
            for metric in (each for scope in resource.scope_metrics for each in scope.metrics):
                if metric.name == name:
                    return {_told(each): each for each in metric.data.data_points}
        return {}

    def values(self, name: str) -> dict[frozenset[tuple[str, Any]], float]:
        """Return the values of a counter or a gauge."""
        return {about: each.value for about, each in self.points(name).items()}

    def counts(self, name: str) -> dict[frozenset[tuple[str, Any]], int]:
        """Return how many values a histogram has."""
        return {about: each.count for about, each in self.points(name).items()}


def _told(point: Any) -> frozenset[tuple[str, Any]]:
    told = {name.removeprefix("messaging."): value for name, value in point.attributes.items()}
    assert told.pop("system", "mutirao") == "mutirao"
    return frozenset(told.items())


def about(**told: str) -> frozenset[tuple[str, Any]]:
    """Return attributes, as they are found."""
    names = {
        "queue": "destination.name", "task": "mutirao.task", "outcome": "mutirao.outcome",
        "operation": "operation.name", "error": "error.type",
    }  # fmt: skip
    return frozenset((names[name], value) for name, value in told.items())


async def test_what_is_measured(app: Mutirao) -> None:
    """Enqueues, attempts by outcome, durations, waits; gauges while a worker runs."""
    meters = Meters()
    OpenTelemetry(meter_provider=meters.provider).install(app)

    @app.task(queue="mail", name="send", retry=Retry.fixed(2, interval=0))
    def send(fails: bool) -> None:
        if fails:
            raise ValueError("no")

    assert meters.values("mutirao.worker.slots") == {}
    async with working(app, concurrency=7):
        ids = [send.enqueue(False).id, *app.enqueue_many(map(send.job, (False, True)))]
        for id in ids:
            await ended(app, id)
        process = {"operation": "process", "queue": "mail", "task": "send"}
        bad = {**process, "error": "ValueError"}
        expected = {
            about(**process, outcome="succeeded"): 2,
            about(**bad, outcome="retried"): 1,
            about(**bad, outcome="dead"): 1,
        }
        await until(lambda: meters.values("messaging.client.consumed.messages") == expected)
        assert meters.values("mutirao.worker.slots") == {about(): 7}
        assert meters.values("mutirao.worker.running") == {about(): 0}
        assert set(meters.values("mutirao.worker.heartbeat.age")) == {about()}
    assert meters.values("mutirao.worker.slots") == {}
    assert meters.values("messaging.client.sent.messages") == {
        about(operation="enqueue", queue="mail", task="send"): 3
    }
    assert meters.counts("messaging.process.duration") == {about(**process): 2, about(**bad): 2}
    assert meters.counts("mutirao.job.wait") == {about(queue="mail", task="send"): 4}
    operations = meters.counts("messaging.client.operation.duration")
    assert operations.pop(about(operation="enqueue", queue="mail")) == 2
    assert set(operations) == {about(operation="claim"), about(operation="settle")}
    [point, _] = meters.points("messaging.process.duration").values()
    assert (point.explicit_bounds[0], point.explicit_bounds[-1]) == (0.005, 10)


async def test_without(app: Mutirao) -> None:
    """It can be turned off."""
    meters = Meters()
    OpenTelemetry(meter_provider=meters.provider, measure=False).install(app)
    send = app.task(_nothing)
    send.enqueue()
    assert meters.values("messaging.client.sent.messages") == {}


def _nothing() -> None:
    pass


def test_more_kinds_of_attempts_than_are_kept() -> None:
    """Types of errors may be many: each attempt is counted all the same, alone or among others."""
    meters, kinds = Meters(), KINDS_KEPT + 100
    to = WorkerMeasurements(Instruments(meters.provider.get_meter("m")))
    died = [
        EndedAttempt("mail", "send", OutcomeKind.DEAD, 1, 0.5, 0.25, f"E{n}") for n in range(kinds)
    ]
    to.ended([*died, *died])
    to.ended(died[:1])
    counted = meters.values("messaging.client.consumed.messages")
    first = about(operation="process", queue="mail", task="send", outcome="dead", error="E0")
    assert (len(counted), sum(counted.values()), counted[first]) == (kinds, 2 * kinds + 1, 3)
    assert sum(meters.counts("messaging.process.duration").values()) == 2 * kinds + 1
    assert meters.counts("mutirao.job.wait") == {about(queue="mail", task="send"): 2 * kinds + 1}
