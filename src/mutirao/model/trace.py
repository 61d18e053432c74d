"""The trace of an attempt, for all that runs in it: what goes on to other programs, ids for logs.

A context variable, and the standard library only. What makes traces (`mutirao.telemetry`) sets it
in the attempt's context, which threads copy and which goes to child processes with their orders.
It stays when the attempt is over, as the engine logs its end in the same context. Log records
and webhooks read it, and so need to know nothing of what makes traces.
"""

from collections.abc import Mapping
from contextvars import ContextVar

TRACEPARENT = "traceparent"
_NONE: Mapping[str, str] = {}
_headers: ContextVar[Mapping[str, str]] = ContextVar("mutirao_trace_headers", default=_NONE)


def trace_headers() -> Mapping[str, str]:
    """Return the headers that carry the trace of this attempt; empty outside of one that has any.

    `traceparent` is W3C's; beside it there is what else the program's propagators have.
    """
    return _headers.get()


def hand_trace(headers: Mapping[str, str]) -> None:
    """Have this context carry these headers, beside those that it has."""
    if headers:
        _headers.set({**_headers.get(), **headers})


def trace_ids() -> tuple[str, str] | None:
    """Return the ids of this attempt's trace and span, in hexadecimal digits, for log records."""
    parts = _headers.get().get(TRACEPARENT, "").split("-")
    return (parts[1], parts[2]) if len(parts) >= 4 else None
