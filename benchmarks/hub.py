"""`hub`: what a wake-up hub carries, how soon a job begins by it, and what it spares the database.

The hub of the first two parts is a process of its own, as people run it.
"""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from resource import getpagesize
from time import perf_counter
from typing import Any

from benchmarks.crew import Crew
from benchmarks.figures import Figures, Quantiles, prefixed
from benchmarks.latency import UNCOUNTED, Moments, called, one_by_one
from benchmarks.load import PREFIX, Load
from benchmarks.spent import Spent, counted
from mutirao.errors import ConfigurationError
from mutirao.hub.address import parse_address
from mutirao.hub.looking import LookedAt
from mutirao.hub.protocol import HelloLine, Serves, WakeLine, line_of
from mutirao.hub.service import HubSettings, serving
from mutirao.notifiers.hub_access import VARIABLE
from mutirao.sql import migrations
from mutirao.sql.store.jobs import SqlStore

ANYWHERE = "127.0.0.1:0"
PACE = 0.01  # seconds between two bursts of wakes
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """What a hub did about many wakes.

    Parameters:
        clients: idle workers that were connected.
        sent: wakes a second that it was told of.
        heard: lines a second that workers got of it; up to four for each wake.
        cpu: processor time of the hub, as a share of one core.
        before, after: bytes that the hub held, before the first wake and after the last.
    """

    clients: int
    sent: float
    heard: float
    cpu: float
    before: int
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HubResult:
    """All of it.

    Parameters:
        carried: by the hub alone, without a database.
        own: from the return of `enqueue` to the handler's start, in a commit of its own.
        looked: likewise, when nobody tells the hub, which looks.
        workers: how many were idle.
        polling: statements a second of these without a hub.
        hub: likewise with one; `looking` of it are the hub's.
    """

    carried: Carried
    own: Quantiles
    looked: Quantiles
    workers: int
    polling: float
    hub: float
    looking: float

    def figures(self) -> Figures:
        """Return them, with what they are."""
        carried, of = self.carried, f"{self.workers} idle workers, statements/s"
        return {
            "idle clients": carried.clients,
            "wakes/s": carried.sent,
            "lines/s to clients": carried.heard,
            "CPU of the hub, % of a core": carried.cpu * 100,
            "memory before, MB": carried.before / 1e6,
            "memory after, MB": carried.after / 1e6,
            **prefixed("own commit to handler", self.own.figures()),
            **prefixed("others' commit to handler", self.looked.figures()),
            f"{of}, without a hub": self.polling,
            f"{of}, with one": self.hub,
            f"{of}, of these the hub's": self.looking,
        }


async def hub(
    url: str,
    *,
    clients: int = 1_000,
    rate: int = 10_000,
    seconds: float = 10.0,
    jobs: int = 200,
    workers: int = 20,
    watched: float = 20.0,
    settling: float = 5.0,
) -> HubResult:
    """Measure a hub with the database at `url`.

    Parameters:
        url: a database without jobs, but for those of earlier benchmarks.
        clients: how many idle workers are connected to a hub that passes wakes on.
        rate: wakes a second that it is told of, in bursts.
        seconds: for how long.
        jobs: how many are enqueued one at a time, by each way.
        workers: how many are idle while statements are counted.
        watched: seconds for which they are.
        settling: seconds before that, which are not counted.

    Raises:
        ConfigurationError: the database holds jobs of others.
    """
    await _prepare(url)
    carried = await _carried(clients, rate, seconds)
    async with _process(url) as (place, _):
        own = await _latency(url, place, place, jobs)
        looked = await _latency(url, place, None, jobs)
    polling, _ = await _statements(url, workers, (settling, watched), hub=False)
    statements, looking = await _statements(url, workers, (settling, watched), hub=True)
    return HubResult(
        carried=carried,
        own=own,
        looked=looked,
        workers=workers,
        polling=polling,
        hub=statements + looking,
        looking=looking,
    )


async def _prepare(url: str) -> None:
    await asyncio.to_thread(migrations.upgrade, url)
    load = Load(url)
    others = [job.task for job in await load.app.ajobs() if not job.task.startswith(PREFIX)]
    await load.app.aclose()
    if others:
        raise ConfigurationError(f"the database holds jobs of others, such as of {others[0]}")


