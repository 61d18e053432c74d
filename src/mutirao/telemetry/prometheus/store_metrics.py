"""The metrics of the store, for Prometheus: read once for a fleet, and kept for some seconds.

Depths, ages and lags are the same for every worker. When each worker counted them, counting took
more of the database's time than the work. So one process reads them, from existing sums, and for at
most a tenth of the time.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from time import monotonic
from types import MappingProxyType
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from mutirao.errors import MutiraoError
from mutirao.log import log
from mutirao.model.jobs.records import WorkerRecord
from mutirao.model.jobs.states import JobState
from mutirao.model.limits.limits import LimitRecord
from mutirao.model.reading.figures import QueueFigure
from mutirao.model.schedules.schedule import ScheduleRecord, ScheduleStatus
from mutirao.model.topics.subscriptions import SubscriptionRecord
from mutirao.model.webhooks.breakers import BreakerState
from mutirao.model.webhooks.endpoints import EndpointRecord
from mutirao.ports import Store, Transport
from mutirao.telemetry.prometheus.broker_reading import BrokerReading, of_brokers, read_brokers
from mutirao.telemetry.prometheus.families import Labels, Named, alone, gauge, written
from mutirao.telemetry.prometheus.http_port import PortReply
from mutirao.telemetry.prometheus.text import scraped

LEAST_AGE = 10.0  # seconds for which a reading is kept at least
SHARE = 10  # a reading may take one tenth of the time
READ_WITHIN = 8.0  # seconds that a statement may take
MOST_SERIES = 500  # of a kind that users name, such as schedules; those with the greatest values
PAUSED, DISABLED = "paused", "disabled"
_ENDPOINT_STATES = (*map(str, BreakerState), PAUSED, DISABLED)

UP = Named("mutirao_store_up", "1 if the database could be read, else 0.")
TOOK = Named("mutirao_store_read_seconds", "How long it took to read all of this.")
AGE = Named("mutirao_store_age_seconds", "How old this is.")
JOBS = Named("mutirao_jobs", "Jobs by state.", ("queue", "state"))
OLDEST = Named(
    "mutirao_oldest_ready_seconds", "Since when the first ready job is due; 0: none.", ("queue",)
)
QUEUE_PAUSED = Named("mutirao_queue_paused", "1 if the queue is paused, else 0.", ("queue",))
QUEUE_WORKERS = Named("mutirao_queue_workers", "Live workers that serve the queue.", ("queue",))
WORKERS = Named("mutirao_workers", "Workers, by whether their heartbeat is in time.", ("state",))
LATE = Named("mutirao_worker_late_seconds", "The longest delay of a heartbeat lately.")
SCHEDULE_LAG = Named(
    "mutirao_schedule_lag_seconds", "For how long a tick is overdue; 0: it is not.", ("schedule",)
)
SCHEDULES = Named("mutirao_schedules", "Schedules by status.", ("status",))
LIMIT_RUNNING = Named("mutirao_limit_running_jobs", "Jobs that run, by limit.", ("limit",))
LIMIT_PARKED = Named("mutirao_limit_parked_jobs", "Jobs that wait for a limit.", ("limit",))
LIMIT_FULL = Named("mutirao_limit_full_keys", "Values of a limit that are at it.", ("limit",))
LAG = Named(
    "mutirao_subscription_lag_seconds",
    "Since when the first delivery that has not ended is published; 0: none.",
    ("subscription",),
)
DELIVERIES = Named(
    "mutirao_subscription_waiting_deliveries", "Deliveries that wait.", ("subscription",)
)
STOPPED = Named(
    "mutirao_subscription_stopped_keys",
    "Values of order_by of which a dead delivery stops the others.",
    ("subscription",),
)
ENDPOINTS = Named(
    "mutirao_endpoints", "Endpoints, by their breaker, or as paused or disabled.", ("state",)
)
HELD = Named("mutirao_held_deliveries", "Deliveries of webhooks that are held.")


class StoreReading(NamedTuple):
    """The state of the store at a moment."""

    at: datetime
    figures: list[QueueFigure]
    workers: list[WorkerRecord]
    paused: list[str]
    schedules: list[ScheduleRecord]
    limits: list[LimitRecord]
    subscriptions: list[SubscriptionRecord]
    endpoints: list[EndpointRecord]
    brokers: list[BrokerReading]


async def read(store: Store, transports: Mapping[str, Transport]) -> StoreReading:
    """Read all of it: one statement or a few for each; two counts of a queue at a broker."""
    return StoreReading(
        figures=await store.reading.figures(),
        workers=await store.workers(),
        paused=await store.limits.paused_queues(),
        schedules=await store.schedules.listed(),
        limits=await store.limits.listed(),
        subscriptions=await store.subscriptions.listed(),
        endpoints=await store.endpoints.listed(),
        brokers=await read_brokers(transports),
        at=datetime.now(UTC),
    )


class StoreMetrics:
    """The metrics of a store, as a text, in one event loop.

    Parameters:
        store: a handle that is used only here, with a time limit; see `READ_WITHIN`.
        queues: those that tasks are in, which have series even without a job.
        least_age: seconds for which a reading is kept at least.
        transports: the brokers of queues, by queue.
    """

    def __init__(
        self,
        store: Store,
        queues: Iterable[str] = (),
        least_age: float = LEAST_AGE,
        transports: Mapping[str, Transport] = MappingProxyType({}),
    ) -> None:
        self._transports = transports
        self._store, self._queues, self._least_age = store, frozenset(queues), least_age
        self._lock = asyncio.Lock()
        self._reading: StoreReading | None = None
        self._read_at, self._took, self._fresh_until = 0.0, 0.0, 0.0
        self._failed = False

    async def scraped(self, accept: str = "") -> PortReply:
        """Return the answer to a scrape."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(await self.collected())
        return scraped(registry, accept)

    async def collected(self) -> Collector:
        """Return the numbers; concurrent callers share one reading."""
        async with self._lock:
            if monotonic() >= self._fresh_until:
                await self._read()
            reading, age = self._reading, monotonic() - self._read_at
        return _Collected(reading, self._queues, self._took, age)

    async def _read(self) -> None:
        began = monotonic()
        reading, self._reading = None, None
        try:
            reading = await read(self._store, self._transports)
        except MutiraoError as error:
            if not self._failed:
                log.warning("the metrics of the store cannot be read: %s", error)
            self._failed = True
        else:
            if self._failed:
                log.warning("the metrics of the store can be read again")
            self._failed = False
        finally:  # also after unexpected errors, or each scrape would read again
            self._reading, self._read_at = reading, monotonic()
            self._took = self._read_at - began
            self._fresh_until = self._read_at + max(self._least_age, SHARE * self._took)


