"""The logger of the library, which never raises, and what a record may say of where it was made.

That stands in context variables, which go along into the threads and tasks of a handler: the
worker, the database, the job and the trace. `fields` returns it; filters and formatters of
`mutirao.telemetry.logs` put it on records. To note the job of an attempt takes 0.1 µs, and is done
for each; nothing else is done for records that nobody makes.
"""

import logging
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from mutirao.model.display import one_line
from mutirao.model.trace import trace_ids

if TYPE_CHECKING:
    from mutirao.model.jobs.job import Claim


class Log:
    """The logger `mutirao`, as the engine uses it: logging never raises here.

    A program's record factory, filter or handler may raise. That must not end a loop or occupy a
    slot, so the message then goes to standard error, with the reason.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self.heeds = logger.isEnabledFor
        # Called in child processes before anything else; None: they log as what they import says.
        # It has to be found there by its name.
        self.of_children: Callable[[], None] | None = None

    def say(self, level: int, message: str, *args: object, **more: Any) -> None:
        """Log at a level, as `logging.Logger.log` does."""
        if not self._logger.isEnabledFor(level):
            return
        try:
            self._logger.log(level, message, *args, stacklevel=3, **more)
        except Exception:  # noqa: BLE001 (written to standard error, if possible)
            _say_plainly(message, args)

    def debug(self, message: str, *args: object, **more: Any) -> None:
        """Log details for developers."""
        self.say(logging.DEBUG, message, *args, **more)

    def info(self, message: str, *args: object, **more: Any) -> None:
        """Log normal events."""
        self.say(logging.INFO, message, *args, **more)

    def warning(self, message: str, *args: object, **more: Any) -> None:
        """Log a problem that passes by itself."""
        self.say(logging.WARNING, message, *args, **more)

    def error(self, message: str, *args: object, **more: Any) -> None:
        """Log a problem that a person must solve."""
        self.say(logging.ERROR, message, *args, **more)

    def exception(self, message: str, *args: object, **more: Any) -> None:
        """Log an error that is being handled."""
        self.say(logging.ERROR, message, *args, exc_info=True, **more)

    def critical(self, message: str, *args: object, **more: Any) -> None:
        """Log an error that ends the worker."""
        self.say(logging.CRITICAL, message, *args, **more)


log = Log(logging.getLogger("mutirao"))


def _say_plainly(message: str, args: tuple[object, ...]) -> None:
    with suppress(Exception):  # there is nowhere left to write
        why = [f"  {one_line(each)}" for each in traceback.format_exc().splitlines()]
        lines = [f"mutirao: {one_line(message % args)}", "(logging failed:", *why, ")"]
        sys.stderr.write("\n".join(lines) + "\n")


_served: ContextVar[str | None] = ContextVar("mutirao_database", default=None)
_worker: ContextVar["Identified | None"] = ContextVar("mutirao_worker", default=None)
_job: ContextVar["Claim | None"] = ContextVar("mutirao_job", default=None)

name_job = _job.set  # has the records from here on say of which job they are


class Identified(Protocol):
    """Something with an id, which may change: a number in a database, or else a name."""

    @property
    def id(self) -> int | str:
        """The id; 0: none yet."""
        ...


def serve(database: str) -> None:
    """Name the database that this task, and all that it starts, is about."""
    _served.set(database)


@contextmanager
def working_as(worker: Identified) -> Iterator[None]:
    """Have what is started in the block say which worker it is."""
    before = _worker.set(worker)
    try:
        yield
    finally:
        _worker.reset(before)


@contextmanager
def naming_job(claim: "Claim") -> Iterator[None]:
    """Have the records of the block say of which job they are, and those after it as before."""
    before = _job.set(claim)
    try:
        yield
    finally:
        _job.reset(before)


def fields(claim: "Claim | None" = None) -> dict[str, Any]:
    """Return what a record that is made here says of job, worker, database and trace.

    What is not known is no field. `claim`: the job; None: that of the handler which runs here.
    """
    found: dict[str, Any] = {}
    if (claim := claim or _job.get()) is not None:
        found = _of_job(claim)
    if (worker := _worker.get()) is not None and worker.id:
        found["worker"] = worker.id
    if (database := _served.get()) is not None:
        found["database"] = database
    if (traced := trace_ids()) is not None:
        found["trace"], found["span"] = traced
    return found


def _of_job(claim: "Claim") -> dict[str, Any]:
    found = {
        "job": claim.id,
        "task": claim.task,
        "queue": claim.queue,
        "attempt": claim.attempt,
        "run": claim.run,
    }
    trace = _trace_of(claim.traceparent)
    others = {"tenant": claim.tenant, "group": claim.group, "trace": trace}
    return found | {name: value for name, value in others.items() if value is not None}


def _trace_of(traceparent: object) -> str | None:
    """Return the trace of a `traceparent`, which may be anything: `00-{trace}-{span}-{flags}`."""
    match traceparent.split("-") if isinstance(traceparent, str) else ():
        case [_, trace, _, _] if len(trace) == 32 and trace.isascii() and trace.isalnum():
            return trace
    return None


def _name(record: logging.LogRecord) -> bool:
    database = _served.get()
    if database is not None:
        record.database = database
    return True


@contextmanager
def naming() -> Iterator[None]:
    """Give the records of the library a field `database` in the block."""
    logger, add_name = logging.getLogger("mutirao"), lambda record: _name(record)
    logger.addFilter(add_name)
    try:
        yield
    finally:
        logger.removeFilter(add_name)
