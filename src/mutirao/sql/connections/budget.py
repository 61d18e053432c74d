"""A budget of connections that the databases of one process share.

Each database has two of its own: for its heartbeat, and for one statement at a time. The others are
shared by further statements, transactions, and listeners, which keep theirs. A connection that is
not needed any more is closed, so that the budget is never exceeded. Files are not counted, only
connections to servers.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

from mutirao.errors import ConfigurationError, StoreBusy

CONNECTIONS_EACH = 2  # of each database: its heartbeat's, and one for a statement at a time
COMMON_PER_SPARE = 4  # of so many common connections one, and one at least, is no listener's
WAIT_LIMIT = 30.0  # seconds that a transaction waits for a connection

GiveBack = Callable[[], None]


class Budget:
    """So many connections. May be used from any thread."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = threading.Lock()
        self._free, self._own, self._listeners = most, 0, 0
        self._listed = 0
        self._waiting: deque[Future[None]] = deque()

    def expect(self, databases: int) -> None:
        """Keep what so many databases need free of listeners."""
        self._listed = databases

    def join(self) -> "Share":
        """Return the share of another database.

        Raises:
            ConfigurationError: there are too few connections for so many databases.
            StoreBusy: the last ones are in use at the moment.
        """
        with self._lock:
            if self._own + CONNECTIONS_EACH + self._listeners >= self.most:
                raise self._too_few()
            if self._free < CONNECTIONS_EACH:
                raise StoreBusy(f"all {self.most} connections are in use at the moment")
            self._free -= CONNECTIONS_EACH
            self._own += CONNECTIONS_EACH
        return Share(self)

    def _too_few(self) -> ConfigurationError:
        each, listeners = CONNECTIONS_EACH, self._listeners
        return ConfigurationError(
            f"connections are {self.most}: {self._own // each} databases have {each} each,"
            f" {listeners} are listeners, and another database needs {each} besides the one that"
            " must be left for all. Give more with --connections; a worker that is started again"
            " has fewer listeners"
        )

    def leave(self, listens: bool) -> None:
        """Take back the connections of a share."""
        with self._lock:
            self._own -= CONNECTIONS_EACH
            self._listeners -= listens
        for _ in range(CONNECTIONS_EACH + listens):
            self.give_back()

    def take_for_listener(self) -> bool:
        """Take a connection for a listener, unless too few would be left; return whether it is."""
        with self._lock:
            common = self.most - max(self._own, CONNECTIONS_EACH * self._listed)
            if self._free < 1 or self._listeners + 1 > common - max(1, common // COMMON_PER_SPARE):
                return False
            self._free -= 1
            self._listeners += 1
            return True

    def take(self) -> bool:
        """Take a connection if one is free; return whether it is."""
        with self._lock:
            if self._free < 1:
                return False
            self._free -= 1
            return True

    def wait(self) -> "Future[None]":
        """Return a future that is done when a connection was taken; cancel it to give up."""
        future: Future[None] = Future()
        with self._lock:
            if self._free > 0:
                self._free -= 1
                future.set_result(None)
            else:
                self._waiting.append(future)
        return future

    def give_back(self) -> None:
        """Give a connection back: to the caller that has waited longest, or to all."""
        with self._lock:
            while self._waiting:
                first = self._waiting.popleft()
                if first.set_running_or_notify_cancel():
                    first.set_result(None)
                    return
            self._free += 1

    def give_up(self, future: "Future[None]") -> None:
        """Stop waiting; give back connections that came meanwhile."""
        if not future.cancel():
            self.give_back()


class Share:
    """The part of one database. A statement takes its own connection, or a shared one.

    Statements are asked for in one event loop, transactions in any thread.
    """

    def __init__(self, budget: Budget, *, whole: bool = True) -> None:
        """Set the budget; `whole`: it is not only the heartbeat's part."""
        self._budget, self._is_whole = budget, whole
        self._own = asyncio.Semaphore()
        self._left = self._listens = False

    def beside(self) -> "Share":
        """Return the part of another handle on the database, the heartbeat's."""
        return Share(self._budget, whole=False)

    def may_listen(self) -> bool:
        """Return whether a connection is left for the listener of this database; it is kept."""
        self._listens = self._listens or self._budget.take_for_listener()
        return self._listens

    def leave(self) -> None:
        """Give back everything, once; all connections are closed."""
        if self._is_whole and not self._left:
            self._left = True
            self._budget.leave(self._listens)

    async def for_statement(self, seconds: float | None) -> GiveBack:
        """Take a connection for a statement; return what gives it back.

        Raises:
            StoreBusy: none was free for so many seconds.
        """
        if not self._own.locked():
            await self._own.acquire()
            return self._own.release
        if self._budget.take():
            return self._budget.give_back
        try:
            async with asyncio.timeout(seconds or WAIT_LIMIT):
                await self._own.acquire()
        except TimeoutError:
            raise self._none(seconds or WAIT_LIMIT) from None
        return self._own.release

    async def for_transaction(self, seconds: float | None = None) -> GiveBack:
        """Take a connection for a transaction; return what gives it back.

        Raises:
            StoreBusy: none was free for so many seconds.
        """
        future = self._budget.wait()
        try:
            async with asyncio.timeout(seconds or WAIT_LIMIT):
                await asyncio.wrap_future(future)
        except TimeoutError:
            self._budget.give_up(future)
            raise self._none(seconds or WAIT_LIMIT) from None
        except BaseException:
            self._budget.give_up(future)
            raise
        return self._budget.give_back

    def for_transaction_sync(self) -> GiveBack:
        """Take a connection for a transaction in a thread, which waits."""
        future = self._budget.wait()
        try:
            future.result(WAIT_LIMIT)
        except TimeoutError:
            self._budget.give_up(future)
            raise self._none(WAIT_LIMIT) from None
        return self._budget.give_back

    def _none(self, seconds: float) -> StoreBusy:
        return StoreBusy(
            f"none of the {self._budget.most} connections was free within {seconds:g} s; give the"
            " worker more with --connections, or open fewer transactions at once"
        )
