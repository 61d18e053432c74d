"""A worker inside another program: in its event loop, or in a thread of it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from mutirao import Mutirao
from mutirao.errors import ConfigurationError, SchemaMissing, StoreUnavailable, WrongState
from tests.integration.service.kit import Tables, all_finished, line, program, ran, wait_for_all
from tests.integration.worker.kit import ended, outcomes, working
from tests.support.waiting import soon, until, wait_until

pytestmark = pytest.mark.repeats("postgresql", decided="tests/conformance")


@pytest.fixture
def tables(url: str) -> Tables:
    """The tables of the application's database."""
    return Tables(url)


class Shop:
    """An application with a task that tells in which thread it ran."""

    def __init__(self, app: Mutirao) -> None:
        self.app = app
        self.threads: list[str] = []

        @app.task
        async def whisper() -> None:
            self.threads.append(threading.current_thread().name)

        self.whisper = whisper


async def test_in_the_program_s_event_loop(app: Mutirao, tables: Tables) -> None:
    """Handlers run in that very loop; afterwards nothing is left of the worker."""
    shop = Shop(app)
    threads = set(threading.enumerate())
    async with working(app) as worker:
        await shop.whisper.aenqueue()
        await all_finished(tables, 1)
        assert not worker.running  # in a thread, that is
        with pytest.raises(WrongState, match="runs already"):
            await worker.__aenter__()
    assert shop.threads == [threading.current_thread().name]
    assert tables.workers() == set()
    await app.aclose()
    await until(lambda: {t for t in threading.enumerate() if "mutirao" in t.name} <= threads)


async def test_the_program_fails(app: Mutirao, tables: Tables) -> None:
    """Its error is its own; the worker stops all the same."""
    Shop(app)
    registered: set[int] = set()

    async def fail() -> None:
        async with working(app):
            registered.update(tables.workers())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert len(registered) == 1
    assert tables.workers() == set()


def test_in_a_thread(url: str, tables: Tables) -> None:
    """Started twice it is started once; stopped twice, stopped; and it starts again."""
    app = Mutirao(url)
    shop = Shop(app)
    worker = working(app)
    worker.stop()
    for number in (1, 2):
        with worker:
            worker.start()
            assert len(tables.workers()) == 1
            shop.whisper.enqueue()
            wait_for_all(tables, number)
        worker.stop()
        assert not worker.running
        assert tables.workers() == set()
    assert shop.threads == ["mutirao-worker"] * 2
    app.close()


async def test_in_the_loop_again(app: Mutirao, tables: Tables) -> None:
    """The same object serves another time, as when an application is started twice in tests."""
    shop = Shop(app)
    worker = working(app)
    for number in (1, 2):
        async with worker:
            await shop.whisper.aenqueue()
            await all_finished(tables, number)
    assert tables.workers() == set()


@pytest.mark.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)
async def test_without_tables(database_url: str) -> None:
    """The caller is told, in both ways of starting; nothing runs."""
    app = Mutirao(database_url)
    Shop(app)
    worker = working(app)
    with pytest.raises(SchemaMissing, match="mutirao migrate"):
        await worker.__aenter__()
    with pytest.raises(SchemaMissing, match="mutirao migrate"):
        await asyncio.to_thread(worker.start)
    assert not worker.running
    await app.aclose()


async def test_without_tasks(app: Mutirao) -> None:
    """A worker that could run nothing says so."""
    with pytest.raises(ConfigurationError, match="no tasks"):
        await asyncio.to_thread(working(app).start)


async def test_without_a_server() -> None:
    """The caller decides whether to wait."""
    app = Mutirao("postgresql+psycopg://postgres@127.0.0.1:9/nothing")
    Shop(app)
    with pytest.raises(StoreUnavailable):
        await asyncio.to_thread(working(app).start)


async def test_a_handler_goes_on_within_the_grace(app: Mutirao, tables: Tables) -> None:
    """Leaving the block waits for it."""
    begun, finish = asyncio.Event(), asyncio.Event()

    @app.task
    async def slow() -> None:
        begun.set()
        await finish.wait()

    worker = working(app)
    await worker.__aenter__()
    id = (await slow.aenqueue()).id
    await soon(begun.wait())
    leaving = asyncio.create_task(worker.__aexit__(None, None, None))
    asyncio.get_running_loop().call_later(0.1, finish.set)
    await soon(leaving)
    assert finish.is_set()
    assert outcomes(await ended(app, id)) == ["succeeded"]
    assert tables.workers() == set()


async def test_two_applications(lite_url: str, pg_url: str) -> None:
    """In one process, each on its database, in one loop and in threads."""
    shops = [Shop(Mutirao(lite_url)), Shop(Mutirao(pg_url))]
    async with working(shops[0].app), working(shops[1].app):
        for shop in shops:
            await shop.whisper.aenqueue()
        await until(lambda: [len(shop.threads) for shop in shops] == [1, 1])
    for shop in shops:
        await shop.app.aclose()
    await asyncio.to_thread(_both_in_threads, shops)


def _both_in_threads(shops: list[Shop]) -> None:
    with working(shops[0].app), working(shops[1].app):
        for shop in shops:
            shop.whisper.enqueue()
        wait_until(lambda: [len(shop.threads) for shop in shops] == [2, 2])
    for shop in shops:
        shop.app.close()


def test_a_script_that_just_ends(url: str, tables: Tables) -> None:
    """The worker stops first: its jobs are given back, and it signs off."""
    assert ran("ends", url) == ""
    assert (tables.number_held(), tables.number_live()) == (0, 10)
    assert tables.workers() == set()
    assert tables.outcomes() == {"released"}


def test_forking(pg_url: str) -> None:
    """A child disturbs neither its parent's worker nor its connections, and may have its own."""
    assert ran("forks", pg_url) == "all is well\n"
    assert Tables(pg_url).outcomes() == {"succeeded"}
    assert Tables(pg_url).workers() == set()


@pytest.mark.repeats(decided="tests/integration/service/test_embedded.py")
def test_forking_at_once(pg_url: str) -> None:
    """Whatever module is being imported in that moment, no child waits for it for ever."""
    url = pg_url.replace("psycopg", "psycopg2")
    assert ran("forks_at_once", url, "20") == "all is well\n"


@pytest.mark.repeats(decided="tests/integration/service/test_embedded.py")
def test_forking_from_sqlite(lite_url: str) -> None:
    """A child that leaves the file alone disturbs nobody, when it ends neither."""
    assert ran("forks", lite_url, "idle") == "all is well\n"
    assert Tables(lite_url).outcomes() == {"succeeded"}
    assert Tables(lite_url).workers() == set()


def test_reloading(url: str, tables: Tables) -> None:
    """One server stops while its successor runs already, and takes over what was given back."""
    app = Mutirao(url)

    @app.task(name="serve")
    def serve() -> None: ...

    with program("serves", url) as old:
        assert line(old) == "started"
        serve.enqueue()
        assert line(old) == "begun"
        with program("serves", url) as new:
            assert line(new) == "started"
            assert old.stdin is not None
            old.stdin.close()
            assert line(old) == "stopped"
            assert line(new) == "begun"
            assert new.stdin is not None
            new.stdin.write("\n")
            new.stdin.flush()
            wait_for_all(tables, 1)
            new.stdin.close()
            assert line(new) == "stopped"
            assert (old.wait(100), new.wait(100)) == (0, 0)
            old.stdin = new.stdin = None
    assert tables.outcomes() == {"released", "succeeded"}
    assert tables.workers() == set()
    app.close()
