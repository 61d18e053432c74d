"""Carries a trace from an enqueue to the attempts, in the job itself, however it is transported.

`traceparent` has a place of its own. It is copied to deliveries and redrives, and other programs
write it, too. All other headers, such as `tracestate`, `baggage` or Sentry's `sentry-trace`, are in
the metadata, under one name, and only if there are any.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mutirao.model.jobs.job import Job, NewJob
from mutirao.model.trace import TRACEPARENT

TRACE_KEY = "trace"  # of the headers in the metadata
BAGGAGE = "baggage"


def with_headers(job: NewJob, headers: Mapping[str, str]) -> NewJob:
    """Return a job with these headers, in addition to those that it has.

    If the metadata has another value under `trace`, that is left as it is. Of `baggage` each
    missing entry is added.
    """
    rest = {name.lower(): value for name, value in headers.items()}
    traceparent = rest.pop(TRACEPARENT, None) or job.traceparent
    kept = job.metadata.get(TRACE_KEY, {})
    if not rest or not isinstance(kept, Mapping):
        return job if traceparent == job.traceparent else replace(job, traceparent=traceparent)
    if BAGGAGE in rest and isinstance(kept.get(BAGGAGE), str):
        rest[BAGGAGE] = _joined(rest[BAGGAGE], kept[BAGGAGE])
    metadata = {**job.metadata, TRACE_KEY: {**kept, **rest}}
    return replace(job, traceparent=traceparent, metadata=metadata)


def headers_of(job: Job | NewJob) -> dict[str, str]:
    """Return the headers that a job has kept; other programs may have written its metadata."""
    headers: dict[str, str] = {}
    if isinstance(job, NewJob) or _may_carry(job):
        kept: Any = job.metadata.get(TRACE_KEY)
        found = kept.items() if isinstance(kept, Mapping) else ()
        headers = {name: value for name, value in found if isinstance(value, str)}
    if (traceparent := job.traceparent) is not None:
        headers[TRACEPARENT] = traceparent
    return headers


def _may_carry(job: Job) -> bool:
    """Return whether reading the metadata is worth while: most jobs have none, or no such name."""
    text = job._claim.metadata
    return text is not None and TRACE_KEY in text


def _joined(new: str, old: str) -> str:
    names = {entry.partition("=")[0].strip() for entry in new.split(",")}
    others = [each for each in old.split(",") if each.partition("=")[0].strip() not in names]
    return ",".join([new, *others])
