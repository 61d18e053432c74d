"""Enqueues jobs whose queue is by broker alone: checks, publishes, waits for confirmation.

A job that a broker cannot hold, because it is due too late or is too large, is for the store.
Workers that serve the database run it from there.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any, NamedTuple, NoReturn

from mutirao.errors import (
    ConfigurationError,
    InvalidJob,
    MessageTooLarge,
    TransportError,
    WrongState,
)
from mutirao.model.brokers.message import Message, MessageId
from mutirao.model.jobs.job import NewJob
from mutirao.ports import Transport
from mutirao.ports.brokers import alone, grouped
from mutirao.ports.events import event_transport, published
from mutirao.tasks.job_messages import message_of, new_id
from mutirao.tasks.task import Task

PUBLISHED_AT_ONCE = 2_000  # jobs in memory, and outstanding confirms
CARRIED = 'give its transport mode="carried", or leave the queue to the database'


class NoResults:
    """Replaces results: a job by broker alone keeps none."""

    def result(self, id: int, timeout: float | None = None) -> NoReturn:
        """Raise WrongState."""
        raise WrongState(f"job {id} is by broker alone, which keeps no results; {CARRIED}")

    async def aresult(self, id: int, timeout: float | None = None) -> NoReturn:
        """Raise WrongState."""
        self.result(id, timeout)


NO_RESULTS = NoResults()


def checked_transports(transports: Mapping[str, Transport] | None) -> dict[str, Transport]:
    """Return the transports of an application by queue.

    Raises:
        ConfigurationError: they are no mapping from names of queues to transports.
    """
    if transports is None:
        return {}
    if not isinstance(transports, Mapping):
        raise ConfigurationError(
            f"transports is {transports!r:.100}; give queues and their transports, as in"
            ' {"mail": RabbitMQ("amqp://…")}'
        )
    for queue, transport in transports.items():
        if not hasattr(transport, "longest_delay"):
            raise ConfigurationError(
                f"transports have {queue!r}: {transport!r}; give a queue's name and a transport,"
                ' as in {"mail": RabbitMQ("amqp://…")}'
            )
        if transport.source is not None:
            raise ConfigurationError(
                f"the transport of {queue!r} consumes {transport.source!r} of other programs; give"
                " it to @app.consumer, or leave out its queue="
            )
    return dict(transports)


def check_task(task: Task[..., Any]) -> None:
    """Raise InvalidJob if the jobs of a task cannot be by broker alone."""
    options = task.options
    unfit = {
        "limit": bool(options.limits),
        "keep_result": options.keep_result is not None,
    }
    _refuse(options.queue, [name for name, given in unfit.items() if given])


class Published(NamedTuple):
    """The result of publishing jobs.

    Attributes:
        jobs: all of them.
        ids: of each, in order; None: it is not published.
        for_store: the indexes of those that their broker cannot hold.
        failed: why others are not published.
    """

    jobs: Sequence[NewJob]
    ids: list[int | None]
    for_store: list[int]
    failed: list[TransportError]

    def left(self) -> list[NewJob]:
        """Return the jobs that are to be written into the store."""
        return [self.jobs[n] for n in self.for_store]

    def all_ids(self, stored: Sequence[int], before: int) -> list[int]:
        """Return the ids of all, including those of the store.

        Parameters:
            stored: the ids from the store.
            before: how many other jobs of the same call were published before these.

        Raises:
            TransportError: some were not published; the message says how many.
        """
        if self.failed and before + len(self.jobs) > 1:
            others = f", after {before:,} that were" if before else ""
            raise type(self.failed[0])(
                f"{len(self.failed)} of {len(self.jobs)} jobs were not published{others}:"
                f" {self.failed[0]}"
            )
        if self.failed:
            raise self.failed[0]
        from_store = dict(zip(self.for_store, stored, strict=True))
        return [from_store[n] if id is None else id for n, id in enumerate(self.ids)]


def to_message(job: NewJob, transport: Transport) -> tuple[MessageId, Message] | None:
    """Return the id and the message of a job; None if it waits too long for its broker.

    Raises:
        InvalidJob: it has an option that only a database can keep, or waits in an ordered queue.
    """
    unfit = {
        "key": job.key is not None or (job.unique is not None and job.unique.supersede is not None),
        "findable": job.fingerprint is not None,
        "fair_by": job.fair_by is not None,
        "priority": job.priority != 0,
        "the result of another step": bool(job.refers),
    }
    _refuse(job.queue, [name for name, given in unfit.items() if given])
    delay = job.delay or 0.0
    if job.run_at is not None:
        delay = max(0.0, (job.run_at - datetime.now(UTC)).total_seconds())
    if delay > transport.longest_delay:
        if not transport.longest_delay:
            raise InvalidJob(
                f"the job is due in {delay:,.0f} s; queue {job.queue!r} keeps the order of its"
                " jobs, so none can wait: enqueue it when it is due, or in a queue without order"
            )
        return None
    id = new_id()
    return id, message_of(job, id, delay)


async def publish(jobs: Sequence[NewJob], transports: Mapping[str, Transport]) -> Published:
    """Publish jobs; return the result once the brokers have confirmed what they hold.

    Raises:
        InvalidJob: a job cannot be by broker alone; none was published.
    """
    made = [to_message(job, transports[job.queue]) for job in jobs]
    ids: list[int | None] = [each and each[0] for each in made]
    index = {each[1].id: n for n, each in enumerate(made) if each is not None}
    for_store = [n for n, each in enumerate(made) if each is None]
    messages = [each[1] for each in made if each is not None]
    failed: list[TransportError] = []
    for transport, its in grouped(messages, lambda message: transports[message.queue]):
        events = event_transport(transport)
        for message, error in zip(its, await transport.publish(its), strict=True):
            if error is None and events is not None:
                events.tell(published(message.task, message.queue, message.id))
            if isinstance(error, MessageTooLarge):
                for_store.append(index[message.id])
                ids[for_store[-1]] = None
            elif error is not None:
                failed.append(error)
    return Published(jobs, ids, for_store, failed)


async def publish_one(job: NewJob, transport: Transport) -> int | None:
    """Publish a job, in fewer steps than many; return its id, or None: it is for the store.

    Raises:
        InvalidJob: it cannot be by broker alone.
        TransportError: it is not published.
    """
    if (made := to_message(job, transport)) is None:
        return None
    id, message = made
    [error] = await transport.publish((message,))
    if isinstance(error, MessageTooLarge):
        return None
    if error is not None:
        raise error
    if (events := event_transport(transport)) is not None:
        events.tell(published(message.task, message.queue, message.id))
    return id


def refuse_conn(job: NewJob, conn: object | None) -> None:
    """Raise InvalidJob if a job by broker alone is to join a transaction."""
    if conn is not None:
        raise InvalidJob(
            f"queue {job.queue!r} is by broker alone, and a message cannot join the transaction"
            f" of conn=: it would be sent even if that rolls back; {CARRIED}. Or leave out conn="
        )


def one_way(
    jobs: Iterable[NewJob], transports: Mapping[str, Transport], conn: object | None
) -> tuple[bool, Iterable[NewJob]]:
    """Return whether jobs are by broker alone, and the jobs; they are read no further than needed.

    The first one decides for all: reading one of the other kind raises InvalidJob.

    Raises:
        InvalidJob: they are by broker alone, and were to join a transaction.
    """
    rest = iter(jobs)
    first = next(rest, None)
    if first is None:
        return False, ()
    is_alone = alone(transports, first.queue) is not None
    if is_alone:
        refuse_conn(first, conn)
    return is_alone, _of_one_kind(chain((first,), rest), transports, is_alone)


def _of_one_kind(
    jobs: Iterable[NewJob], transports: Mapping[str, Transport], is_alone: bool
) -> Iterator[NewJob]:
    for job in jobs:
        if (alone(transports, job.queue) is not None) is not is_alone:
            raise InvalidJob(
                "some of these jobs are by broker alone and others in the database, which cannot be"
                " enqueued all or none; enqueue them in two calls"
            )
        yield job


def in_parts(jobs: Iterable[NewJob]) -> Iterator[list[NewJob]]:
    """Yield jobs in batches that are published at once."""
    rest = iter(jobs)
    while part := list(islice(rest, PUBLISHED_AT_ONCE)):
        yield part


def _refuse(queue: str, unfit: list[str]) -> None:
    if unfit:
        raise InvalidJob(
            f"queue {queue!r} is by broker alone, which knows nothing of {', '.join(unfit)}:"
            f" {CARRIED}"
        )
