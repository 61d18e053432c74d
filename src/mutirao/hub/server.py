"""The hub's server: its connected clients, and the wake-ups that it passes to them.

It stores nothing: a hub that is started again knows all once its clients are back. A client that
violates the protocol is dropped, and the others are not affected.
"""

import asyncio
import hmac
import logging
from collections import Counter
from time import monotonic
from typing import cast

from mutirao.hub.circle import Circle
from mutirao.hub.protocol import (
    MAX_LINE,
    PING,
    ClientLine,
    HelloLine,
    IdleLine,
    LooksLine,
    RefusedLine,
    Serves,
    WakeLine,
    line_of,
    read_client_line,
)

log = logging.getLogger("mutirao")

MAX_UNSENT = 64 * 1024  # bytes that a client may leave unread
GREETING = 5.0  # seconds within which a client says hello
SILENCE = 60.0  # seconds without a whole line; clients ping every 15 s at least
SWEEP = 1.0  # seconds between checks for silent clients
SAY_AGAIN = 60.0  # seconds in which the same is not logged again of the same host
MOST_SAID = 1_000  # hosts and reasons that are remembered for that
MOST_CLIENTS = 10_000


class Hub:
    """A hub. Everything happens in one event loop.

    Parameters:
        token: what clients must give; "": nothing.
        most: the maximum number of clients.
    """

    def __init__(self, token: str = "", most: int = MOST_CLIENTS) -> None:
        self._token, self._most = token.encode(), most
        self._circles: dict[str, Circle] = {}
        self._looks: dict[str, float] = {}  # how often each database is looked at
        self._looked = Counter[str]()
        self._new: dict[str, set[Client]] = {}  # clients that get the next look's line
        self._clients: set[Client] = set()
        self._said: dict[tuple[str, str], float] = {}

    @property
    def clients(self) -> int:
        """How many clients are connected."""
        return len(self._clients)

    def client(self) -> asyncio.Protocol:
        """Return the protocol of another client, for a server of asyncio."""
        return Client(self)

    def wake(self, database: str, line: WakeLine) -> None:
        """Wake idle workers of a database."""
        circle = self._circles.get(database)
        if circle is None:
            return
        lines: dict[int, bytes] = {}
        for member, after in circle.choose(line):
            if after not in lines:
                woken = WakeLine(line.queue, line.priority, line.run_at, after=after)
                lines[after] = line_of(woken)
            cast(Client, member).send(lines[after])

    def looks(self, database: str, every: float | None) -> None:
        """Record a look, and its interval; notify the workers, which poll if there is none."""
        before, new = self._looks.pop(database, None), self._new.pop(database, set())
        if every is not None:
            self._looks[database] = every
            self._looked[database] += 1
        for member in new if before == every else self._circle(database):
            member.send(self._line(database))

    async def sweep(self) -> None:
        """Drop clients that are silent, forever."""
        while True:
            await asyncio.sleep(SWEEP)
            now = monotonic()
            for client in [*self._clients]:
                client.check(now)

    def close(self) -> None:
        """Disconnect all clients."""
        for client in [*self._clients]:
            client.close()

    # Called by clients

    def enter(self, client: "Client") -> None:
        """Record a connection."""
        self._clients.add(client)
        if len(self._clients) > self._most:
            client.drop(f"{self._most} clients are connected already")

    def greet(self, client: "Client", hello: HelloLine) -> None:
        """Accept a client, or refuse it."""
        if self._token and not hmac.compare_digest(hello.token.encode(), self._token):
            client.drop("the token is wrong" if hello.token else "no token was given")
            return
        client.database, client.serves = hello.database, hello.serves
        client.send(self._line(hello.database))
        if client.serves is not None:
            self._circles.setdefault(client.database, Circle()).add(client)
            self._new.setdefault(client.database, set()).add(client)

    def answer(self, client: "Client", database: str) -> None:
        """Answer a ping; for a worker also with the number of looks at its database."""
        if client.serves is not None and database in self._looks:
            client.send(self._line(database))
        client.send(PING)

    def turn(self, client: "Client", idle: bool) -> None:
        """Record that a worker is idle now, or busy. One that begins to be idle looks once more."""
        serves = client.serves
        if client.database is None or serves is None:
            client.drop("it serves nothing, and says whether it is idle")
            return
        client.serves = Serves(serves.queues, serves.exclude, serves.tasks, idle)
        self._circles[client.database].add(client)
        if idle:  # earlier wake-ups went to others
            client.send(line_of(WakeLine()))

    def leave(self, client: "Client") -> None:
        """Forget a connection."""
        self._clients.discard(client)
        database = client.database or ""  # by any name that a client has said
        if new := self._new.get(database):
            new.discard(client)
        if not new:
            self._new.pop(database, None)
        circle = self._circles.get(database)
        if circle is not None:
            circle.remove(client)
            if not circle.members:
                del self._circles[database]

    def complain(self, host: str, why: str) -> None:
        """Log why a client was dropped, unless that was just said of its host."""
        now, key = monotonic(), (host, why)
        if self._said.get(key, -SAY_AGAIN) + SAY_AGAIN > now:
            return
        if len(self._said) >= MOST_SAID:
            self._said.clear()
        self._said[key] = now
        log.warning("dropped a client from %s: %s", host, why)

    def _line(self, database: str) -> bytes:
        return line_of(LooksLine(self._looks.get(database), self._looked[database]))

    def _circle(self, database: str) -> "list[Client]":
        circle = self._circles.get(database)
        return [] if circle is None else [cast(Client, each) for each in circle.members]


