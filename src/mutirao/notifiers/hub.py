"""Wake-ups by a hub: the connection of a worker to it.

A worker pings the hub, so it notices within its `poll` seconds that the hub is frozen or the
network gone, and polls again. A hub that ends is noticed at once. The hub counts as looking at the
database while the number of its looks grows: one that only claims to look would keep jobs waiting
for long.
"""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing

from mutirao.errors import StoreUnavailable
from mutirao.hub.address import Address
from mutirao.hub.protocol import (
    MAX_LINE,
    PING,
    HelloLine,
    HubLine,
    IdleLine,
    LooksLine,
    RefusedLine,
    Serves,
    WakeLine,
    line_of,
    read_hub_line,
)
from mutirao.model.jobs.lanes import Wake

CONNECT = 5.0  # seconds that connecting, and the hub's first answer, may take
RARELY, OFTEN = 15.0, 0.05  # seconds between two pings, at the most and at the least
PATIENCE = 10.0  # seconds besides `every` between two looks: one may take 2 s, its pause 8
SPREAD = 1.0  # seconds: clients do not all return at once to a hub that is back


class HubNotifier:
    """The wake-ups of one worker, by the hub at `address`.

    Parameters:
        address: the hub's, with its token.
        database: the name that the hub knows the database by.
        serves: the queues and tasks of the worker.
        poll: the seconds after which it polls if the hub says nothing.
    """

    def __init__(
        self, address: Address, database: str, serves: Serves | None = None, poll: float = 2.0
    ) -> None:
        self._address, self._database = address, database
        self._serves = serves or Serves()
        self._quiet = min(RARELY, max(OFTEN, poll / 2))
        self._writers: set[asyncio.StreamWriter] = set()  # one for each that listens
        self._every: float | None = None  # how often it looks, if it is known to
        self._looked, self._grown_at = 0, 0.0  # its looks, and when their number grew last
        self.said: float | None = None  # how often it looks, as it says
        self._was_there = False

    @property
    def complete(self) -> bool:
        """True while the hub is reachable, and known to poll the database."""
        return self._every is not None

    def attend(self, idle: bool) -> None:
        """Notify the hub whether the worker wants wake-ups. In the event loop that listens."""
        self._serves = Serves(self._serves.queues, self._serves.exclude, self._serves.tasks, idle)
        for writer in self._writers:
            if not writer.is_closing():
                writer.write(line_of(IdleLine(idle)))

    async def listen(self) -> AsyncGenerator[Wake, None]:
        """Yield a wake whenever the hub sends one; raise StoreUnavailable if it is unreachable."""
        writer: asyncio.StreamWriter | None = None
        try:
            if self._was_there:
                await asyncio.sleep(random.uniform(0, SPREAD))
            async with asyncio.timeout(CONNECT):
                reader, writer = await self._open()
                await self._greet(reader, writer)
            self._was_there = True
            self._writers.add(writer)
            yield Wake()
            async with aclosing(self._lines(reader, writer)) as lines:
                async for line in lines:
                    match line:
                        case WakeLine():
                            yield line.wake()
                        case RefusedLine():
                            raise StoreUnavailable(self._refused(line))
                        case _ if self._judges(line):
                            yield Wake()
        except TimeoutError:
            raise StoreUnavailable(f"the hub at {self._address} does not answer") from None
        except (OSError, ValueError) as gone:
            raise StoreUnavailable(f"the hub at {self._address} is away: {gone}") from gone
        finally:
            self._every = self.said = None
            if writer is not None:
                self._writers.discard(writer)
                writer.transport.abort()  # a farewell might wait for the network

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        address = self._address
        if address.path:
            return await asyncio.open_unix_connection(address.path, limit=MAX_LINE)
        return await asyncio.open_connection(
            address.host, address.port, ssl=address.context(), limit=MAX_LINE
        )

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(line_of(HelloLine(self._database, self._address.token, self._serves)))
        answer = await self._line(reader)
        if isinstance(answer, RefusedLine):
            raise StoreUnavailable(self._refused(answer))
        if not isinstance(answer, LooksLine):
            raise ValueError("it does not answer as a hub")
        self._looked, self.said = answer.looked, answer.every

    def _judges(self, line: HubLine) -> bool:
        """Decide by a line whether the hub looks; return whether that has changed."""
        before, now = self.complete, asyncio.get_running_loop().time()
        if isinstance(line, LooksLine):
            if line.looked > self._looked:
                self._every, self._grown_at = line.every, now
            self._looked, self.said = line.looked, line.every
            self._every = None if line.every is None else self._every
        if self._every is not None and now - self._grown_at > self._every + PATIENCE:
            self._every = None
        return self.complete is not before

    async def _lines(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> AsyncGenerator[HubLine, None]:
        """Yield the lines of the hub; raise TimeoutError if it does not answer a ping."""
        loop = asyncio.get_running_loop()
        tick, heard = loop.time() + self._quiet, True
        while True:
            try:
                async with asyncio.timeout_at(tick):
                    line = await self._line(reader)
            except TimeoutError:
                if not heard:
                    raise
                writer.write(PING)
                tick, heard = loop.time() + self._quiet, False
                continue
            heard = True
            yield line

    async def _line(self, reader: asyncio.StreamReader) -> HubLine:
        line = await reader.readline()
        if not line:
            raise ConnectionError("it closed the connection")
        return read_hub_line(line)

    def _refused(self, line: RefusedLine) -> str:
        given = "; give it by MUTIRAO_HUB_TOKEN, or in the hub's URL"
        remedy = given if "token" in line.why else ""
        return f"the hub at {self._address} refuses us: {line.why}{remedy}"
