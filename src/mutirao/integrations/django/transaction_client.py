"""The client's operations for the admin, in the admin's own transaction.

Outside a transaction the application does it on connections of its own, in short transactions. In
one, which ATOMIC_REQUESTS or a test has begun, it belongs to it: all is done on Django's
connection, else it would not see uncommitted rows, and on SQLite wait for its own lock.
"""

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from django.conf import settings
from django.db import transaction

from mutirao.app import Mutirao
from mutirao.client.other_stores.store_client import StoreClient
from mutirao.integrations.django.project import application
from mutirao.model.jobs.job import NewJob
from mutirao.tasks.handle import Handle
from mutirao.testing.borrowing import BorrowingStore
from mutirao.testing.memory import MemoryStore, at_once

R = TypeVar("R")


def outside_requests_transaction(view: Callable[..., Any]) -> Callable[..., Any]:
    """Exclude a view from ATOMIC_REQUESTS: actions on many jobs are done in batches."""
    for alias in settings.DATABASES:
        view = transaction.non_atomic_requests(using=alias)(view)
    return view


class TransactionClient(StoreClient):
    """The client's operations on a connection that is lent; an application has the same."""

    store: BorrowingStore

    def __init__(self, app: Mutirao, store: BorrowingStore) -> None:
        super().__init__(app, store, app.task)
        self._app = app

    async def asubmit(self, job: NewJob, conn: object | None = None) -> Handle[Any]:
        """Write a job in the transaction that is open."""
        [id] = self.store.enqueue([job])
        return Handle(id, job.task, job.queue, results=self._app)


def perform(work: Callable[[Any], Awaitable[R]]) -> R:
    """Have work done that takes the client: the application, or the same in Django's transaction.

    Raises:
        MutiraoError: the errors of the work.
    """
    app = application()
    captured = isinstance(app.store, MemoryStore)
    if captured or not app.connection.in_atomic_block:
        return app._portal.call(work, app)
    with _lent(app) as client:
        return at_once(_awaited(work(client)))


async def _awaited(work: Awaitable[R]) -> R:
    return await work


@contextmanager
def _lent(app: Any) -> Iterator[TransactionClient]:
    store = BorrowingStore(app.store, app.connection)
    try:
        yield TransactionClient(app, store)
    finally:
        at_once(store.close())
