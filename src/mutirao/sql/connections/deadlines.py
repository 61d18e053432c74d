"""Time limits of the store's calls, enforced from outside.

If a network drops packets, or a proxy forwards none, a statement waits forever, because nothing
reports that the connection is lost. So when the time is up, the connection of the call is dropped,
and the call fails at once. Connecting has a limit of its own (`connect_timeout`).
"""

import asyncio
from contextvars import ContextVar
from typing import Any

from sqlalchemy import Engine, event

from mutirao.errors import StoreBusy, StoreError
from mutirao.sql.drivers.failures import translated
from mutirao.sql.drivers.kinds import drop

_current: ContextVar["Deadline | None"] = ContextVar("mutirao_deadline", default=None)


class Deadline:
    """The time limit of one call, in seconds, from its creation to `end`.

    Created in an event loop, which drops the connection, whichever thread uses it.
    """

    __slots__ = ("_connection", "_timer", "passed", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.passed = False
        self._connection: Any = None
        self._timer = asyncio.get_running_loop().call_later(seconds, self.cut)

    def watch(self, connection: Any) -> None:
        """Record the driver's connection that is used from now on."""
        self._connection = connection
        if self.passed:
            drop(connection)

    def cut(self) -> None:
        """Drop the connection; the call that uses it fails at once."""
        self.passed = True
        if self._connection is not None:
            drop(self._connection)

    def end(self) -> None:
        """Release the connection: the call is over."""
        self._timer.cancel()
        self._connection = None


class Calls:
    """The running calls of one event loop, each limited to `seconds`; None: no limit."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._under_way: set[Deadline] = set()

    def begin(self) -> Deadline | None:
        """Start the time of a call."""
        if self.seconds is None:
            return None
        deadline = Deadline(self.seconds)
        self._under_way.add(deadline)
        return deadline

    def end(self, deadline: Deadline | None) -> None:
        """Record that a call is over."""
        if deadline is not None:
            deadline.end()
            self._under_way.discard(deadline)

    def cut(self) -> None:
        """Make all running calls fail now."""
        for deadline in list(self._under_way):
            deadline.cut()


class within:  # noqa: N801 (used like `contextlib.suppress`)
    """A context for one call of the store: within its deadline, with its errors translated.

    Raises:
        StoreBusy: the time was up; the connection was dropped.
    """

    __slots__ = ("_calls", "_deadline", "_token")

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def __enter__(self) -> None:
        """Begin the call; from now on its deadline knows the connections that pools lend."""
        self._deadline = self._calls.begin()
        self._token = _current.set(self._deadline)

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        """End the call, and raise the library's error instead of a driver's."""
        deadline = self._deadline
        _current.reset(self._token)
        self._calls.end(deadline)
        if error is None:
            return
        translation = error if isinstance(error, StoreError) else translated(error)
        if translation is not None and deadline is not None and deadline.passed:
            raise StoreBusy(
                f"the database did not answer within {deadline.seconds:g} s, so the connection was"
                " given up"
            ) from error
        if translation is not None and translation is not error:
            raise translation from error


def is_limited() -> bool:
    """Return whether a deadline is in force."""
    return _current.get() is not None


def report(connection: Any) -> None:
    """Report the driver's connection that is used to the deadline in force, if there is one."""
    deadline = _current.get()
    if deadline is not None:
        deadline.watch(connection)


def report_lent(engine: Engine) -> None:
    """Report each connection that an engine opens or lends to the deadline in force."""
    # Before all other listeners: SQLAlchemy queries a new connection after it was opened.
    event.listen(engine, "connect", _opened, insert=True)
    event.listen(engine, "checkout", _lent, insert=True)


def _opened(connection: Any, record: object) -> None:
    if _current.get() is not None:
        report(getattr(connection, "driver_connection", connection))


def _lent(connection: Any, record: object, proxy: object) -> None:
    _opened(connection, record)