class Client(asyncio.Protocol):
    """One connection, as the hub has it. `database` is None until it has said hello."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._unread = bytearray()
        self._transport: asyncio.Transport | None = None
        self._heard_at = monotonic()
        self.database: str | None = None
        self.serves: Serves | None = None
        self._host = "?"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for its hello."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self._host = str(peer[0]) if isinstance(peer, tuple) else "this machine"
        self._hub.enter(self)

    def data_received(self, data: bytes) -> None:
        """Do what its lines say."""
        *lines, rest = (self._unread + data).split(b"\n") if self._unread else data.split(b"\n")
        self._unread = bytearray(rest)
        if lines:
            self._heard_at = monotonic()
        for line in lines:
            if self._transport is None:
                return
            self._heed(line)
        if len(rest) > MAX_LINE:
            self.drop(f"a line is longer than {MAX_LINE} bytes")

    def connection_lost(self, error: Exception | None) -> None:
        """Forget it."""
        self._transport = None
        self._hub.leave(self)

    def send(self, line: bytes) -> None:
        """Send a line; drop the client if too much is unsent."""
        if self._transport is None or self._transport.is_closing():
            return  # it has gone, which is noticed later: asyncio would log each line that it loses
        if self._transport.get_write_buffer_size() > MAX_UNSENT:
            self.drop("it does not read what it is sent")
            return
        self._transport.write(line)

    def check(self, now: float) -> None:
        """Drop it if it has been silent for too long."""
        silent = now - self._heard_at
        if self.database is None and silent > GREETING:
            self.drop(f"it did not say hello within {GREETING:g} s")
        elif silent > SILENCE:
            self.drop(f"it said nothing for {SILENCE:g} s")

    def drop(self, why: str) -> None:
        """Send it the reason, if it reads, and close the connection at once."""
        transport, self._transport = self._transport, None
        if transport is None:
            return
        self._hub.complain(self._host, why)
        if not transport.get_write_buffer_size():
            transport.write(line_of(RefusedLine(why)))  # sent at once if the network takes it
        if transport.get_write_buffer_size():
            transport.abort()
        else:
            transport.close()

    def close(self) -> None:
        """Close the connection, as the hub ends."""
        if self._transport is not None:
            self._transport.close()

    def _heed(self, line: bytes | bytearray) -> None:
        if len(line) > MAX_LINE:
            self.drop(f"a line is longer than {MAX_LINE} bytes")
            return
        try:
            said = read_client_line(line)
        except ValueError:
            self.drop("a line is none of the protocol")
            return
        if self.database is None:
            self._greet(said)
        else:
            self._act(said, self.database)

    def _greet(self, said: ClientLine) -> None:
        if isinstance(said, HelloLine):
            self._hub.greet(self, said)
        else:
            self.drop("it did not say hello first")

    def _act(self, said: ClientLine, database: str) -> None:
        match said:
            case WakeLine():
                self._hub.wake(database, said)
            case IdleLine():
                self._hub.turn(self, said.idle)
            case HelloLine():
                self.drop("it said hello twice")
            case _:
                self._hub.answer(self, database)