@asynccontextmanager
async def _process(*databases: str) -> AsyncIterator[tuple[str, int]]:
    """Run the command; yield the hub's URL and its process's id."""
    looked_at = [word for url in databases for word in ("--database", url)]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "mutirao", "hub", "--bind", ANYWHERE, *looked_at),
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    try:
        line = (await process.stderr.readline()).decode()
        found = re.search(r"the hub listens at (\S+)", line)
        assert found is not None, line
        yield found[1], process.pid
    finally:
        process.terminate()
        await process.wait()


class _Heard(asyncio.Protocol):
    """An idle worker that counts what it hears."""

    lines = 0

    def data_received(self, data: bytes) -> None:
        _Heard.lines += data.count(b"\n")


async def _carried(clients: int, rate: int, seconds: float) -> Carried:
    loop, hello = asyncio.get_running_loop(), HelloLine("benchmark", "", Serves())
    async with _process() as (place, pid):
        address, transports = parse_address(place), []
        for _ in range(clients):
            transport, _ = await loop.create_connection(_Heard, address.host, address.port)
            transport.write(line_of(hello))
            transports.append(transport)
        _, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(line_of(HelloLine("benchmark")))
        burst = line_of(WakeLine("default")) * max(1, round(rate * PACE))
        await _send(writer, burst, 1.0)  # it has all its lists and buffers then
        heard, cpu, memory = _Heard.lines, _cpu_of(pid), _memory_of(pid)
        began = perf_counter()
        sent = await _send(writer, burst, seconds)
        took = perf_counter() - began
        found = Carried(
            clients=clients,
            sent=sent / took,
            heard=(_Heard.lines - heard) / took,
            cpu=(_cpu_of(pid) - cpu) / took,
            before=memory,
            after=_memory_of(pid),
        )
        for each in (*transports, writer.transport):
            each.abort()
    return found


async def _send(writer: asyncio.StreamWriter, burst: bytes, seconds: float) -> int:
    """Send a burst every 10 ms; return how many lines were sent, and read by the hub."""
    end, sent = perf_counter() + seconds, 0
    moment = perf_counter()
    while moment < end:
        writer.write(burst)
        await writer.drain()
        sent += burst.count(b"\n")
        moment += PACE
        await asyncio.sleep(max(0.0, moment - perf_counter()))
    return sent


async def _latency(url: str, worker: str | None, producer: str | None, jobs: int) -> Quantiles:
    """Enqueue jobs one at a time for an idle worker; `worker`, `producer`: the hub of each."""
    total = jobs + UNCOUNTED
    with _environment(worker):
        crew = Crew(url, numbers=total)
        async with crew:
            with _environment(producer):
                load = Load(url)
                await crew.start()
                submit: Callable[[int], Awaitable[Moments]] = partial(called, load)
                moments = await one_by_one(crew, submit, range(total), 0.05)
                await crew.stop()
                await load.app.aclose()
    begun = list(crew.board.started)[UNCOUNTED:]
    times = zip(begun, moments[UNCOUNTED:], strict=True)
    return Quantiles.of([at - back for at, (_, back) in times])


async def _statements(
    url: str, workers: int, seconds: tuple[float, float], *, hub: bool
) -> tuple[float, float]:
    """Return the statements a second of idle workers, and of the hub in this process."""
    store, spent = SqlStore(url), Spent()
    settling, counting = seconds
    watched = [LookedAt(store.engines.called, store)] if hub else []
    async with serving(HubSettings(bind=ANYWHERE), watched) as place:
        with _environment(place if hub else None):
            async with Crew(url, each=workers) as crew:
                await crew.start()
                await asyncio.sleep(settling)
                before, since = await crew.so_far(), perf_counter()
                with counted(spent):
                    await asyncio.sleep(counting)
                after = await crew.so_far()
                passed = perf_counter() - since
                await crew.stop()
    await store.close()
    return (after.statements - before.statements) / passed, spent.statements / passed


@contextmanager
def _environment(place: str | None) -> Iterator[None]:
    """Have applications of this process and its children use a hub, or none."""
    before: Any = os.environ.pop(VARIABLE, None)
    if place is not None:
        os.environ[VARIABLE] = place
    try:
        yield
    finally:
        os.environ.pop(VARIABLE, None)
        if before is not None:
            os.environ[VARIABLE] = before


def _cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _memory_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * getpagesize()
