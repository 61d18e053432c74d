"""`databases`: what a worker of many databases costs, and how soon jobs begin in each."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import monotonic, process_time
from typing import Any, NamedTuple

from sqlalchemy import Engine, create_engine, make_url, text

from benchmarks.figures import Figures
from benchmarks.member import memory_held
from benchmarks.spent import Spent, counted
from mutirao.app import Mutirao
from mutirao.errors import ConfigurationError
from mutirao.model.jobs.job import Job, NewJob
from mutirao.sql import migrations
from mutirao.sql.store.jobs import SqlStore

TASK = "mutirao.bench.begun"
NAME = "mutirao_bench_"  # of the databases that are made on the server, before their number
START_LIMIT = 300.0  # seconds within which each database must have run a first job


class Held(NamedTuple):
    """What the worker's process has spent, and what it holds."""

    cpu: float
    statements: int
    memory: int | None
    threads: int
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One worker of many databases without jobs, and then with one job in each after another.

    Parameters:
        files, servers: how many databases of each kind, SQLite and on the server.
        statements, cpu: a second, while nothing is due: statements, and seconds of processor time.
        memory: bytes that its process holds; None where the system does not tell.
        threads, open_files: of its process; the last with sockets.
        connections: to the server.
        waited: milliseconds from enqueueing to the handler's start, by kind: median, maximum.
    """

    files: int
    servers: int
    statements: float
    cpu: float
    memory: int | None
    threads: int
    open_files: int
    connections: int
    waited: dict[str, tuple[float, float]]

    def figures(self) -> Figures:
        """Return them by name."""
        found: Figures = {
            "databases": self.files + self.servers,
            "idle statements/s": self.statements,
            "idle statements/s of each": self.statements / (self.files + self.servers),
            "idle CPU, % of a core": self.cpu * 100,
            "memory, MB": None if self.memory is None else self.memory / 1e6,
            "threads": self.threads,
            "open files": self.open_files,
            "connections to the server": self.connections,
        }
        for kind, (middle, most) in self.waited.items():
            found[f"{kind}: call to start, p50, ms"] = middle
            found[f"{kind}: call to start, max, ms"] = most
        return found


async def databases(
    url: str,
    *,
    files: int = 100,
    servers: int = 20,
    connections: int | None = None,
    poll: float = 2.0,
    seconds: float = 30.0,
    settling: float = 10.0,
) -> Served:
    """Make so many databases, serve them by one worker, and remove them.

    Parameters:
        url: a database on a server where databases may be made; of SQLite if `servers` is 0.
        files, servers: how many databases of each kind.
        connections, poll: of the worker, as in its settings.
        seconds: for which it is watched while nothing is due.
        settling: seconds before that, in which it does what it does once.

    Raises:
        ConfigurationError: databases are to be made on a server, and `url` is of a file.
    """
    if servers and make_url(url).get_backend_name() == "sqlite":
        raise ConfigurationError("there is no server at a file; give --servers 0, or a server")
    settings = {"poll": poll, "connections": connections}
    async with _made(url, files, servers) as made, _worker(made, settings) as pipe:
        await _begun(pipe, made, START_LIMIT)
        await asyncio.sleep(settling)
        before, started = await _held(pipe), monotonic()
        await asyncio.sleep(seconds)
        after, took = await _held(pipe), monotonic() - started
        opened = await asyncio.to_thread(_connections, url) if servers else 0
        waited = await _waited(pipe, made)
    return Served(
        files=files,
        servers=servers,
        statements=(after.statements - before.statements) / took,
        cpu=(after.cpu - before.cpu) / took,
        memory=after.memory,
        threads=after.threads,
        open_files=after.files,
        connections=opened,
        waited=waited,
    )


# The databases


@asynccontextmanager
async def _made(url: str, files: int, servers: int) -> AsyncIterator[list[str]]:
    with TemporaryDirectory() as directory:
        try:
            made = await asyncio.to_thread(_make, url, Path(directory), files, servers)
            yield made
        finally:
            await asyncio.to_thread(_drop, url, servers)


def _make(url: str, directory: Path, files: int, servers: int) -> list[str]:
    first = directory / "0.db"
    migrations.upgrade(f"sqlite:///{first}")
    paths = [first, *(directory / f"{n}.db" for n in range(1, files))]
    for path in paths[1:]:
        shutil.copy(first, path)
    names = [f"{NAME}{n}" for n in range(servers)]
    on_server = [
        make_url(url).set(database=name).render_as_string(hide_password=False) for name in names
    ]
    for n, name in enumerate(names):
        template = f" TEMPLATE {names[0]}" if n else ""
        _tell(url, f"CREATE DATABASE {name}{template}")
        if not n:
            migrations.upgrade(on_server[0])
    return [*(f"sqlite:///{path}" for path in paths[:files]), *on_server]


def _drop(url: str, servers: int) -> None:
    for n in range(servers):
        _tell(url, f"DROP DATABASE IF EXISTS {NAME}{n} WITH (FORCE)")


def _tell(url: str, sql: str) -> None:
    engine = _outside(url)
    with engine.connect() as connection:
        connection.execute(text(sql))
    engine.dispose()


def _connections(url: str) -> int:
    engine = _outside(url)
    sql = f"SELECT count(*) FROM pg_stat_activity WHERE datname LIKE '{NAME}%'"  # noqa: S608
    with engine.connect() as connection:
        found = int(connection.execute(text(sql)).scalar_one())
    engine.dispose()
    return found


def _outside(url: str) -> Engine:
    return create_engine(url, isolation_level="AUTOCOMMIT")


# The worker, in a process of its own


@asynccontextmanager
async def _worker(
    made: Sequence[str], settings: dict[str, Any]
) -> "AsyncIterator[Connection[str, Any]]":
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(list(made), settings, theirs), daemon=True)
    process.start()
    theirs.close()  # whoever waits for a process that has ended is told
    try:
        yield ours
    finally:
        with suppress(BrokenPipeError):
            ours.send("stop")
        await asyncio.to_thread(process.join)


def _serve(made: list[str], settings: dict[str, Any], pipe: "Connection[Any, str]") -> None:
    asyncio.run(_work(made, settings, pipe))


async def _work(made: list[str], settings: dict[str, Any], pipe: "Connection[Any, str]") -> None:
    app = Mutirao(made[0])
    app.databases(lambda: made)

    @app.task(name=TASK)
    async def begun(job: Job) -> None:
        pipe.send((job.database, monotonic()))

    spent = Spent()
    with counted(spent):
        async with app.worker(**settings, log_jobs="failures"):
            while await asyncio.to_thread(pipe.recv) != "stop":
                pipe.send(_holds(spent))
    await app.aclose()


def _holds(spent: Spent) -> Held:
    threads, files = (len(os.listdir(f"/proc/self/{each}")) for each in ("task", "fd"))
    return Held(process_time(), spent.statements, memory_held(), threads, files)


async def _held(pipe: "Connection[str, Any]") -> Held:
    pipe.send("tell")
    found: Held = await asyncio.to_thread(pipe.recv)
    return found


# The jobs


async def _begun(pipe: "Connection[str, Any]", made: Sequence[str], limit: float) -> None:
    """Run a first job in each database, which shows that all are served."""
    async with asyncio.timeout(limit):
        for url in made:
            await _waited_for(pipe, url)


async def _waited(
    pipe: "Connection[str, Any]", made: Sequence[str]
) -> dict[str, tuple[float, float]]:
    found: dict[str, list[float]] = {}
    for url in made:
        kind = make_url(url).get_backend_name()
        found.setdefault(kind, []).append(1e3 * await _waited_for(pipe, url))
    return {kind: (median(times), max(times)) for kind, times in found.items()}


async def _waited_for(pipe: "Connection[str, Any]", url: str) -> float:
    """Return the seconds from the call that enqueues in one database until its job began.

    Not from its return: the job may have begun by then.
    """
    store = SqlStore(url)
    asked = monotonic()
    await store.aenqueue([NewJob(task=TASK)])
    await store.close()
    _, started = await asyncio.to_thread(pipe.recv)
    return float(started - asked)
