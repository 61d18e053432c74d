"""How long a call of the store may take, enforced from outside.

A network that drops packets, or a proxy that forwards none, keeps a statement waiting for ever:
there is nobody to say that it is over. So when the time is up, the connection that the call uses
is dropped, and the call fails at once. Connecting has a limit of its own (`connect_timeout`).
"""

import asyncio
from contextvars import ContextVar
from typing import Any

from sqlalchemy import Engine, event

from mutirao.errors import StoreBusy, StoreError
from mutirao.sql.callers.dropping import drop
from mutirao.sql.failures import translated

_current: ContextVar["Deadline | None"] = ContextVar("mutirao_deadline", default=None)


class Deadline:
    """The time limit of one call, in seconds, from its making to `end`.

    Made in an event loop, which drops the connection, whichever thread uses it.
    """

    __slots__ = ("_connection", "_timer", "passed", "seconds")

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.passed = False
        self._connection: Any = None
        self._timer = asyncio.get_running_loop().call_later(seconds, self.cut)

    def watch(self, connection: Any) -> None:
        """Note which connection of the driver's is used from now on."""
        self._connection = connection
        if self.passed:
            drop(connection)

    def cut(self) -> None:
        """Drop the connection; what uses it fails at once."""
        self.passed = True
        if self._connection is not None:
            drop(self._connection)

    def end(self) -> None:
        """Let the connection go: the call is over."""
        self._timer.cancel()
        self._connection = None


class Calls:
    """Who is under way in one event loop, each within `seconds`; without them, within no limit."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._under_way: set[Deadline] = set()

    def begin(self) -> Deadline | None:
        """Start a call's time."""
        if self.seconds is None:
            return None
        deadline = Deadline(self.seconds)
        self._under_way.add(deadline)
        return deadline

    def end(self, deadline: Deadline | None) -> None:
        """Note that a call is over."""
        if deadline is not None:
            deadline.end()
            self._under_way.discard(deadline)

    def cut(self) -> None:
        """Make all calls that are under way fail now."""
        for deadline in list(self._under_way):
            deadline.cut()


class within:  # noqa: N801 (used like `contextlib.suppress`)
    """Runs a call of the store: within its deadline, its errors translated.

    Raises:
        StoreBusy: the time was up; the connection was given up.
    """

    __slots__ = ("_calls", "_deadline", "_token")

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def __enter__(self) -> None:
        """Begin; the pools tell the deadline which connections they lend."""
        self._deadline = self._calls.begin()
        self._token = _current.set(self._deadline)

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        """End, and raise the library's error instead of a driver's."""
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


def tell(connection: Any) -> None:
    """Tell the deadline in force, if there is one, which connection of the driver's is used."""
    deadline = _current.get()
    if deadline is not None:
        deadline.watch(connection)


def tell_lent(engine: Engine) -> None:
    """Have the deadline in force told of each connection that an engine opens or lends."""
    # First of all: SQLAlchemy asks a new connection some questions when it has been opened.
    event.listen(engine, "connect", _opened, insert=True)
    event.listen(engine, "checkout", _lent, insert=True)


def _opened(connection: Any, record: object) -> None:
    if _current.get() is not None:
        tell(getattr(connection, "driver_connection", connection))


def _lent(connection: Any, record: object, proxy: object) -> None:
    _opened(connection, record)