class _Collected(Collector):
    """A reading as families. `age`: how old it is, in seconds; `took`: how long it took."""

    def __init__(
        self, reading: StoreReading | None, queues: frozenset[str], took: float, age: float
    ) -> None:
        self._reading, self._queues, self._took, self._age = reading, queues, took, age

    def collect(self) -> Iterator[Metric]:
        """Yield all families; if the database cannot be read, only `mutirao_store_up`."""
        yield gauge(UP, alone(self._reading is not None))
        yield gauge(TOOK, alone(self._took))
        if self._reading is not None:
            yield gauge(AGE, alone(self._age))
            yield from _of_queues(self._reading, self._queues)
            yield from _of_workers(self._reading)
            yield from _of_schedules(self._reading)
            yield from _of_limits(self._reading.limits)
            yield from _of_subscriptions(self._reading.subscriptions)
            yield from _of_endpoints(self._reading.endpoints)
            yield from of_brokers(self._reading.brokers)


def _of_queues(found: StoreReading, known: frozenset[str]) -> Iterator[Metric]:
    jobs = {(each.queue, each.state): each for each in found.figures}
    by_size = Counter[str]()
    for each in found.figures:
        by_size[each.queue] += each.jobs
    queues = [*sorted(known), *(name for name, _ in by_size.most_common() if name not in known)]
    queues = queues[:MOST_SERIES]
    yield gauge(JOBS, (((written(queue), state.value), float(_number(jobs.get((queue, state)))))
                       for queue in queues for state in JobState))  # fmt: skip
    yield gauge(
        OLDEST, (((written(q),), _since(jobs.get((q, JobState.READY)), found.at)) for q in queues)
    )
    paused, workers = {*found.paused}, [each for each in found.workers if each.alive]
    yield gauge(QUEUE_PAUSED, (((written(queue),), float(queue in paused)) for queue in queues))
    serving = {queue: sum(each.serves(queue) for each in workers) for queue in queues}
    yield gauge(QUEUE_WORKERS, _named(serving))


