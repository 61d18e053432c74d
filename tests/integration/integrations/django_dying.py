"""Workers that are killed within `job.transaction(using="default")`, before or after a statement.

Each is a fork of this process, which has no threads and no connections then. It is asked on the
standard input for a kind of handler and a number, and says what was left, and what there is in the
end.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.integration.integrations.django_project import set_up

if __name__ != "__main__":
    raise ImportError("run this as a program")

set_up(sys.argv[1])

from asgiref.sync import sync_to_async  # noqa: E402
from django.db import connection, connections, models  # noqa: E402
from django.db.backends.base.base import BaseDatabaseWrapper  # noqa: E402
from django.db.backends.utils import CursorWrapper  # noqa: E402
from sqlalchemy import Engine, event  # noqa: E402

from mutirao import Job, Retry  # noqa: E402
from mutirao.integrations.django import app  # noqa: E402
from mutirao.testing import drain  # noqa: E402


class Order(models.Model):  # type: ignore[misc]
    """An order."""

    job = models.BigIntegerField()

    class Meta:
        app_label = "mutirao"


left = [0]  # until the kill, within a handler


def sent(*_: object) -> None:
    """Count one; kill this process at the last one."""
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)


def counted(function: Callable[..., Any], *, after: bool = False) -> Callable[..., Any]:
    """Count before a function, and `after` it: elsewhere that is before the next one."""

    def call(*args: Any, **kwargs: Any) -> Any:
        sent()
        result = function(*args, **kwargs)
        if after:
            sent()
        return result

    return call


@app.task
def child(order: int) -> None:
    """Be enqueued."""


def write(job: Job) -> None:
    """Do the work of a handler."""
    Order.objects.create(job=job.id)
    child.using(delay=3600, tags=[f"of-{job.id}"]).enqueue(job.id)


def plainly(job: Job, statements: int) -> int:
    """Complete with the writes."""
    left[0] = statements
    with job.transaction(using="default"):
        write(job)
        job.returns(7)
    left[0] = 0
    return 7


async def by_coroutine(job: Job, statements: int) -> int:
    """Complete with the writes, which are in a thread."""
    left[0] = statements
    async with job.transaction(using="default"):
        await sync_to_async(write)(job)
        job.returns(7)
    left[0] = 0
    return 7


AGAIN = Retry.fixed(5, interval=0)
KINDS = {
    f"{name}{'-kept' * kept}": app.task(name=f"{name}-{kept}", retry=AGAIN, keep_result=kept)(each)
    for name, each in {"plain": plainly, "coroutine": by_coroutine}.items()
    for kept in (False, True)
}


def forked(function: Callable[[], object]) -> str:
    """Call a function in a fork; return how that ended."""
    pid = os.fork()
    if pid == 0:
        function()
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    return "killed" if os.WIFSIGNALED(status) else f"exit {status}"


def work() -> None:
    """Run what is due, counting."""
    cursor: Any = CursorWrapper
    cursor.execute = counted(cursor.execute)
    wrapper: Any = BaseDatabaseWrapper
    wrapper._commit = counted(wrapper._commit, after=True)
    event.listen(Engine, "before_cursor_execute", sent)
    drain(app)


def finish() -> None:
    """Rescue what the killed one held, and run it."""
    left[0] = -(10**9)
    asyncio.run(app.store.rescue(now=datetime.now(UTC) + timedelta(days=2)))
    drain(app)


def found(id: int) -> dict[str, Any]:
    """Return what there is of a job, seen from outside."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM mutirao_order WHERE job = %s", [id])
        [orders] = cursor.fetchone()
        cursor.execute("SELECT count(*) FROM mutirao_jobs WHERE task = 'child' AND id > %s", [id])
        [children] = cursor.fetchone()
        cursor.execute("SELECT state FROM mutirao_jobs WHERE id = %s", [id])
        [state] = cursor.fetchone()
    connections.close_all()
    return {"orders": orders, "children": children, "state": state}


with connection.schema_editor() as editor:
    editor.create_model(Order)
connections.close_all()
for line in sys.stdin:
    kind, number = line.split()
    id = KINDS[kind].enqueue(int(number)).id
    connections.close_all()
    how = forked(work)
    after = found(id)
    again = forked(finish)
    print(json.dumps({"how": how, "left": after, "again": again, "end": found(id)}), flush=True)  # noqa: T201
