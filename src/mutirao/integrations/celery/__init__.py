"""Runs tasks that were written for Celery as jobs: they move by another import.

    app = CeleryTasks(Mutirao("postgresql+psycopg://…"))

`@app.task` and `@app.shared_task` take the options of Celery's decorators, and tasks have its
calls. What has no equal raises where it is asked for, with the section of docs/from/celery.md that
says what to do. Celery itself is not needed.
"""

from logging import Logger, getLogger

from mutirao.integrations.celery.canvas import CelerySignature as Signature, chain, chord, group
from mutirao.integrations.celery.celery_task import CeleryTask, MaxRetriesExceededError
from mutirao.integrations.celery.celery_tasks import CeleryTasks
from mutirao.integrations.celery.results import AsyncResult, GroupResult
from mutirao.integrations.celery.schedules import crontab
from mutirao.model.jobs.retry import Cancel, Dead, Retry

Ignore = Cancel
"""Raised by a task that is not to be tried again: its job is cancelled."""

Reject = Dead
"""Raised by a task that is not to be tried again: its job is dead."""

__all__ = [
    "AsyncResult",
    "CeleryTask",
    "CeleryTasks",
    "GroupResult",
    "Ignore",
    "MaxRetriesExceededError",
    "Reject",
    "Retry",
    "Signature",
    "chain",
    "chord",
    "crontab",
    "get_task_logger",
    "group",
]


def get_task_logger(name: str) -> Logger:
    """Return the logger of a name, as Celery's function does."""
    return getLogger(name)