def _number(figure: QueueFigure | None) -> int:
    return 0 if figure is None else figure.jobs


def _since(figure: QueueFigure | None, now: datetime) -> float:
    """Return the age of the oldest, if that is known."""
    if figure is None or figure.oldest is None or not figure.jobs:
        return 0.0
    return max(0.0, (now - figure.oldest).total_seconds())


def _of_workers(found: StoreReading) -> Iterator[Metric]:
    alive = [each for each in found.workers if each.alive]
    states = {"alive": len(alive), "expired": len(found.workers) - len(alive)}
    yield gauge(WORKERS, _named(states))
    yield gauge(LATE, alone(max((each.late for each in alive), default=0.0)))


def _of_schedules(found: StoreReading) -> Iterator[Metric]:
    by_status = Counter(each.status for each in found.schedules)
    yield gauge(SCHEDULES, (((status.value,), by_status[status]) for status in ScheduleStatus))
    due = ((each.name, each.next_at) for each in found.schedules
           if each.status is ScheduleStatus.ACTIVE and each.next_at is not None)  # fmt: skip
    lags = {name: max(0.0, (found.at - at).total_seconds()) for name, at in due}
    yield gauge(SCHEDULE_LAG, _named(lags))


def _of_limits(limits: list[LimitRecord]) -> Iterator[Metric]:
    running, parked, full = Counter[str](), Counter[str](), Counter[str]()
    for each in limits:
        running[each.name] += each.running
        parked[each.name] += each.parked
        full[each.name] += _is_full(each)
    yield gauge(LIMIT_RUNNING, _named(running))
    yield gauge(LIMIT_PARKED, _named(parked))
    yield gauge(LIMIT_FULL, _named(full))


def _is_full(limit: LimitRecord) -> bool:
    if limit.key is None:
        return False
    if limit.per is not None:
        return limit.tokens is not None and limit.tokens < 1
    return limit.running >= limit.most


def _of_subscriptions(found: list[SubscriptionRecord]) -> Iterator[Metric]:
    yield gauge(LAG, _named({each.id: each.lag or 0.0 for each in found}))
    yield gauge(DELIVERIES, _named({each.id: each.waiting for each in found}))
    yield gauge(STOPPED, _named({each.id: each.stopped for each in found}))


def _of_endpoints(found: list[EndpointRecord]) -> Iterator[Metric]:
    by_state = Counter(map(_endpoint_state, found))
    yield gauge(ENDPOINTS, (((state,), by_state[state]) for state in _ENDPOINT_STATES))
    yield gauge(HELD, alone(sum(each.held for each in found)))


def _endpoint_state(endpoint: EndpointRecord) -> str:
    if not endpoint.active:
        return DISABLED
    return PAUSED if endpoint.paused else endpoint.breaker


def _named(values: Mapping[str, float]) -> Iterator[tuple[Labels, float]]:
    """Yield values by name: a limited number, the greatest ones."""
    most = sorted(values.items(), key=lambda item: (-item[1], item[0]))[:MOST_SERIES]
    for name, value in most:
        yield (written(name),), float(value)
