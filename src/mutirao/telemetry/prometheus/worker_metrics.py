"""The metrics of one worker, for Prometheus. A `Measurements`, and a collector.

Everything known at the start begins at zero: an alert on what increases would miss the first death
of a task whose series begins with it.
"""

import platform
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import TypeVar

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from mutirao.model.jobs.states import OutcomeKind
from mutirao.ports.measurements import EndedAttempt, MeasuredWorker
from mutirao.telemetry.prometheus.families import (
    LONG,
    OTHERS,
    SHORT,
    SIZES,
    Distribution,
    Labels,
    Named,
    SeriesNames,
    alone,
    counter,
    gauge,
    histogram,
)

MOST_QUEUES, MOST_TASKS = 200, 1_000  # that have series of their own
T = TypeVar("T")
_OF_TASK = ("queue", "task")
_REPORTED = tuple(str(kind) for kind in OutcomeKind if kind is not OutcomeKind.LOST)

ATTEMPTS = Named(
    "mutirao_attempts",
    "Attempts that have ended and whose outcome is written, by outcome.",
    (*_OF_TASK, "outcome"),
)
DURATION = Named("mutirao_attempt_duration_seconds", "How long attempts took.", _OF_TASK)
WAIT = Named(
    "mutirao_wait_seconds", "How long jobs were due before an attempt started.", ("queue",)
)
CLAIM = Named("mutirao_claim_seconds", "How long claims took.")
CLAIMED = Named("mutirao_claimed_jobs", "How many jobs a claim took; the sum is all of them.")
SETTLE = Named("mutirao_settle_seconds", "How long it took to write the outcomes of a batch.")
RESCUED = Named("mutirao_rescued", "Jobs of vanished workers that this one has given back.")
FENCED = Named("mutirao_fenced", "Attempts whose outcome was dropped: the job was taken away.")
SLOTS = Named("mutirao_slots", "How many jobs may run at once.")
STUCK = Named("mutirao_stuck_slots", "Slots lost to handlers that do not end.")
RUNNING = Named("mutirao_running_jobs", "Jobs that run.")
WAITING = Named("mutirao_claimed_waiting_jobs", "Jobs that are claimed and wait for a slot.")
UNSETTLED = Named("mutirao_unsettled_attempts", "Attempts whose outcome is not written yet.")
BEAT = Named("mutirao_heartbeat_age_seconds", "Seconds since the last heartbeat was written.")
READY = Named("mutirao_worker_ready", "1 if the worker works and takes jobs, else 0.")
BUILD = Named("mutirao_build_info", "1, with what runs as labels.", ("version", "python"))


class _Series:
    """The attempts of a task that ended with an outcome; how long all of the task's took."""

    __slots__ = ("attempts", "durations")

    def __init__(self, durations: Distribution) -> None:
        self.attempts, self.durations = 0, durations


class WorkerMetrics(Collector):
    """The numbers of one worker."""

    def __init__(self) -> None:
        self._worker: MeasuredWorker | None = None
        self._queues, self._tasks = SeriesNames(MOST_QUEUES), SeriesNames(MOST_TASKS)
        self._attempts: dict[Labels, _Series] = {}
        # The same, by the labels of an attempt, for those with series of their own.
        self._series: dict[tuple[str, str, OutcomeKind], _Series] = {}
        self._waits_of: dict[str, Distribution] = {}
        self._durations: dict[Labels, Distribution] = {}
        self._waits: dict[Labels, Distribution] = {}
        self._claim, self._claimed = Distribution(SHORT), Distribution(SIZES)
        self._settle = Distribution(SHORT)
        self._rescued = self._fenced = 0
        self._build = (version("mutirao"), platform.python_version())

    def registry(self) -> CollectorRegistry:
        """Return a registry of its own, with metrics of the process as well."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        ProcessCollector(registry=registry)
        return registry

    def begin(self, worker: MeasuredWorker) -> None:
        """Read this worker from now on; start the series of what it serves at zero."""
        self._worker = worker
        queues, tasks = worker.served
        for queue in queues:
            self._wait_of(queue)
        for queue, task in tasks:
            labels = self._tasks.label((queue, task))
            durations = self._duration_of(labels)
            for outcome in _REPORTED:
                self._attempts.setdefault((*labels, outcome), _Series(durations))

    def end(self, worker: MeasuredWorker) -> None:
        """Stop reading it."""
        self._worker = None

    def claimed(self, jobs: int, seconds: float) -> None:
        """Add a claim."""
        self._claim.add(seconds)
        self._claimed.add(jobs)

    def settled(self, jobs: int, seconds: float) -> None:
        """Add a settlement."""
        self._settle.add(seconds)

    def ended(self, attempts: Sequence[EndedAttempt]) -> None:
        """Add attempts."""
        series, waits = self._series, self._waits_of
        for queue, task, outcome, _, wait, seconds, _ in attempts:
            found = series.get((queue, task, outcome)) or self._series_of(queue, task, outcome)
            found.attempts += 1
            found.durations.add(seconds)
            (waits.get(queue) or self._wait_of(queue)).add(wait)

    def fenced(self, jobs: int) -> None:
        """Add attempts that were dropped."""
        self._fenced += jobs

    def rescued(self, jobs: int) -> None:
        """Add jobs that were given back."""
        self._rescued += jobs

    def collect(self) -> Iterator[Metric]:
        """Yield all families; in the thread of a scrape."""
        attempts = [(labels, float(each.attempts)) for labels, each in _copied(self._attempts)]
        yield counter(ATTEMPTS, attempts)
        yield histogram(DURATION, _copied(self._durations))
        yield histogram(WAIT, _copied(self._waits))
        yield histogram(CLAIM, [((), self._claim)])
        yield histogram(CLAIMED, [((), self._claimed)])
        yield histogram(SETTLE, [((), self._settle)])
        yield counter(RESCUED, alone(self._rescued))
        yield counter(FENCED, alone(self._fenced))
        yield from self._of_now()
        yield gauge(BUILD, [(self._build, 1)])

    def _of_now(self) -> Iterator[Metric]:
        if (worker := self._worker) is None:
            return
        load = worker.load()
        yield gauge(SLOTS, alone(load.slots))
        yield gauge(STUCK, alone(load.stuck))
        yield gauge(RUNNING, alone(load.running))
        yield gauge(WAITING, alone(load.waiting))
        yield gauge(UNSETTLED, alone(load.unsettled))
        yield gauge(BEAT, alone(load.beat_age))
        yield gauge(READY, alone(worker.condition().ready))

    def _series_of(self, queue: str, task: str, outcome: OutcomeKind) -> "_Series":
        labels = self._tasks.label((queue, task))
        key = (*labels, outcome.value)
        found = self._attempts.get(key)
        if found is None:
            found = self._attempts[key] = _Series(self._duration_of(labels))
        if OTHERS not in labels:
            self._series[queue, task, outcome] = found
        return found

    def _duration_of(self, labels: Labels) -> Distribution:
        found = self._durations.get(labels)
        if found is None:
            found = self._durations[labels] = Distribution(LONG)
        return found

    def _wait_of(self, queue: str) -> Distribution:
        labels = self._queues.label((queue,))
        found = self._waits.get(labels)
        if found is None:
            found = self._waits[labels] = Distribution(LONG)
        if OTHERS not in labels:
            self._waits_of[queue] = found
        return found


def _copied(values: dict[Labels, T]) -> list[tuple[Labels, T]]:
    """Return the items of a dictionary at one moment; its owner may add to it meanwhile."""
    return list(values.items())
