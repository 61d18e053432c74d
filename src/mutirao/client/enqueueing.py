"""Enqueues for an application: checks jobs, runs middleware, and calls the store."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from mutirao.client.portal import Portal
from mutirao.model.brokers.message_id import MessageId
from mutirao.model.jobs.job import NewJob
from mutirao.model.keys.uniqueness import Placed
from mutirao.ports import Store, Transport
from mutirao.ports.brokers import alone
from mutirao.tasks.around.middleware import (
    Enqueueing,
    EnqueueManyMiddleware,
    EnqueueMiddleware,
    around_enqueue_many,
)
from mutirao.tasks.handle import NOT_GIVEN, Handle, Results, given
from mutirao.tasks.validation import check_job


class Enqueuing(Results, Protocol):
    """The part of an application that enqueues jobs."""

    store: Store
    transports: Mapping[str, Transport]
    _portal: Portal
    _max_payload: int
    _around_enqueue: list[EnqueueMiddleware]
    _around_enqueue_many: list[EnqueueManyMiddleware]

    def submit(self, job: NewJob, conn: object | None = None) -> Handle[Any]:
        """Check a job and write it, through `conn` or in a short transaction of its own.

        Raises:
            InvalidJob: an option does not fit; nothing was written.
            DuplicateJob: another job has its key, and its `on_conflict` is "error".
        """
        opened = self._open(job)
        try:
            id = self._write_one(opened.job, conn)
        except BaseException as error:
            opened.failed(error)
            raise
        return self._finished(opened, id)

    async def asubmit(self, job: NewJob, conn: object | None = None) -> Handle[Any]:
        """Check a job and write it from a coroutine, through `conn` or in a short transaction.

        Raises:
            InvalidJob: an option does not fit; nothing was written.
            DuplicateJob: another job has its key, and its `on_conflict` is "error".
        """
        opened = self._open(job)
        try:
            id = await self._awrite_one(opened.job, conn)
        except BaseException as error:
            opened.failed(error)
            raise
        return self._finished(opened, id)

    def enqueue_many(self, jobs: Iterable[NewJob], conn: object = NOT_GIVEN) -> list[int]:
        """Enqueue many jobs at once, all or none, and return their ids in order.

        For a job whose key another job holds, the returned id is that of the job that holds it.

        Parameters:
            jobs: may be a generator: it is consumed once, while the jobs are written, with some
                thousands of them in memory. Those of queues that are by broker alone are published,
                2,000 at a time, not all or none.
            conn: the connection or session whose transaction the jobs join, never committed; if
                left out, a short transaction of their own.

        Raises:
            InvalidJob: a job does not fit; none was written, or published of its 2,000.
            TransportError: some jobs by broker alone were not published; it says how many.
            UnsupportedConnection: `conn` is None, or not one of the accepted kinds.
        """
        opened: list[Enqueueing] = []
        with around_enqueue_many(self._around_enqueue_many):
            try:
                ids = self._write(self._open_all(jobs, opened), given(conn))
            except BaseException as error:
                _all_failed(opened, error)
                raise
            return self._all_handed_in(opened, ids)

    async def aenqueue_many(self, jobs: Iterable[NewJob], conn: object = NOT_GIVEN) -> list[int]:
        """Enqueue many jobs at once from a coroutine, all or none; return their ids in order.

        Parameters:
            jobs: may be a generator: it is consumed once, while the jobs are written; see
                `enqueue_many`.
            conn: the asynchronous connection or session whose transaction the jobs join.

        Raises:
            InvalidJob: a job does not fit; none was written, or published of its 2,000.
            TransportError: some jobs by broker alone were not published; it says how many.
            UnsupportedConnection: `conn` is None, or not one of the accepted kinds.
        """
        opened: list[Enqueueing] = []
        with around_enqueue_many(self._around_enqueue_many):
            try:
                ids = await self._awrite(self._open_all(jobs, opened), given(conn))
            except BaseException as error:
                _all_failed(opened, error)
                raise
            return self._all_handed_in(opened, ids)

    def _write_one(self, job: NewJob, conn: object | None) -> int:
        """Write a job into the store, or publish it if its queue is by broker alone."""
        if self.transports and (transport := alone(self.transports, job.queue)) is not None:
            from mutirao.client.broker_publishing import publish_one, refuse_conn

            refuse_conn(job, conn)
            if (id := self._portal.call(publish_one, job, transport)) is not None:
                return id
        [stored] = self.store.enqueue((job,), conn)
        return stored

    async def _awrite_one(self, job: NewJob, conn: object | None) -> int:
        if self.transports and (transport := alone(self.transports, job.queue)) is not None:
            from mutirao.client.broker_publishing import publish_one, refuse_conn

            refuse_conn(job, conn)
            if (id := await publish_one(job, transport)) is not None:
                return id
        [stored] = await self.store.aenqueue((job,), conn)
        return stored

    def _write(self, jobs: Iterable[NewJob], conn: object | None) -> list[int]:
        """Write jobs into the store, or publish them if their queues are by broker alone."""
        if not self.transports:
            return self.store.enqueue(jobs, conn)
        from mutirao.client.broker_publishing import in_parts, one_way, publish

        is_alone, jobs = one_way(jobs, self.transports, conn)
        if not is_alone:
            return self.store.enqueue(jobs, conn)
        ids: list[int] = []
        for part in in_parts(jobs):
            published = self._portal.call(publish, part, self.transports)
            left = published.left()
            stored = self.store.enqueue(left, None) if left else ()
            ids += published.all_ids(stored, before=len(ids))
        return ids

    async def _awrite(self, jobs: Iterable[NewJob], conn: object | None) -> list[int]:
        if not self.transports:
            return await self.store.aenqueue(jobs, conn)
        from mutirao.client.broker_publishing import in_parts, one_way, publish

        is_alone, jobs = one_way(jobs, self.transports, conn)
        if not is_alone:
            return await self.store.aenqueue(jobs, conn)
        ids: list[int] = []
        for part in in_parts(jobs):
            published = await publish(part, self.transports)
            left = published.left()
            stored = await self.store.aenqueue(left, None) if left else ()
            ids += published.all_ids(stored, before=len(ids))
        return ids

    def _open(self, job: NewJob) -> Enqueueing:
        opened = Enqueueing(self._around_enqueue, job)
        try:
            check_job(opened.job, self._max_payload)
        except BaseException as error:
            opened.failed(error)
            raise
        return opened

    def _finished(self, opened: Enqueueing, id: int) -> Handle[Any]:
        how = id.how if isinstance(id, Placed) else "inserted"
        results: Results = self
        if isinstance(id, MessageId):
            from mutirao.client.broker_publishing import NO_RESULTS

            results = NO_RESULTS
        else:
            id = int(id)
        handle: Handle[Any] = Handle(id, opened.job.task, opened.job.queue, how, results)
        opened.done(handle)
        return handle

    def _all_handed_in(self, opened: list[Enqueueing], ids: list[int]) -> list[int]:
        for each, id in zip(opened, ids, strict=False):  # empty without middleware
            self._finished(each, id)
        return ids

    def _open_all(self, jobs: Iterable[NewJob], opened: list[Enqueueing]) -> Iterator[NewJob]:
        if not self._around_enqueue:
            for job in jobs:
                check_job(job, self._max_payload)
                yield job
            return
        for job in jobs:
            opened.append(self._open(job))
            yield opened[-1].job


def _all_failed(opened: list[Enqueueing], error: BaseException) -> None:
    for each in opened:
        each.failed(error)
