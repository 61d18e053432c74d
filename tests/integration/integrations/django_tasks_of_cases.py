"""The tasks of `django_backend_cases.py`, those of `django.tasks` and native ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from multiprocessing import parent_process
from typing import Any

from django.db import connection, transaction
from django.utils.module_loading import import_string

from mutirao import Job, Limit
from mutirao.integrations.django import app
from tests.integration.integrations.django_project import AS_APP

task: Callable[..., Any] = import_string("django_tasks.task" if AS_APP else "django.tasks.task")

ran: list[Any] = []


@task
def echo(first: int, second: int = 2, *rest: int, **more: int) -> list[Any]:
    """Return the arguments."""
    return [first, second, list(rest), more]


@task
async def anecho(first: int) -> int:
    """Return the argument, from a coroutine."""
    await asyncio.sleep(0)
    return first


@task(takes_context=True)  # type: ignore[untyped-decorator]
def attempts(context: Any, until: int) -> list[Any]:
    """Fail until so many attempts were made."""
    ran.append((context.attempt, [*context.task_result.args]))
    if context.attempt < until:
        raise LookupError(f"attempt {context.attempt}")
    return [context.task_result.id, context.attempt, len(context.task_result.errors)]


@task
def note(what: str) -> None:
    """Note in which order."""
    ran.append(what)


@task
def refuse(how: str) -> None:
    """Fail in one of several ways."""
    if how == "exit":
        raise SystemExit("out")
    if how == "group":
        raise ExceptionGroup("several", [ValueError("one")])
    raise ValueError(ValueError("this task failed"))


@task
def unwritable() -> Any:
    """Return what JSON has no form for."""
    return lambda: True


@task(takes_context=True)  # type: ignore[untyped-decorator]
def elsewhere(context: Any, order: int) -> list[Any]:
    """Ask Django's connection in a child process, as the settings say; fail once before."""
    if context.attempt == 1:
        raise LookupError("attempt 1")
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM mutirao_jobs")
        [jobs] = cursor.fetchone()
    return [parent_process() is not None, order, jobs, len(context.task_result.errors)]


@task
def limited(customer: int) -> None:
    """Run one at a time, as the settings say."""


@app.task
def native(order: int) -> int:
    """Run beside them."""
    ran.append(("native", order))
    return order


@app.task
def anything(value: Any) -> None:
    """Take whatever has a form."""


@app.task
async def awaited(order: int) -> None:
    """Run as a coroutine, with a query in the thread of such calls."""
    from asgiref.sync import sync_to_async

    def ask() -> Any:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            return connection.connection

    ran.append(await sync_to_async(ask)())


@app.task
def unfit(job: Job, how: str) -> None:
    """Open a transaction that cannot complete the job."""
    if how == "nested":
        with transaction.atomic(), job.transaction(using="default"):
            pass
    elif how == "marked":
        with job.transaction(using="default"):
            transaction.set_rollback(True)
    else:
        with job.transaction(using=how):
            pass


@app.task(process=True, keep_result=True)
def apart(order: int) -> list[int]:
    """Ask Django's connection in a child process."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM mutirao_jobs")
        return [order, int(cursor.fetchone()[0])]


@app.task(keep_result=True, limit=Limit(5))
def kept(job: Job, how: str) -> str:
    """Complete in a transaction of Django's."""
    with job.transaction(using="default"):
        job.returns(how)
    return "what nobody keeps"
