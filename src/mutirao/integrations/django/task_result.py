"""A result of `django.tasks`: the state of a job, in one place for all users of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.conf import settings
from django.utils import timezone

from mutirao.integrations.django.compat import TaskResult, TaskResultStatus

Given = tuple[Sequence[Any], Mapping[str, Any]]


def result_of(
    task: Any,
    id: int | str,
    backend: str,
    given: Given,
    *,
    enqueued_at: Any,
    status: Any = TaskResultStatus.READY,
    starts: Sequence[Any] = (),
    finished_at: Any = None,
    errors: Sequence[Any] = (),
    workers: Sequence[str] = (),
) -> Any:
    """Return a result; without more values, of a job that has not started.

    Parameters:
        task: the one of `django.tasks`.
        backend: its alias.
        given: the arguments by position, and by name.
        starts: when each attempt that counts began.
        errors, workers: of these attempts.
    """
    args, kwargs = given
    return TaskResult(
        task=task,
        id=str(id),
        status=status,
        enqueued_at=enqueued_at,
        started_at=starts[0] if starts else None,
        last_attempted_at=starts[-1] if starts else None,
        finished_at=finished_at,
        args=args,
        kwargs=kwargs,
        backend=backend,
        errors=list(errors),
        worker_ids=list(workers),
    )


def as_django_s(moment: Any) -> Any:
    """Return a moment as `USE_TZ` has it: aware, or naive in the local time zone."""
    if moment is None or settings.USE_TZ:
        return moment
    return timezone.make_naive(moment)
