"""The enqueueing part of an application: it checks jobs, runs middleware, and calls its store."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from mutirao.model.job import NewJob
from mutirao.model.uniqueness import Placed
from mutirao.ports import Store
from mutirao.tasks.connection import NOT_GIVEN, given
from mutirao.tasks.handle import Handle, Results
from mutirao.tasks.middleware import Enqueueing, EnqueueMiddleware
from mutirao.tasks.validation import check_job


class Enqueuing(Results, Protocol):
    """The part of an application that enqueues jobs."""

    store: Store
    _max_payload: int
    _around_enqueue: list[EnqueueMiddleware]

    def submit(self, job: NewJob, conn: object | None = None) -> Handle[Any]:
        """Check a job and write it, through `conn` or in a short transaction of its own.

        Raises:
            InvalidJob: an option does not fit; nothing was written.
            DuplicateJob: another job has its key, and its `on_conflict` is "error".
        """
        opened = self._open(job)
        try:
            (id,) = self.store.enqueue([opened.job], conn)
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
            (id,) = await self.store.aenqueue([opened.job], conn)
        except BaseException as error:
            opened.failed(error)
            raise
        return self._finished(opened, id)

    def enqueue_many(self, jobs: Iterable[NewJob], conn: object = NOT_GIVEN) -> list[int]:
        """Enqueue many jobs at once, all or none, and return their ids in order.

        For a job whose key another job holds, the returned id is that of the job that holds it.

        Parameters:
            jobs: may be a generator: it is consumed once, while the jobs are written.
            conn: the connection or session whose transaction the jobs join, never committed; if
                left out, a short transaction of their own.

        Raises:
            InvalidJob: a job does not fit; none was written.
            UnsupportedConnection: `conn` is None, or not one of the accepted kinds.
        """
        opened: list[Enqueueing] = []
        try:
            ids = self.store.enqueue(self._open_all(jobs, opened), given(conn))
        except BaseException as error:
            _all_failed(opened, error)
            raise
        return self._all_handed_in(opened, ids)

    async def aenqueue_many(self, jobs: Iterable[NewJob], conn: object = NOT_GIVEN) -> list[int]:
        """Enqueue many jobs at once from a coroutine, all or none; return their ids in order.

        Parameters:
            jobs: may be a generator: it is consumed once, while the jobs are written.
            conn: the asynchronous connection or session whose transaction the jobs join.

        Raises:
            InvalidJob: a job does not fit; none was written.
            UnsupportedConnection: `conn` is None, or not one of the accepted kinds.
        """
        opened: list[Enqueueing] = []
        try:
            ids = await self.store.aenqueue(self._open_all(jobs, opened), given(conn))
        except BaseException as error:
            _all_failed(opened, error)
            raise
        return self._all_handed_in(opened, ids)

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
        handle: Handle[Any] = Handle(int(id), opened.job.task, opened.job.queue, how, self)
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
