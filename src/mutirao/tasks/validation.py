"""Checks of a job's options, made at the caller before anything is written.

Databases refuse different values (PostgreSQL cannot store a NUL byte, SQLite can), so Mutirão has
limits of its own, which are the same everywhere.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from mutirao.errors import InvalidJob
from mutirao.model.jobs.expiry import EXPIRES_KEY, check_expiry
from mutirao.model.jobs.job import (
    MAX_KEY,
    MAX_PRIORITY,
    MAX_QUEUE_NAME,
    MAX_TASK_NAME,
    MIN_PRIORITY,
    NewJob,
)
from mutirao.model.jobs.lanes import FAIR_LANE_PREFIX, RUNG_LANE_PREFIX
from mutirao.model.jobs.retry import FIRST_YEAR, LAST_YEAR, MAX_WAIT
from mutirao.model.jobs.waits import is_number
from mutirao.model.keys.uniqueness import FOREVER, OnConflict, Unique
from mutirao.tasks.signatures.conversion import UNFIT, to_json

# An escaped NUL: \u0000 after an even number of backslashes.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}\Z")


def check_job(job: NewJob, max_payload: int) -> None:
    """Raise InvalidJob if an option is out of range or the payload is too large.

    Parameters:
        max_payload: the maximum size in bytes of JSON, of the arguments and of the metadata each.
    """
    # The options of many jobs that differ only in arguments are checked once.
    if job.checked.max_payload != max_payload:
        _check_options(job, max_payload)
        job.checked.max_payload = max_payload
    # In UTF-8 a character takes at most four bytes: short arguments need no counting.
    if len(job.args) > max_payload // 4 or "\\u0000" in job.args:
        check_payload(f"the arguments of task {job.task!r}", job.args, max_payload)


def _check_options(job: NewJob, max_payload: int) -> None:
    check_text("task name", job.task, MAX_TASK_NAME)
    check_queue(job.queue)
    check_priority(job.priority)
    check_when(job.run_at, job.delay)
    if job.expires is not None and (job.delay or 0) >= job.expires:
        raise InvalidJob(
            f"the job is due in {job.delay:g} seconds, and expires before that, in"
            f" {job.expires:g}; give a shorter delay, or a longer expires"
        )
    check_attempts(job.max_attempts)
    _check_timeout(job.timeout)
    if job.key is not None:
        check_text("key", job.key, MAX_KEY)
    if job.tenant is not None:
        check_text("tenant", job.tenant, MAX_KEY)
    if job.group is not None:
        check_text("group", job.group, MAX_KEY)
    if job.unique is not None:
        check_unique(job.unique)
        check_version(job.unique)
    if job.refers:
        raise InvalidJob(
            f"{', '.join(job.refers)} of {job.task!r} stands for the result of another step; only"
            " app.enqueue_graph can enqueue it"
        )
    _check_labels(job.tags, job.metadata, max_payload)
    if job.metadata and EXPIRES_KEY in job.metadata:
        check_expiry(job.metadata, job.run_at)
    if job.traceparent is not None and not _TRACEPARENT.match(str(job.traceparent)):
        raise InvalidJob(
            f"traceparent is {job.traceparent!r}; give the W3C header's value, as in"
            " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        )


def check_unique(unique: Unique) -> None:
    """Raise InvalidJob if the options of a key contradict each other or last too long."""
    window, limit = unique.unique_for, unique.debounce_limit
    if unique.scope is not None:
        check_text("scope", unique.scope, MAX_KEY)
    if window is not None and not (0 < window <= MAX_WAIT or window == FOREVER):
        raise InvalidJob(
            f"unique_for is {window:g} seconds; give more than 0 and at most {MAX_WAIT:.0f}, or"
            ' "forever"'
        )
    if window is not None and not unique.on_conflict.steady:
        raise InvalidJob(
            f"unique_for goes with keep or error; with {unique.on_conflict} the newest job has to"
            " run, so leave it out"
        )
    if limit is not None and unique.on_conflict is not OnConflict.REPLACE:
        raise InvalidJob(
            f"debounce_limit goes with replace, but on_conflict is {unique.on_conflict}, which"
            " puts nothing off; leave it out"
        )
    if limit is not None and not 0 < limit <= MAX_WAIT:
        raise InvalidJob(f"debounce_limit is {limit:g}; give more than 0 seconds")


def check_version(unique: Unique) -> None:
    """Raise InvalidJob if a version is no number of 64 bits, or does not fit the other options."""
    version = unique.version
    if version is None:
        return
    # The comparison also refuses NaN.
    if not -(2**63) <= version < 2**63:
        raise InvalidJob(f"version is {version!r}; give a number from -2^63 to 2^63 - 1, or a time")
    if unique.supersede is not None:
        raise InvalidJob(
            "the task has a supersede rule, which keeps the order of calls; leave version out"
        )
    if unique.on_conflict.steady:
        raise InvalidJob(
            f"version goes with replace or rerun, but on_conflict is {unique.on_conflict}, which"
            " keeps the job that there is; give one of them"
        )


def check_text(what: str, value: object, longest: int) -> None:
    """Raise InvalidJob unless `value` is text of 1 to `longest` characters without NUL."""
    if not isinstance(value, str):
        raise InvalidJob(f"the {what} is {value!r}; give text of 1 to {longest} characters")
    if not 1 <= len(value) <= longest:
        raise InvalidJob(
            f"the {what} has {len(value)} characters; give 1 to {longest}"
            + (f" (it begins {value[:40]!r})" if value else "")
        )
    if "\x00" in value:
        raise InvalidJob(f"the {what} {value[:40]!r} has a NUL byte; leave it out")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidJob(f"the {what} {value[:40]!r} has half a character (a surrogate) in it")


def check_payload(what: str, payload: str, longest: int) -> None:
    """Raise InvalidJob if JSON text is longer than `longest` bytes or contains a NUL."""
    size = len(payload.encode())
    if size > longest:
        raise InvalidJob(
            f"{what} take {size:,} bytes of JSON; at most {longest:,} are allowed. Store the data"
            " and pass its key, or raise Mutirao(max_payload=…)"
        )
    if "\\u0000" in payload and _NUL.search(payload):
        raise InvalidJob(f"{what} contain a NUL character, which SQL cannot hold; leave it out")


def check_queue(queue: str) -> None:
    """Raise InvalidJob unless `queue` can be a queue's name."""
    check_text("queue name", queue, MAX_QUEUE_NAME)
    if queue.startswith((FAIR_LANE_PREFIX, RUNG_LANE_PREFIX)):
        raise InvalidJob(f"the queue name is {queue!r}; begin it with a character that shows")


