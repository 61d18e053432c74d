"""A connection pool that takes the last used connection first.

httpcore2's own pool examines all of its connections twice for a request, whatever their origin.
Here a request examines one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import httpcore2

Connection = httpcore2.AsyncHTTPConnection
# Errors when the other side closes a connection at the moment of its next request.
_CLOSED = (httpcore2.ReadError, httpcore2.WriteError, httpcore2.RemoteProtocolError)
Place = tuple[bytes, bytes, int]  # scheme, host, port
# Requests on one HTTP/2 connection. nginx ends one after a thousand, and h2 then reads no answer
# that is still to come: up to fifty deliveries failed at once, and a breaker opened.
MOST_REQUESTS = 500


@dataclass(eq=False, slots=True)
class Pooled:
    """A connection, its origin, and how many requests use it: more than one only with HTTP/2."""

    connection: Connection
    place: Place
    users: int = 0
    requests: int = 0
    stream: httpcore2.AsyncNetworkStream | None = None
    retired: bool = False  # whether no further request may use it

    def is_outdated(self) -> bool:
        """Return whether it was unused for long, or the other side has closed it.

        With HTTP/2 httpcore2 does not check the latter.
        """
        closed = self.stream is not None and self.stream.get_extra_info("is_over")
        return closed or self.connection.has_expired()

    def use(self) -> None:
        """Count one more request."""
        self.users += 1
        self.requests += 1
        if self.requests >= MOST_REQUESTS and self.connection.can_multiplex():
            self.retired = True

    def is_kept(self) -> bool:
        """Return whether it was used before, with HTTP/1.1: one request at a time."""
        return self.requests > 1 and not self.connection.can_multiplex()

    def has_more(self) -> bool:
        """Return whether bytes are left that came after an HTTP/1.1 answer.

        h11 would read them as the beginning of the next one. If that is unknown, return True.
        """
        http = getattr(self.connection, "_connection", None)
        if isinstance(http, httpcore2.AsyncHTTP2Connection):
            return False  # each of its frames names its stream
        state = getattr(http, "_h11_state", None)
        return state is None or bool(state.trailing_data[0])

    def takes_more(self) -> bool:
        """Return whether it may be used for another request."""
        return not self.retired and self.connection.is_available()


class Pool:
    """Connections of one event loop.

    Parameters:
        make: returns a connection to an origin; its first request opens it.
        most: open at once, to all origins in total. Further requests wait.
    """

    def __init__(self, make: Callable[[httpcore2.Origin], Connection], most: int) -> None:
        self._make, self._most = make, most
        self._requests = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._used: set[Pooled] = set()
        self._idle: dict[Pooled, None] = {}  # in the order in which they were given back
        self._at: dict[Place, dict[Pooled, None]] = {}  # the same
        self._shared: dict[Place, Pooled] = {}  # origins with HTTP/2

    async def send(
        self, request: httpcore2.Request, unanswered: Callable[[], bool] = lambda: False
    ) -> tuple[httpcore2.Response, Pooled]:
        """Send a request; return its answer, and the connection to give back after reading it.

        It is sent once more, over a new connection, if the other side closes a kept one meanwhile,
        and `unanswered` returns that no byte of an answer has come and that it can be sent again.
        """
        new = False
        if self._requests < self._most:
            self._requests += 1
        else:
            await self._wait()
        while True:
            pooled = await self._take(request.url.origin, new=new)
            try:
                answer = await pooled.connection.handle_async_request(request)
            except httpcore2.ConnectionNotAvailable:
                # The other side ends the connection, and reports that it has not processed this
                # one.
                await self._let_go(pooled, whole=False)
            except _CLOSED:
                if new or not (pooled.is_kept() and unanswered()):
                    await self.give_back(pooled, whole=False)
                    raise
                new = True
                await self._let_go(pooled, whole=False)
            except BaseException:
                await self.give_back(pooled, whole=False)
                raise
            else:
                break
        if pooled.connection.can_multiplex() and not pooled.retired:
            self._shared[pooled.place] = pooled
            pooled.stream = answer.extensions["network_stream"]
        return answer, pooled

    async def give_back(self, pooled: Pooled, *, whole: bool) -> None:
        """Keep a connection for the next request, unless it was closed; close the outdated ones.

        `whole`: whether the answer was read to its end. With HTTP/2 httpcore2 does not reset the
        stream of an answer that is not read on: its data would count as unread for ever, until no
        other answer fits. So no new request uses that connection, and its last user closes it.
        """
        self._leave()
        await self._let_go(pooled, whole)

    async def _let_go(self, pooled: Pooled, whole: bool) -> None:
        pooled.retired |= not whole
        pooled.users -= 1
        if not pooled.users:
            pooled.retired |= pooled.has_more()
            self._used.remove(pooled)
            await self._rest(pooled)
        while self._idle and (oldest := next(iter(self._idle))).is_outdated():
            await self._close(oldest)

    async def aclose(self) -> None:
        """Close all connections."""
        for pooled in [*self._used, *self._idle]:
            await pooled.connection.aclose()
        self._idle.clear()
        self._at.clear()
        self._shared.clear()

    async def _wait(self) -> None:
        """Wait until another request frees a place for this one."""
        mine = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self._leave()
            raise

    def _leave(self) -> None:
        while self._waiting:
            if not (first := self._waiting.popleft()).done():
                first.set_result(None)
                return
        self._requests -= 1

    async def _take(self, origin: httpcore2.Origin, *, new: bool) -> Pooled:
        """Return a connection for one more request, a new one if there is none or `new` is set.

        If there are enough, the connection that was idle longest is closed for it.
        """
        place = (origin.scheme, origin.host, origin.port)
        shared = None if new else self._shared.get(place)
        if shared is not None and shared.users and shared.takes_more():
            shared.use()
            return shared
        found: Pooled | None = None
        while found is None and not new and (idle := self._at.get(place)):
            if (last := next(reversed(idle))).is_outdated():
                await self._close(last)
            else:
                found = self._forget(last)
        if found is None and len(self._used) + len(self._idle) >= self._most:
            await self._close(next(iter(self._idle)))
        found = found or Pooled(self._make(origin), place)
        found.use()
        self._used.add(found)
        return found

    async def _rest(self, pooled: Pooled) -> None:
        """Keep an unused connection; of shareable ones only one."""
        shared = self._shared.get(pooled.place)
        if pooled.takes_more() and pooled.connection.is_idle() and shared in (None, pooled):
            self._idle[pooled] = None
            self._at.setdefault(pooled.place, {})[pooled] = None
            return
        if shared is pooled:
            del self._shared[pooled.place]
        await pooled.connection.aclose()

    async def _close(self, idle: Pooled) -> None:
        self._forget(idle)
        if self._shared.get(idle.place) is idle:
            del self._shared[idle.place]
        await idle.connection.aclose()

    def _forget(self, idle: Pooled) -> Pooled:
        del self._idle[idle]
        at = self._at[idle.place]
        del at[idle]
        if not at:
            del self._at[idle.place]
        return idle
