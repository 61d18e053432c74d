"""The trace of an attempt, for all code that runs in it: headers for other programs, ids for logs.

A context variable, and the standard library only. The code that makes traces (`mutirao.telemetry`)
sets it in the attempt's context, which threads copy and which child processes receive with their
orders. It stays set when the attempt is over, because the engine logs its end in the same context.
Log records and webhooks read it, and need to know nothing of the code that makes traces.
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
    """Return the headers that carry the trace of this attempt; empty if there is none.

    `traceparent` is W3C's; the program's propagators may add others.
    """
    found: dict[str, str] = {}
    for each in _sources.get():
        found.update(each() if callable(each) else each)
    return found


def hand_trace(headers: Headers | Callable[[], Headers]) -> None:
    """Add headers to those that this context carries.

    Parameters:
        headers: or a function that returns them, called each time they are needed; it must not
            raise.
    """
    if headers:
        _sources.set((*_sources.get(), headers))


@contextmanager
def own_trace() -> Iterator[None]:
    """Keep headers that the block adds within it, instead of in the attempt's context."""
    before = _sources.get()
    try:
        yield
    finally:
        _sources.set(before)


def trace_ids() -> tuple[str, str] | None:
    """Return the ids of this attempt's trace and span, in hexadecimal digits, for log records."""
    parts = trace_headers().get(TRACEPARENT, "").split("-")
    return (parts[1], parts[2]) if len(parts) >= 4 else None
