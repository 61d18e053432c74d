"""Text that is not UTF-8, which SQLite keeps in any row: people see it, wherever it stands."""

from __future__ import annotations

import shutil
import sqlite3
import traceback
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import JSON, Text, create_engine, text

from mutirao import Job, Limit, Mutirao, chain
from mutirao.sql.schema.tables import metadata
from mutirao_conformance.kit import join
from tests.integration.worker.kit import ended, working

NO_TEXT = ("x'ff61'", "x'7b2261223a22ff227d'", "x'5b22ff225d'")  # a text, an object, a list


# Rows of what takes a network, or hours, to come about.
BY_HAND = (
    "INSERT INTO mutirao_host (name, state, failures, held, error)"
    " VALUES ('example.org', 'failing', 3, 0, 'ConnectError: no')",
)


@pytest.fixture
async def filled(lite_url: str) -> Path:
    """Return a file with rows in the tables that people list."""
    app = Mutirao(lite_url)
    topic = app.topic("orders")

    @app.task
    async def step(job: Job, n: int = 0) -> int:
        job.progress(1, of=2, note="half")
        return n

    @app.task(max_attempts=1)
    async def fails() -> None:
        raise ValueError("no")

    @app.subscriber("mail")
    async def mail(event: Any) -> None: ...

    await app.subscriptions.aput("mail", mail, "orders", filter={"n": 1})
    secret = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    await app.endpoints.aput("shop", "https://example.org/", ["orders"], secret=secret)
    await app.schedules.aput("daily", step.job(n=1), every=86_400.0)
    await app.limits.aput(Limit(2, name="two"), task="step")
    async with working(app):
        for each in (fails.enqueue(), step.enqueue(n=1), topic.enqueue({"n": 1})):
            await ended(app, each.id)
    await join(app.store, now=None)
    app.enqueue_graph(chain(step.job(n=1), step.job(n=2)))
    engine = create_engine(app.url)
    with engine.begin() as connection:
        for statement in BY_HAND:
            connection.execute(text(statement))
    engine.dispose()
    await app.aclose()
    return Path(lite_url.removeprefix("sqlite:///"))


async def look(app: Mutirao) -> None:
    """List everything, as people do."""
    store = app.store
    jobs = await app.ajobs()
    assert len(jobs) >= 3
    for job in jobs:
        await app.ajob(job.id)
    graphs = await store.graphs(None, None)
    assert len(graphs) == 1
    for graph in graphs:
        await store.graph(graph.id)
    for listed in (
        store.counts, store.workers, app.schedules.alist, app.subscriptions.alist,
        app.endpoints.alist, app.limits.alist, app.hosts.alist, app.aexamine,
    ):  # fmt: skip
        assert await listed(), listed
    await store.endings([job.id for job in jobs])


def spoil(file: Path, table: str, column: str, told: str) -> bool:
    """Write this into each row of a table; return whether the database takes it."""
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA trusted_schema = ON")
        try:
            written = connection.execute(f'UPDATE {table} SET "{column}" = CAST({told} AS text)')  # noqa: S608
        except sqlite3.Error:
            return False
        return written.rowcount > 0


@pytest.fixture
def spoilt(filled: Path, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Yield, for each table, a file in which all of its texts are none."""

    def each() -> Iterator[tuple[str, Path]]:
        for table in metadata.sorted_tables:
            copied = tmp_path / f"{table.name}.db"
            shutil.copy(filled, copied)
            texts = [it.name for it in table.columns if isinstance(it.type, Text | JSON)]
            taken = [any(spoil(copied, table.name, it, found) for found in NO_TEXT) for it in texts]
            if any(taken):
                yield table.name, copied

    return each()


async def test_people_see_it(spoilt: Iterator[tuple[str, Path]]) -> None:
    """Whichever table it stands in, nothing that lists fails."""
    failed, tried = list[str](), list[str]()
    for table, file in spoilt:
        tried.append(table)
        app = Mutirao(f"sqlite:///{file}")
        try:
            await look(app)
        except Exception as error:  # noqa: BLE001 (all of them are shown)
            failed.append(f"{table}: {''.join(traceback.format_exception(error)[-3:])}")
        finally:
            await app.aclose()
    assert "\n".join(failed) == ""
    assert len(tried) > 10, tried
