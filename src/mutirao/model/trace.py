"""The trace of an attempt, for all that runs in it: what goes on to other programs, ids for logs.

A context variable, and the standard library only. What makes traces (`mutirao.telemetry`) sets it
in the attempt's context, which threads copy and which goes to child processes with their orders.
It stays when the attempt is over, as the engine logs its end in the same context. Log records
and webhooks read it, and so need to know nothing of what makes traces.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

TRACEPARENT = "traceparent"
Headers = Mapping[str, str]
_sources: ContextVar[tuple[Headers | Callable[[], Headers], ...]] = ContextVar(
    "mutirao_trace_headers", default=()
)


def trace_headers() -> Headers:
    """Return the headers that carry the trace of this attempt; empty outside of one that has any.

    `traceparent` is W3C's; beside it there is what else the program's propagators have.
    """
    found: dict[str, str] = {}
    for each in _sources.get():
        found.update(each() if callable(each) else each)
    return found


def hand_trace(headers: Headers | Callable[[], Headers]) -> None:
    """Have this context carry these headers, beside those that it has.

    Parameters:
        headers: or what returns them, each time that somebody asks; it must not raise.
    """
    if headers:
        _sources.set((*_sources.get(), headers))


@contextmanager
def own_trace() -> Iterator[None]:
    """Have the context carry what it carries now again after the block, whatever is handed in it.

    For attempts that have no context of their own: those of tests that run jobs inline.
    """
    before = _sources.set(_sources.get())
    try:
        yield
    finally:
        _sources.reset(before)


def trace_ids() -> tuple[str, str] | None:
    """Return the ids of this attempt's trace and span, in hexadecimal digits, for log records."""
    parts = trace_headers().get(TRACEPARENT, "").split("-")
    return (parts[1], parts[2]) if len(parts) >= 4 else None
