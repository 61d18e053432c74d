"""The results of `django.tasks`, read from a job and its attempts: two queries of the views.

They go through Django's connection, which sees what its transaction has written.
"""

import builtins
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.db import connections
from django.utils.module_loading import import_string

from mutirao import errors
from mutirao.errors import ConfigurationError
from mutirao.integrations.django.compat import (
    Task,
    TaskError,
    TaskResultDoesNotExist,
    TaskResultStatus,
)
from mutirao.integrations.django.databases import selected
from mutirao.integrations.django.native_tasks import BACKEND, POSITIONAL, NativeTask
from mutirao.integrations.django.task_result import as_django_s, result_of
from mutirao.model.jobs import retry
from mutirao.model.jobs.states import UNCOUNTED_OUTCOMES
from mutirao.model.row_json import read, read_object

_JOB = (
    "id", "task", "queue", "priority", "state", "run_at", "enqueued_at", "started_at",
    "finished_at", "worker", "args", "metadata",
)  # fmt: skip
_ATTEMPT = ("outcome", "started_at", "worker", "error_type", "error", "result")
_STATUS = {
    "running": TaskResultStatus.RUNNING,
    "succeeded": TaskResultStatus.SUCCESSFUL,
    "dead": TaskResultStatus.FAILED,
    "cancelled": TaskResultStatus.FAILED,
}
_MAX_ID = 2**63 - 1


class TaskResults:
    """Reads results.

    Parameters:
        alias: that of the database with the jobs.
        schema: the one of the views; None: where connections look for them.
    """

    def __init__(self, alias: str, schema: str | None) -> None:
        self._alias, self._schema = alias, schema

    def read(self, id: str, backend: Any) -> Any:
        """Return a result of a backend.

        Raises:
            TaskResultDoesNotExist: there is no such job.
            ConfigurationError: its task is none of `django.tasks`.
            ImportError: there is no such task any more.
            UnreadableRow: another program has written text that is no JSON.
        """
        if not (id.isascii() and id.isdigit() and len(id) < 20 and int(id) <= _MAX_ID):
            raise TaskResultDoesNotExist(id)
        with connections[self._alias].cursor() as cursor:
            found = self._rows(cursor, "mutirao_jobs", _JOB, "id = %s", int(id))
            if not found:
                raise TaskResultDoesNotExist(id)
            attempts = self._rows(
                cursor, "mutirao_attempts", _ATTEMPT, "job = %s ORDER BY run", int(id)
            )
        return _result(found[0], attempts, backend)

    def _rows(
        self, cursor: Any, view: str, columns: Sequence[str], where: str, value: int
    ) -> list[dict[str, Any]]:
        place = view
        if self._schema is not None:
            place = f"{cursor.db.ops.quote_name(self._schema)}.{view}"
        sql = f"SELECT {selected(cursor.db, columns)} FROM {place} WHERE {where}"  # noqa: S608 (our own names)
        cursor.execute(sql, [value])
        return [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]


def _result(job: Mapping[str, Any], attempts: Sequence[Mapping[str, Any]], backend: Any) -> Any:
    of = _task(job)
    metadata = read_object(job["metadata"] or "{}", "its metadata")
    alias = metadata.get(BACKEND, of.backend)
    native: NativeTask = backend.native(of)
    named = read_object(job["args"], "its arguments")
    counted = [
        each
        for each in attempts
        if each["outcome"] not in UNCOUNTED_OUTCOMES and each["worker"] is not None
    ]
    starts = [_moment(each["started_at"]) for each in counted]
    workers = [str(each["worker"]) for each in counted]
    if job["state"] == "running":
        starts.append(_moment(job["started_at"]))
        workers.append(str(job["worker"]))
    result = result_of(
        _as_enqueued(of, job, alias),
        job["id"],
        alias,
        native.as_called(named, metadata.get(POSITIONAL, 0)),
        enqueued_at=_moment(job["enqueued_at"]),
        status=_STATUS.get(job["state"], TaskResultStatus.READY),
        starts=starts,
        finished_at=_moment(job["finished_at"]),
        errors=[_error(each) for each in counted if each["error_type"] is not None],
        workers=workers,
    )
    if job["state"] == "succeeded" and attempts and attempts[-1]["result"] is not None:
        value = read(attempts[-1]["result"], "its result")
        object.__setattr__(result, "_return_value", value)
    return result


def _task(job: Mapping[str, Any]) -> Any:
    found = import_string(job["task"])
    if not isinstance(found, Task):
        raise ConfigurationError(
            f"job {job['id']} is of {job['task']}, which is no task of django.tasks; ask"
            " app.job(id) for it"
        )
    return found


def _as_enqueued(of: Any, job: Mapping[str, Any], alias: str) -> Any:
    """Return a task with the options of this job; `run_after` if it was given one."""
    at, enqueued = _moment(job["run_at"]), _moment(job["enqueued_at"])
    later = at if at is not None and enqueued is not None and at > enqueued else None
    return of.using(
        priority=-job["priority"], queue_name=job["queue"], run_after=later, backend=alias
    )


def _error(attempt: Mapping[str, Any]) -> Any:
    text = attempt["error"] or ""
    begin = text.find("Traceback (most recent call last)")
    return TaskError(
        exception_class_path=_path(attempt["error_type"]),
        traceback=text[begin:] if begin >= 0 else text,
    )


def _path(name: str) -> str:
    """Return the path of an exception's class, of the name that the history has."""
    if "." in name:
        return name
    for module in (builtins, errors, retry):
        if hasattr(module, name):
            return f"{module.__name__}.{name}"
    return f"builtins.{name}"


def _moment(value: Any) -> Any:
    """Return a moment as `USE_TZ` has it: SQLite has text, and all are in UTC."""
    if value is None:
        return None
    found = datetime.fromisoformat(value) if isinstance(value, str) else value
    return as_django_s(found.replace(tzinfo=UTC) if found.tzinfo is None else found)
