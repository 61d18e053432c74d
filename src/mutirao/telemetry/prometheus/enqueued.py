"""Jobs that a program enqueues, counted among its own metrics."""

from typing import TYPE_CHECKING

from prometheus_client import REGISTRY, CollectorRegistry, Counter

from mutirao.model.jobs.job import NewJob
from mutirao.tasks.around.middleware import EnqueueSteps
from mutirao.telemetry.prometheus.families import SeriesNames

if TYPE_CHECKING:
    from mutirao.app import Mutirao

MOST_SERIES = 1_000  # queues and tasks that have series of their own


class EnqueuedJobs:
    """The counter `mutirao_jobs_enqueued_total`, by queue and task, in a registry of the program.

    Most programs that enqueue are web servers with metrics of their own: the counter is one of
    these, also in several processes with `PROMETHEUS_MULTIPROC_DIR`. A job is counted once its
    enqueue has returned: what is rolled back later is counted, too. Jobs of schedules, deliveries
    of topics and what SQL writes pass through no program, and are not.

    Parameters:
        registry: the program's; that of `prometheus-client` for all unless given.
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        self._counter = Counter(
            "mutirao_jobs_enqueued",
            "Jobs that were enqueued.",
            ("queue", "task"),
            registry=registry,
        )
        self._names = SeriesNames(MOST_SERIES)

    def install(self, app: "Mutirao") -> None:
        """Count what this application enqueues, from now on."""
        app.around_enqueue(self.around_enqueue)

    def around_enqueue(self, job: NewJob) -> EnqueueSteps:
        """Count a job that was written."""
        handle = yield job
        if handle.created:
            self._counter.labels(*self._names.label((job.queue, job.task))).inc()
