"""Sessions that frameworks hand out are callers like any other, and who commits them decides."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest
import transaction
import zope.sqlalchemy
from fastapi import Depends, FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import create_engine, event, text
from sqlalchemy.ext.asyncio import (
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlmodel import Field, Session as SQLModelSession, SQLModel, select
from sqlmodel.ext.asyncio.session import AsyncSession as SQLModelAsyncSession

from mutirao import Mutirao
from mutirao.tasks.task import Task


class Kite(SQLModel, table=True):
    """A table of an application on SQLModel."""

    id: int | None = Field(default=None, primary_key=True)
    colour: str


@pytest.fixture
def app(migrated_sqlite_url: str) -> Iterator[Mutirao]:
    """An application with a task."""
    app = Mutirao(migrated_sqlite_url)
    engine = create_engine(migrated_sqlite_url)
    SQLModel.metadata.create_all(engine)
    engine.dispose()
    app.task(name="send")(send)
    yield app
    app.close()


def send(number: int) -> None:
    """Do nothing."""


def task_of(app: Mutirao) -> Task[..., Any]:
    """Return the task."""
    return app.tasks["send"]


def numbers(app: Mutirao) -> list[int]:
    """Return the arguments of the jobs that were committed."""
    return sorted(job.args["number"] for job in app.jobs())


def test_sqlmodel(app: Mutirao, migrated_sqlite_url: str) -> None:
    """Its session writes a row and its job in one transaction, and undoes both."""
    engine = create_engine(migrated_sqlite_url)
    for colour in ("red", "none"):
        with SQLModelSession(engine) as session:
            kite = Kite(colour=colour)
            session.add(kite)
            session.flush()
            task_of(app).using(conn=session).enqueue(number=kite.id)
            if colour == "red":
                session.commit()
            else:
                session.rollback()
    with SQLModelSession(engine) as session:
        assert [kite.colour for kite in session.exec(select(Kite))] == ["red"]
    engine.dispose()
    assert numbers(app) == [1]


@pytest.mark.parametrize("scoped", [False, True], ids=["session", "scoped"])
async def test_sqlmodel_asynchronous(app: Mutirao, migrated_sqlite_url: str, scoped: bool) -> None:
    """So does its asynchronous session, also from a scoped one."""
    engine = create_async_engine(migrated_sqlite_url.replace("sqlite", "sqlite+aiosqlite"))
    made = async_sessionmaker(engine, class_=SQLModelAsyncSession)
    sessions: Any = async_scoped_session(made, lambda: 1) if scoped else made
    for number in (1, 2):
        async with sessions() as session:
            await task_of(app).using(conn=sessions if scoped else session).aenqueue(number=number)
            if number == 1:
                await session.commit()
    await engine.dispose()
    assert [job.args["number"] for job in await app.ajobs()] == [1]


@pytest.mark.parametrize("kind", ["session", "scoped", "flushed"])
def test_a_transaction_manager_commits(app: Mutirao, migrated_sqlite_url: str, kind: str) -> None:
    """`zope.sqlalchemy` rolls back what it does not know to be written: a job is, alone as well."""
    engine = create_engine(migrated_sqlite_url)
    manager = transaction.TransactionManager(explicit=True)
    made: Any = sessionmaker(engine)
    sessions = scoped_session(made) if kind == "scoped" else made
    for number in (1, 2):
        manager.begin()
        session = sessions()
        zope.sqlalchemy.register(session, transaction_manager=manager)
        if kind == "flushed":
            session.add(Kite(colour="red"))
            session.flush()
        task_of(app).using(conn=sessions if kind == "scoped" else session).enqueue(number=number)
        if number == 1:
            manager.commit()
        else:
            manager.abort()
    engine.dispose()
    assert numbers(app) == [1]


def test_a_transaction_manager_that_only_reads(app: Mutirao, migrated_sqlite_url: str) -> None:
    """A session that was registered as one that only reads refuses a job, instead of losing it."""
    engine = create_engine(migrated_sqlite_url)
    manager = transaction.TransactionManager()
    with Session(engine) as session:
        zope.sqlalchemy.register(session, "readonly", transaction_manager=manager)
        session.execute(text("SELECT 1"))
        with pytest.raises(AssertionError, match="read only"):
            task_of(app).using(conn=session).enqueue(number=1)
        manager.abort()
    engine.dispose()
    assert numbers(app) == []


@pytest.mark.parametrize(
    ("scope", "status"), [("function", 500), ("request", 201)], ids=["function", "request"]
)
def test_when_a_dependency_commits(
    app: Mutirao, migrated_sqlite_url: str, scope: Literal["function", "request"], status: int
) -> None:
    """With FastAPI's scope "function" the client hears of a commit that has failed.

    Otherwise the answer has gone before: it says that something was made which is not there.
    """
    engine = create_async_engine(migrated_sqlite_url.replace("sqlite", "sqlite+aiosqlite"))
    sessions = async_sessionmaker(engine)

    async def transaction_of_request() -> AsyncIterator[AsyncSession]:
        async with sessions.begin() as session:
            yield session

    @asynccontextmanager
    async def lifespan(web: FastAPI) -> AsyncIterator[None]:
        yield
        await engine.dispose()

    web = FastAPI(lifespan=lifespan)
    event.listen(engine.sync_engine, "commit", refuse)

    @web.post("/orders", status_code=201)
    async def place(
        session: AsyncSession = Depends(transaction_of_request, scope=scope),  # noqa: B008
    ) -> None:
        await task_of(app).using(conn=session).aenqueue(number=1)

    with TestClient(web, raise_server_exceptions=False) as client:
        assert client.post("/orders").status_code == status
    assert numbers(app) == []


def refuse(connection: object) -> None:
    """Be a database that refuses to commit."""
    raise OSError("the disk is full")
