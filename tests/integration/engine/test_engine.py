"""`Mutirao(engine=…)`: jobs through connections that are opened like the application's own."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import aiosqlite
import asyncpg
import psycopg
import psycopg2
import pytest
from sqlalchemy import URL, Engine, create_engine, event, make_url, text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from mutirao import Job, JobState, Mutirao
from mutirao.errors import ConfigurationError
from tests.integration.worker.kit import ended, never_polling

AnyEngine = Engine | AsyncEngine
KINDS = ["psycopg", "psycopg async", "psycopg2", "asyncpg", "pysqlite", "aiosqlite"]
ON_POSTGRESQL = KINDS[:4]
COROUTINES = {"psycopg", "psycopg async", "asyncpg", "pysqlite", "aiosqlite"}
PLAIN = {"psycopg", "psycopg async", "psycopg2", "pysqlite", "aiosqlite"}


@pytest.fixture
def place(request: pytest.FixtureRequest, kind: str) -> URL:
    """The URL of a database with the tables, for a driver."""
    driver = kind.removesuffix(" async")
    if kind in ON_POSTGRESQL:
        url, scheme = request.getfixturevalue("pg_url"), f"postgresql+{driver}"
    else:
        url, scheme = request.getfixturevalue("lite_url"), f"sqlite+{driver}"
    return make_url(url).set(drivername=scheme)


def engine_of(kind: str, url: URL, **options: Any) -> AnyEngine:
    """Return an application's engine."""
    if kind in ("psycopg async", "asyncpg", "aiosqlite"):
        return create_async_engine(url, **options)
    return create_engine(url, **options)


def beneath(engine: AnyEngine) -> Engine:
    """Return what listeners are added to."""
    return engine.sync_engine if isinstance(engine, AsyncEngine) else engine


async def dispose(engine: AnyEngine) -> None:
    """Close an application's engine."""
    if isinstance(engine, AsyncEngine):
        await engine.dispose()
    else:
        engine.dispose()


def asking(app: Mutirao, kind: str, question: str, answers: list[Any]) -> Any:
    """Return a task that asks the database in its transaction, of the form that the driver has."""
    if kind in COROUTINES:

        @app.task
        async def ask(job: Job) -> None:
            async with job.transaction() as session:
                answers.append(await session.scalar(text(question)))
    else:

        @app.task
        def ask(job: Job) -> None:
            with job.transaction() as session:
                answers.append(session.scalar(text(question)))

    return ask


async def answered(app: Mutirao, kind: str, question: str) -> Any:
    """Let a worker, which never polls, ask something in a job's transaction; return the answer."""
    answers: list[Any] = []
    ask = asking(app, kind, question, answers)
    async with asyncio.timeout(60), never_polling(app):
        await ended(app, (await ask.aenqueue()).id)
        handle = await (asyncio.to_thread(ask.enqueue) if kind in PLAIN else ask.aenqueue())
        assert (await ended(app, handle.id)).state is JobState.SUCCEEDED
    return answers[-1]


@pytest.mark.parametrize("kind", KINDS)
async def test_jobs_and_the_engine_live(kind: str, place: URL) -> None:
    """It enqueues and works, waits for no connection of the application's, and closes none."""
    engine = engine_of(kind, place, pool_size=1, max_overflow=0)
    app = Mutirao(engine=engine)
    pool = beneath(engine).pool
    if isinstance(engine, AsyncEngine):
        async with AsyncSession(engine) as session:
            await session.execute(text("SELECT 1"))
            assert await answered(app, kind, "SELECT 7") == 7
            await app.aclose()
            assert await session.scalar(text("SELECT 8")) == 8
    else:
        with Session(engine) as session:
            session.execute(text("SELECT 1"))
            assert await answered(app, kind, "SELECT 7") == 7
            await app.aclose()
            assert session.scalar(text("SELECT 8")) == 8
    app.close()
    assert beneath(engine).pool is pool
    assert pool.checkedin() == 1  # type: ignore[attr-defined]
    await dispose(engine)


@pytest.mark.parametrize("kind", ["psycopg", "psycopg async", "pysqlite", "aiosqlite"])
async def test_through_its_connection(kind: str, place: URL) -> None:
    """A job is born in the application's transaction, as always."""
    engine = engine_of(kind, place)
    app = Mutirao(engine=engine)

    @app.task
    async def send() -> None: ...

    if isinstance(engine, AsyncEngine):
        async with engine.connect() as theirs:
            await send.using(conn=theirs).aenqueue()
            await theirs.rollback()
            await send.using(conn=theirs).aenqueue()
            await theirs.commit()
    else:
        with engine.connect() as conn:
            send.using(conn=conn).enqueue()
            conn.rollback()
            send.using(conn=conn).enqueue()
            conn.commit()
    assert len(await app.ajobs()) == 1
    await app.aclose()
    await dispose(engine)