def check_priority(priority: object) -> None:
    """Raise InvalidJob unless `priority` is a 16-bit integer."""
    fits = isinstance(priority, int) and MIN_PRIORITY <= priority <= MAX_PRIORITY
    if not fits or isinstance(priority, bool):
        raise InvalidJob(
            f"priority is {priority!r}; give a whole number from {MIN_PRIORITY} to {MAX_PRIORITY}"
            " (smaller runs first)"
        )


def check_when(run_at: object, delay: object) -> None:
    """Raise InvalidJob unless at most one of them is given, and can be kept by every database."""
    if run_at is not None and delay is not None:
        raise InvalidJob("both run_at and delay are given; give one of them")
    if run_at is not None:
        _check_moment(run_at)
    # The comparison also refuses NaN.
    if delay is not None and not (is_number(delay) and 0 <= delay <= MAX_WAIT):
        raise InvalidJob(
            f"delay is {delay!r}; give 0 seconds or more, at most {MAX_WAIT:.0f} (or run_at for"
            " a moment)"
        )


def _check_moment(run_at: object) -> None:
    if not isinstance(run_at, datetime):
        raise InvalidJob(f"run_at is {run_at!r}; give an aware datetime")
    if run_at.tzinfo is None:
        raise InvalidJob(
            f"run_at is the naive datetime {run_at}; give one with a time zone, such as"
            " datetime.now(UTC) + timedelta(minutes=5)"
        )
    if not FIRST_YEAR <= run_at.year <= LAST_YEAR:
        raise InvalidJob(f"run_at is {run_at}; give a year from {FIRST_YEAR} to {LAST_YEAR}")


def check_attempts(max_attempts: object) -> None:
    """Raise InvalidJob unless `max_attempts` is None or a number of attempts."""
    whole = isinstance(max_attempts, int) and not isinstance(max_attempts, bool)
    if max_attempts is not None and not (whole and 1 <= max_attempts < 2**31):  # type: ignore[operator]
        raise InvalidJob(f"max_attempts is {max_attempts!r}; give 1 (never retry) or more")


def _check_timeout(timeout: object) -> None:
    if timeout is not None and not (is_number(timeout) and 0 < timeout < MAX_WAIT):
        raise InvalidJob(f"timeout is {timeout!r}; give more than 0 seconds, or None for no limit")


def _check_labels(tags: tuple[str, ...], metadata: object, max_payload: int) -> None:
    for tag in tags:
        check_text("tag", tag, MAX_QUEUE_NAME)
    if metadata == {}:
        return
    if not isinstance(metadata, Mapping):
        raise InvalidJob(f"the metadata is {metadata!r}; give a dict")
    try:
        payload = to_json(metadata)
        msgspec.json.decode(payload, type=dict[str, Any])
    except UNFIT as unfit:
        raise InvalidJob(f"the metadata cannot be written as a JSON object: {unfit}") from None
    check_payload("the metadata", payload, max_payload)
