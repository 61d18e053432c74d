"""Measurements by OpenTelemetry's API, for those who have no Prometheus.

Where the semantic conventions for messaging have a name it is used. They have none for waits,
outcomes and workers: those begin with `mutirao.`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple
from weakref import WeakSet

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from mutirao.model.jobs.states import OutcomeKind
from mutirao.ports.measurements import EndedAttempt, MeasuredWorker, WorkerLoad

# Seconds. Those of the conventions; and for waits, which last longer.
DURATIONS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
WAITS = (0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3_600, 14_400, 86_400)
SYSTEM, OPERATION = "messaging.system", "messaging.operation.name"
QUEUE, TASK, ERROR_TYPE = "messaging.destination.name", "messaging.mutirao.task", "error.type"
_GAUGES: Mapping[str, tuple[str, str, Callable[[WorkerLoad], float | None]]] = {
    "mutirao.worker.slots": ("{slot}", "Attempts that may run at once", lambda at: at.slots),
    "mutirao.worker.running": ("{attempt}", "Attempts that run", lambda at: at.running),
    "mutirao.worker.waiting": ("{job}", "Claimed jobs without a slot", lambda at: at.waiting),
    "mutirao.worker.unsettled": (
        "{attempt}", "Attempts whose outcomes are to be written", lambda at: at.unsettled,
    ),
    "mutirao.worker.stuck": ("{slot}", "Slots lost to handlers given up", lambda at: at.stuck),
    "mutirao.worker.heartbeat.age": ("s", "Time since the last beat", lambda at: at.beat_age),
}  # fmt: skip


_Alike = tuple[str, str, OutcomeKind, str | None]  # the queue, the task, the outcome, the error
KINDS_KEPT = 1_000  # whose attributes are kept; types of errors may be many


class _Told(NamedTuple):
    """The attributes that attempts which are alike have in each instrument."""

    process: Mapping[str, str]
    ended: Mapping[str, str]
    job: Mapping[str, str]


def _attributes(queue: str, task: str, outcome: OutcomeKind, error_type: str | None) -> _Told:
    failed = outcome in (OutcomeKind.RETRIED, OutcomeKind.DEAD)
    error = {ERROR_TYPE: error_type or "_OTHER"} if failed else {}
    job = {QUEUE: queue, TASK: task}
    process = {**_about("process"), **job, **error}
    return _Told(process, {**process, "messaging.mutirao.outcome": str(outcome)}, job)


class Instruments:
    """The instruments of one meter."""

    def __init__(self, meter: Meter) -> None:
        self._sent = meter.create_counter(
            "messaging.client.sent.messages", "{message}", "Jobs that were enqueued"
        )
        self._operations = meter.create_histogram(
            "messaging.client.operation.duration",
            "s",
            "Duration of enqueues, claims and the writing of outcomes",
            explicit_bucket_boundaries_advisory=DURATIONS,
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Attempts whose outcome is written"
        )
        self._duration = meter.create_histogram(
            "messaging.process.duration",
            "s",
            "Duration of attempts",
            explicit_bucket_boundaries_advisory=DURATIONS,
        )
        self._wait = meter.create_histogram(
            "mutirao.job.wait",
            "s",
            "Time from when a job was due until its attempt began",
            explicit_bucket_boundaries_advisory=WAITS,
        )
        self._fenced = meter.create_counter(
            "mutirao.attempts.fenced", "{attempt}", "Outcomes dropped, as the job had been taken"
        )
        self._rescued = meter.create_counter(
            "mutirao.jobs.rescued", "{job}", "Jobs of vanished workers that were given back"
        )
        self._told: dict[_Alike, _Told] = {}
        self.workers: WeakSet[MeasuredWorker] = WeakSet()
        for name, (unit, told, read) in _GAUGES.items():
            meter.create_observable_gauge(name, [self._observing(read)], unit, told)

    def enqueued(self, jobs: Mapping[tuple[str, str], int], seconds: float) -> None:
        """Count one enqueue of jobs, so many by queue and task."""
        for (queue, task), count in jobs.items():
            self._sent.add(count, {**_about("enqueue"), QUEUE: queue, TASK: task})
        queues = {queue for queue, _ in jobs}
        where = {QUEUE: queues.pop()} if len(queues) == 1 else {}
        self._operations.record(seconds, {**_about("enqueue"), **where})

    def operation(self, name: str, seconds: float) -> None:
        """Record one operation of a worker."""
        self._operations.record(seconds, _about(name))

    def ended(self, attempts: Sequence[EndedAttempt]) -> None:
        """Count attempts; those that are alike are counted at once, and timed one by one."""
        counts: dict[_Alike, int] = {}
        record_duration, record_wait = self._duration.record, self._wait.record
        for queue, task, outcome, _, wait, seconds, error_type in attempts:
            alike = queue, task, outcome, error_type
            counts[alike] = counts.get(alike, 0) + 1
            told = self._told.get(alike) or self._tell(alike)
            record_duration(seconds, told.process)
            record_wait(wait, told.job)
        for alike, count in counts.items():
            self._consumed.add(count, self._tell(alike).ended)

    def _tell(self, alike: "_Alike") -> "_Told":
        """Return the attributes of such attempts, made once for many of them."""
        if (told := self._told.get(alike)) is None:
            if len(self._told) >= KINDS_KEPT:
                self._told.clear()
            told = self._told[alike] = _attributes(*alike)
        return told

    def fenced(self, jobs: int) -> None:
        """Count attempts whose outcomes were dropped."""
        self._fenced.add(jobs)

    def rescued(self, jobs: int) -> None:
        """Count jobs that were given back."""
        self._rescued.add(jobs)

    def _observing(
        self, read: Callable[[WorkerLoad], float | None]
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            found = [read(worker.load()) for worker in list(self.workers)]
            known = [value for value in found if value is not None]
            if known:
                yield Observation(max(known) if read is _AGE else sum(known))

        return observe


_AGE = _GAUGES["mutirao.worker.heartbeat.age"][2]


class WorkerMeasurements:
    """What workers report, recorded by instruments."""

    def __init__(self, instruments: Instruments) -> None:
        self._to = instruments

    def begin(self, worker: MeasuredWorker) -> None:
        """Read the gauges of a worker from now on."""
        self._to.workers.add(worker)

    def end(self, worker: MeasuredWorker) -> None:
        """Read them no more."""
        self._to.workers.discard(worker)

    def claimed(self, jobs: int, seconds: float) -> None:
        """Record a claim."""
        self._to.operation("claim", seconds)

    def settled(self, jobs: int, seconds: float) -> None:
        """Record that outcomes were written."""
        self._to.operation("settle", seconds)

    def ended(self, attempts: Sequence[EndedAttempt]) -> None:
        """Count attempts."""
        self._to.ended(attempts)

    def fenced(self, jobs: int) -> None:
        """Count attempts whose outcomes were dropped."""
        self._to.fenced(jobs)

    def rescued(self, jobs: int) -> None:
        """Count jobs that were given back."""
        self._to.rescued(jobs)


def _about(operation: str) -> dict[str, str]:
    return {SYSTEM: "mutirao", OPERATION: operation}
