"""Enqueue a job, checked like a call in code; safe to repeat with an `Idempotency-Key`.

The key of the header becomes the unique key of the job, in a scope of the caller, for a day. A
digest of the body stands in the job's metadata: a repetition with another body is refused.
"""

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from mutirao.errors import UnknownJob
from mutirao.model.jobs.job import MAX_KEY, NewJob
from mutirao.model.keys.uniqueness import How, OnConflict
from mutirao.tasks.handle import Handle
from mutirao.tasks.options import CallTerms
from mutirao.web.access import Permission
from mutirao.web.api.call import ApiCall, UnreadableRequest
from mutirao.web.api.operation import PREFIX, Answered, Operation
from mutirao.web.api.problems import Conflict
from mutirao.web.api.values import IdText

HEADER, DIGEST = "idempotency-key", "idempotency"
HELD_FOR = 86_400.0  # seconds after the job has finished
_SCOPE = "Idempotency-Key"

Seconds = Annotated[float, Meta(ge=0, le=1e10)]
Moment = Annotated[datetime, Meta(tz=True)]


class NewJobBody(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A job to enqueue: its task, its arguments by name, and the options of `task.using(…)`."""

    task: str
    args: dict[str, Any] = {}
    queue: str | None = None
    priority: int | None = None
    run_at: Moment | None = None
    delay: Seconds | None = None
    expires: Seconds | Moment | None = None
    max_attempts: int | None = None
    timeout: Seconds | None = None
    key: str | None = None
    on_conflict: OnConflict | None = None
    unique_for: Seconds | Literal["forever"] | None = None
    scope: str | None = None
    debounce_limit: Seconds | None = None
    version: float | None = None
    tags: list[str] | None = None
    metadata: dict[str, Any] | None = None
    traceparent: str | None = None
    tenant: str | None = None
    group: str | None = None


class Enqueued(msgspec.Struct, kw_only=True):
    """The job that was enqueued, or the one that has its key.

    `how` it was enqueued: `inserted`, or the effect of a unique key; `created`: whether a job was
    written.
    """

    id: IdText
    task: str
    queue: str
    how: How
    created: bool


async def enqueue(call: ApiCall) -> Answered:
    """Enqueue a job."""
    body: NewJobBody = call.body
    key = _key(call.request.headers.get(HEADER))
    job = _made(call, body, key)
    handle = await call.client.asubmit(job)
    if key is not None and not handle.created:
        await _check_same(call, handle, job)
    return Answered(
        Enqueued(id=str(handle.id), task=handle.task, queue=handle.queue, how=handle.how,
                 created=handle.created),
        201 if handle.created else 200,
        {"location": call.url(f"{PREFIX}/jobs/{handle.id}")},
    )  # fmt: skip


def _made(call: ApiCall, body: NewJobBody, key: str | None) -> NewJob:
    task = call.client.task_named(body.task)
    options: dict[str, Any] = {
        name: value
        for name in CallTerms.__annotations__
        if (value := getattr(body, name, None)) is not None
    }
    chosen = options if key is None else _once(call, body, key, options)
    return task.using(**chosen).job(**body.args)


def _once(call: ApiCall, body: NewJobBody, key: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a job that is enqueued once with this key of the header."""
    if body.key is not None:
        raise UnreadableRequest(
            "a job has one key: leave `key` out, or the header Idempotency-Key", place="body.key"
        )
    metadata = {**(body.metadata or {}), DIGEST: _digest(body)}
    return {
        **options,
        "key": key,
        "metadata": metadata,
        "scope": f"{_SCOPE} {call.access.user}".strip()[:MAX_KEY],
        "unique_for": HELD_FOR,
        "on_conflict": OnConflict.KEEP,
    }


def _digest(body: NewJobBody) -> str:
    """Return the same for each text of the same body."""
    text = json.dumps(msgspec.to_builtins(body), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _key(header: str | None) -> str | None:
    """Return the key of the header, which is a text in quotes, or without; None if it is not given.

    Raises:
        UnreadableRequest: it is empty, too long, or has more than visible ASCII.
    """
    if header is None:
        return None
    given = header.strip()
    quoted = len(given) >= 2 and given[0] == given[-1] == '"'
    key = given[1:-1] if quoted else given
    if not 0 < len(key) <= MAX_KEY or not key.isascii() or not key.isprintable():
        raise UnreadableRequest(
            f"an Idempotency-Key has 1 to {MAX_KEY} visible characters of ASCII",
            place="header.Idempotency-Key",
        )
    return key


async def _check_same(call: ApiCall, handle: Handle[Any], job: NewJob) -> None:
    try:
        stands = await call.client.ajob(handle.id)
    except UnknownJob:
        return  # pruned meanwhile
    if stands.metadata.get(DIGEST) != job.metadata[DIGEST]:
        raise Conflict(
            "IdempotencyKeyReused",
            "this Idempotency-Key was used with another body; use a key of its own for each job",
            status=422,
        )


OPERATIONS = (
    Operation(
        name="enqueue", method="POST", path="/jobs", does="Enqueue a job.", role=Permission.ACT,
        run=enqueue, body=NewJobBody, answer=Enqueued, statuses=(201, 200), keyed=True,
        refusals={409: "Another job has the key, and `on_conflict` is `error`.",
                  502: "The broker of the queue has failed."},
    ),
)  # fmt: skip
