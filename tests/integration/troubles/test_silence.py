"""Connections that are open and say nothing: each call ends, and the next one takes a new one."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from sqlalchemy import make_url

from mutirao import Mutirao
from mutirao.engine.settings import WorkerSettings
from mutirao.errors import StoreBusy, StoreUnavailable
from mutirao.notifiers import postgresql
from mutirao.notifiers.postgresql import PostgresqlNotifier
from mutirao.ports import Store
from mutirao.sql.connections.engines import Engines
from mutirao.sql.store import jobs as sql_store
from mutirao_conformance.kit import NOW, at, due, ended, join, lane, put, take_one
from tests.integration.service.kit import Tables, all_finished
from tests.integration.worker.kit import working
from tests.support.postgresql import PostgresServer
from tests.support.proxy import Proxy
from tests.support.waiting import soon, until

LIMIT = 2.0  # seconds; a busy machine takes one to connect
Call = Callable[[Store, int], Awaitable[object]]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that have to be short, so that a test need not wait for long."""
    monkeypatch.setattr(WorkerSettings, "call_limit", LIMIT)
    monkeypatch.setattr(WorkerSettings, "beat_limit", LIMIT)
    monkeypatch.setattr(sql_store, "LONG_CALL_TIMEOUT", LIMIT)
    monkeypatch.setattr(sql_store, "FIRST_CALL_TIMEOUT", LIMIT)


CALLS: dict[str, Call] = {
    "claim": lambda store, worker: store.claim(worker, [lane()], 9, now=at(1)),
    "lanes": lambda store, worker: store.lanes(None),
    "release": lambda store, worker: store.release([(1, 1)]),
    "beat": lambda store, worker: store.beat(worker, expiry=60),
    "register": lambda store, worker: join(store),
    "held": lambda store, worker: store.held(worker),
    "lease": lambda store, worker: store.lease("x", worker, ttl=1, every=1),
    "rescue": lambda store, worker: store.rescue(),
    "statistics": lambda store, worker: store.refresh_statistics(),
    "hours": lambda store, worker: store.roll_up(None),
    "retire": lambda store, worker: store.retire(worker),
    "check": lambda store, worker: store.check(),
}


# All calls with one driver, and with the others one that reads and one that writes.
EACH = [
    *(("psycopg", name) for name in CALLS),
    *((driver, name) for driver in ("asyncpg", "psycopg2") for name in ("lanes", "beat")),
]


# All of them have the limit of their store; those that wait for it here are of each kind.
@pytest.mark.repeats(
    *("lanes", "release", "register", "held", "lease", "rescue", "hours", "statistics", "check"),
    decided="tests/integration/troubles/test_silence.py",
)
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(("troubled", "name"), EACH, indirect=["troubled"])
async def test_each_call_ends(troubled: Mutirao, proxy: Proxy, name: str) -> None:
    """Within its limit; and the next one goes through, on a connection of its own."""
    store = troubled.store.clone(within=LIMIT)
    try:
        worker = await join(store, now=None)
        await CALLS[name](store, worker)
        proxy.silence()
        with pytest.raises(StoreBusy, match=r"did not answer within 2 s"):
            await soon(CALLS[name](store, worker))
        await soon(CALLS[name](store, worker))
    finally:
        await store.close()


@pytest.mark.repeats("asyncpg", "psycopg2", decided="tests/integration/troubles/test_silence.py")
@pytest.mark.usefixtures("impatient")
async def test_a_settlement_ends(troubled: Mutirao, proxy: Proxy) -> None:
    """It may have happened: then the next try finds the run stale. Here nothing had arrived."""
    store = troubled.store.clone(within=LIMIT)
    try:
        [id] = await put(store, due())
        worker = await join(store)
        claim = await take_one(store, worker)
        proxy.silence()
        with pytest.raises(StoreBusy):
            await soon(store.settle(worker, [ended(claim)], now=NOW))
        assert await soon(store.settle(worker, [ended(claim)], now=NOW)) == {id}
    finally:
        await store.close()


@pytest.mark.repeats("asyncpg", "psycopg2", decided="tests/integration/troubles/test_silence.py")
@pytest.mark.usefixtures("impatient")
async def test_a_worker_goes_on(troubled: Mutirao, tables: Tables, proxy: Proxy) -> None:
    """All of its connections fall silent at once: those that claim, settle, beat and listen."""
    first, go_on = asyncio.Event(), asyncio.Event()

    @troubled.task
    async def step() -> None:
        first.set()
        await go_on.wait()

    await troubled.aenqueue_many([step.job() for _ in range(30)])
    async with working(troubled, concurrency=10, heartbeat=0.2, expiry=10, poll=0.2):
        await soon(first.wait())
        proxy.silence()
        go_on.set()
        await all_finished(tables, 30)
        before = tables.rows_of_workers()
        await all_beat_again(tables, before)
    assert tables.outcomes() == {"succeeded"}


async def all_beat_again(tables: Tables, before: dict[int, object]) -> None:
    """Wait until each of these workers has beaten since."""
    await until(lambda: _later(tables.rows_of_workers(), before))


def _later(now: dict[int, object], before: dict[int, object]) -> bool:
    return now.keys() == before.keys() and all(now[id] != before[id] for id in before)


@pytest.mark.repeats("asyncpg", decided="tests/integration/troubles/test_silence.py")
@pytest.mark.parametrize("driver", ["psycopg", "asyncpg"])
async def test_a_listener_notices(
    pg_url: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, driver: str
) -> None:
    """It asks after a long silence; an answer is enough, and without one it listens anew."""
    monkeypatch.setattr(postgresql, "PROBE_INTERVAL", 0.05)
    monkeypatch.setattr(postgresql, "PROBE_TIMEOUT", LIMIT)
    url = make_url(pg_url).set(drivername=f"postgresql+{driver}", port=proxy.port)
    listening = PostgresqlNotifier(url).listen()
    await soon(anext(listening))
    later = asyncio.ensure_future(anext(listening))
    done, _ = await asyncio.wait((later,), timeout=1.5 * LIMIT)  # many questions, and answers
    assert not done
    proxy.silence()
    with pytest.raises(StoreUnavailable):
        await soon(later)
    await listening.aclose()


async def test_signals_are_heeded(pg_url: str, proxy: Proxy, postgres: PostgresServer) -> None:
    """A worker whose network is silent ends when it is told to, within its grace and 15 s."""
    url = make_url(pg_url).set(port=proxy.port)
    program = ("-m", "tests.integration.worker.programs.signalled")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *program, url.render_as_string(False), "grace=1"),
        cwd=Path(__file__).parents[3],
        stdin=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ,
    )
    try:
        assert process.stderr is not None
        while b") started" not in (line := await soon(process.stderr.readline())):
            assert line
        proxy.silence(for_all=True)
        process.send_signal(signal.SIGTERM)
        assert await soon(process.wait(), deadline=40.0) == 0
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg", "postgresql+psycopg2"])
def test_what_a_url_leaves_open(scheme: str) -> None:
    """Connecting, and a peer that has gone, are noticed in half a minute, or as the URL says."""
    url = Engines(f"{scheme}://u@h/d?connect_timeout=3").url
    assert url.query["connect_timeout"] == "3"
    idle, interval, count = (
        int(str(url.query[f"keepalives_{name}"])) for name in ("idle", "interval", "count")
    )
    assert idle + interval * count <= 30
    assert int(str(url.query["tcp_user_timeout"])) <= 30_000