@pytest.mark.parametrize("kind", ON_POSTGRESQL)
async def test_a_password_that_is_asked_for(kind: str, place: URL) -> None:
    """The listener that knows it, added late, is asked for each connection, LISTEN's included."""
    engine = engine_of(kind, place.set(password="old"))
    app, asked = Mutirao(engine=engine), list[str]()

    @event.listens_for(beneath(engine), "do_connect")
    def _give(dialect: object, record: object, args: object, parameters: dict[str, Any]) -> None:
        asked.append(parameters["password"])
        parameters["password"] = place.password

    assert await answered(app, kind, "SELECT 7") == 7
    assert len(asked) >= 3
    assert app.database.endswith(f"postgres:***@127.0.0.1:{place.port}/{place.database}")
    await app.aclose()
    app.close()
    await dispose(engine)


def creators(place: URL) -> dict[str, Callable[[], Any]]:
    """Return what opens a connection of each kind."""
    plain = place.set(drivername="postgresql").render_as_string(hide_password=False)
    return {
        "psycopg": lambda: psycopg.connect(plain),
        "psycopg async": lambda: psycopg.AsyncConnection.connect(plain),
        "psycopg2": lambda: psycopg2.connect(plain),
        "asyncpg": lambda: asyncpg.connect(plain),
    }


@pytest.mark.parametrize("kind", ON_POSTGRESQL)
async def test_a_creator(kind: str, place: URL) -> None:
    """It opens all connections, of its own form only; the other one is refused."""
    bare, creator = URL.create(place.drivername), creators(place)[kind]
    if kind in ("psycopg async", "asyncpg"):
        engine: AnyEngine = create_async_engine(bare, async_creator=creator)
        app = Mutirao(engine=engine)
        assert await answered_by(app, "asyncpg") == 7
        with pytest.raises(ConfigurationError, match="no synchronous form") as refused:
            app.store.enqueue([])
        assert ("creator of its own" in str(refused.value)) == (kind != "asyncpg")
    else:
        engine = create_engine(bare, creator=creator)
        app = Mutirao(engine=engine)
        assert await answered_by(app, "psycopg2") == 7
    await asyncio.to_thread(app.migrate)
    await app.aclose()
    app.close()
    await dispose(engine)


async def answered_by(app: Mutirao, kind: str) -> Any:
    """Ask in the one form that there is."""
    return await answered(app, kind, "SELECT 7")


@pytest.mark.parametrize("kind", ON_POSTGRESQL)
async def test_what_it_does_with_new_connections(kind: str, place: URL) -> None:
    """Arguments of the engine hold, and so does what a listener sets in each session."""
    named = {"options": "-c application_name=shop"}
    if kind == "asyncpg":
        named = {"server_settings": {"application_name": "shop"}}  # type: ignore[dict-item]
    engine = engine_of(kind, place, connect_args=named, isolation_level="SERIALIZABLE")
    app = Mutirao(engine=engine)

    @event.listens_for(beneath(engine), "connect")
    def _set(connection: Any, record: object) -> None:
        cursor = connection.cursor()
        cursor.execute("SET work_mem = '3MB'")
        cursor.close()
        connection.commit()

    question = (
        "SELECT current_setting('application_name') || current_setting('work_mem')"
        " || current_setting('transaction_isolation')"
    )
    assert await answered(app, kind, question) == "shop3MBread committed"
    await app.aclose()
    app.close()
    await dispose(engine)


@pytest.mark.parametrize("kind", ["pysqlite", "aiosqlite"])
async def test_pragmas(kind: str, place: URL) -> None:
    """On SQLite, too, where a listener is how foreign keys come to hold."""
    engine = engine_of(kind, place)
    app = Mutirao(engine=engine)

    @event.listens_for(beneath(engine), "connect")
    def _set(connection: Any, record: object) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    assert await answered(app, kind, "PRAGMA foreign_keys") == 1
    await app.aclose()
    app.close()
    await dispose(engine)


@pytest.fixture
def memory() -> Iterator[Engine]:
    """An engine of a database in memory."""
    engine = create_engine("sqlite://")
    yield engine
    engine.dispose()


def test_what_is_refused(memory: Engine, sqlite_url: str) -> None:
    """Two places, what is no engine, a database in memory, a driver that is not known."""
    with pytest.raises(ConfigurationError, match=r"engine= and a url; expected one of them"):
        Mutirao(sqlite_url, engine=memory)
    with pytest.raises(ConfigurationError, match=r"object of type builtins.str; expected"):
        Mutirao(engine=sqlite_url)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="in memory belongs to one connection"):
        Mutirao(engine=memory)
    alone = create_async_engine(
        sqlite_url.replace("sqlite:", "sqlite+aiosqlite:"),
        async_creator=lambda: aiosqlite.connect(":memory:"),
    )
    with pytest.raises(ConfigurationError, match="which workers need on SQLite; give a plain Eng"):
        Mutirao(engine=alone)
    strange = create_engine("sqlite://", creator=lambda: sqlite3.connect(":memory:"))
    strange.dialect.driver = "pysqlcipher"
    with pytest.raises(ConfigurationError, match=r"sqlite\+pysqlcipher"):
        Mutirao(engine=strange)
    strange.dispose()
