"""The tools of `mutirao.testing` for a Django project: they know its application and connection.

    from mutirao.testing.django import drain, inline

In a `TestCase`, or pytest-django's `django_db`, all of it is in the test's own transaction.
"""

from collections import Counter
from collections.abc import Collection
from contextlib import AbstractContextManager
from typing import Any

from django.apps import apps

from mutirao.testing import capturing, draining
from mutirao.testing.capturing import Captured
from mutirao.testing.memory import MemoryStore
from mutirao.testing.transactions import SessionFactory


def drain(
    *,
    with_scheduled: bool = False,
    queues: Collection[str] | None = None,
    limit: int = draining.DEFAULT_JOB_LIMIT,
) -> Counter[str]:
    """Run all due jobs of the project, and those they enqueue, until none is left.

    In a transaction, which a `TestCase` has, it happens in that: handlers and their jobs are rolled
    back with it, and no `captureOnCommitCallbacks` is needed. Handlers run one after another in
    this thread, as does what their coroutines do by the ORM. Outside of one it happens as in a
    worker. Errors are outcomes; look at the counts.

    Parameters:
        with_scheduled: run jobs that are not due yet as well, retries included.
        queues: only these; None means all.
        limit: the most attempts in all.

    Returns:
        How many attempts ended with each outcome.

    Raises:
        InvalidTask, SchemaError, WrongState: as `mutirao.testing.drain` does.
    """
    app = _application()
    how: dict[str, Any] = {"with_scheduled": with_scheduled, "queues": queues, "limit": limit}
    if app.connection.in_atomic_block and not isinstance(app.store, MemoryStore):
        how["conn"] = app.connection
    return draining.drain(app, **how)


def inline(*, session_factory: SessionFactory | None = None) -> AbstractContextManager[Captured]:
    """Run the project's jobs the moment they are enqueued, in this thread; raise their errors.

    What handlers write is in the test's transaction. The jobs are in memory, in what `with … as`
    gives, and no rows: see `mutirao.testing.inline`.

    Parameters:
        session_factory: what `job.transaction()` gives; `job.transaction(using=…)` needs none.
    """
    return capturing.inline(_application(), session_factory=session_factory)


def capture(*, session_factory: SessionFactory | None = None) -> AbstractContextManager[Captured]:
    """Keep the project's jobs in memory, and run none: see `mutirao.testing.capture`.

    Parameters:
        session_factory: what `job.transaction()` gives when they are drained.
    """
    return capturing.capture(_application(), session_factory=session_factory)


def _application() -> Any:
    """Return the application of the project, which its app in INSTALLED_APPS knows.

    Raises:
        LookupError: Django's; the app is not installed.
    """
    return apps.get_app_config("mutirao").application
