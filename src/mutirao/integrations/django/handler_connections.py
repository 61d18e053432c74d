"""Around each handler: Django's connections are closed as they are around a request.

A worker has no requests, so nothing else closes what has become too old, or has broken while the
worker slept. It happens where the handler runs: in its thread, or in its child process.

The synchronous calls of a coroutine, such as those of the ORM, have a thread of their own for each
attempt, as those of a request under ASGI: in a shared one they would be in the transaction of
another handler.
"""

from collections.abc import AsyncIterator, Iterator
from multiprocessing import parent_process

import django
from asgiref.sync import SyncToAsync, ThreadSensitiveContext, sync_to_async
from django.apps import apps
from django.db import connections

from mutirao.model.jobs.job import Job


def close_old() -> None:
    """Close connections that are broken or too old; leave open transactions, such as a test's."""
    for each in connections.all(initialized_only=True):
        if not each.in_atomic_block:
            each.close_if_unusable_or_obsolete()


def forget_queries() -> None:
    """Forget logged queries, which are kept for requests; not those that a test is counting."""
    for each in connections.all(initialized_only=True):
        if not (each.in_atomic_block or each.force_debug_cursor):
            each.queries_log.clear()


def around_functions(job: Job) -> Iterator[None]:
    """Stand around each plain function."""
    close_old()
    try:
        yield
    finally:
        close_old()
        forget_queries()


def set_up_child() -> None:
    """Set Django up in a child process, by DJANGO_SETTINGS_MODULE, unless that is under way.

    A child imports this module, which wraps handlers, before the module of its handler, which
    may need models.
    """
    if parent_process() is not None and not (apps.ready or apps.loading):
        django.setup(set_prefix=False)


async def around_coroutines(job: Job) -> AsyncIterator[None]:
    """Stand around each coroutine."""
    async with ThreadSensitiveContext() as own:
        try:
            yield
        finally:
            if own in SyncToAsync.context_to_thread_executor:  # it has made such a call
                await sync_to_async(connections.close_all, thread_sensitive=True)()


set_up_child()
