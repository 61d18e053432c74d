"""Errors: by task, class and first line; how often each occurred, and the filter of its jobs."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from mutirao.model.jobs.job import MAX_TASK_NAME
from mutirao.model.reading.figures import ErrorFigure
from mutirao.web.access import Permission
from mutirao.web.api.call import ApiCall
from mutirao.web.api.operation import Answered, Operation
from mutirao.web.api.values import copied


class ErrorGroup(msgspec.Struct, kw_only=True):
    """Attempts of a task that have failed alike.

    `filter` finds the jobs whose last error it is. It and `message` are null where the caller may
    see no texts of errors.
    """

    task: str
    error_type: str | None
    message: str | None
    jobs: int
    attempts: int
    first_at: datetime
    last_at: datetime
    filter: str | None


class ErrorList(msgspec.Struct, kw_only=True):
    """Errors, the last one first."""

    errors: list[ErrorGroup]


class ErrorsQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The query: whose errors, and how many."""

    task: Annotated[str, Meta(max_length=MAX_TASK_NAME, description="Of this task only.")] = ""
    size: Annotated[int, Meta(ge=1, le=500, description="The most errors.")] = 100


async def list_errors(call: ApiCall) -> Answered:
    """Answer the errors of all tasks, or of one."""
    query: ErrorsQuery = call.query
    found = await call.client.reading.aerrors(task=query.task or None, limit=query.size)
    return Answered(ErrorList(errors=[_group(call, each) for each in found]))


def _group(call: ApiCall, each: ErrorFigure) -> ErrorGroup:
    if not call.access.contents:
        return copied(ErrorGroup, each, message=None, filter=None)
    message = each.message
    told = message and call.site.blanking.text(message)
    return copied(ErrorGroup, each, message=told, filter=each.filter if told == message else None)


OPERATIONS = (
    Operation(
        name="list_errors", method="GET", path="/errors", role=Permission.READ, run=list_errors,
        query=ErrorsQuery, answer=ErrorList, does="List errors, and how often each occurred.",
    ),
)  # fmt: skip
