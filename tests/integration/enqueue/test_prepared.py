"""What is enqueued through our own connections on psycopg, which prepares it past its cursors."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from threading import Thread
from typing import Any

import psycopg
import pytest

from mutirao import Mutirao, Supersede, Task
from mutirao.errors import InvalidJob, StoreRefused
from mutirao.sql.store.jobs import SqlStore
from tests.support.waiting import DEADLINE

REFUSE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'not at the commit'; END $$;
CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON mutirao_job DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW WHEN (NEW.task LIKE '%refused') EXECUTE FUNCTION refuse()
"""
LOCKED = "SELECT FROM pg_locks WHERE NOT granted AND relation = 'mutirao_job'::regclass"


@pytest.fixture
def shop(pg_url: str) -> Iterator[Mutirao]:
    """An application, whose statements wait for locks, but not for ever."""
    application = Mutirao(f"{pg_url}?options=-c%20lock_timeout%3D{DEADLINE:.0f}s")
    yield application
    application.close()


@pytest.fixture
def database(pg_url: str) -> Iterator[psycopg.Connection]:
    """Somebody else in the same database."""
    with psycopg.connect(pg_url.replace("+psycopg", ""), autocommit=True) as connection:
        yield connection


def on_ours(shop: Mutirao, statement: str) -> list[Any]:
    """Execute a statement on the connection that the next job is enqueued through."""
    assert isinstance(shop.store, SqlStore)
    kept = shop.store.engines.spare()
    lent = kept.take()
    driver: Any = lent.driver_connection
    cursor = driver.execute(statement)
    rows: list[Any] = [] if cursor.description is None else cursor.fetchall()
    kept.give_back(lent)
    return rows


def sold(shop: Mutirao) -> Task[[str], None]:
    """Register a task."""

    @shop.task
    def sell(what: str) -> None: ...

    return sell


def test_more_kinds_of_jobs_than_are_prepared(
    shop: Mutirao, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first ones are; the others are written all the same."""
    monkeypatch.setattr("mutirao.sql.drivers.prepared.MAX_PREPARED_STATEMENTS", 2)
    sell = sold(shop)
    options: list[dict[str, Any]] = [{}, {"priority": 3}, {"queue": "slow"}, {"tags": ["é"]}]
    for _ in range(2):
        for asked in options:
            job = shop.job(sell.using(**asked).enqueue("maçã").id)
            found = {"priority": job.priority, "queue": job.queue, "tags": [*job.tags]}
            usual = {"priority": 0, "queue": "default", "tags": []}
            assert (found, job.args) == (usual | asked, {"what": "maçã"})
    ours = on_ours(shop, "SELECT name FROM pg_prepared_statements")
    assert len([name for (name,) in ours if "mutirao" in name]) == 2


def test_interrupted(shop: Mutirao, database: psycopg.Connection, pg_url: str) -> None:
    """Ctrl-C ends an enqueue that waits for the database; the next one works."""
    sell = sold(shop)
    first = sell.enqueue("pears").id
    end = time.monotonic() + DEADLINE

    def interrupt() -> None:
        while not database.execute(LOCKED).fetchall() and time.monotonic() < end:
            pass
        signal.raise_signal(signal.SIGINT)

    with psycopg.connect(pg_url.replace("+psycopg", "")) as locking:
        locking.execute("LOCK TABLE mutirao_job")
        somebody = Thread(target=interrupt, daemon=True)
        somebody.start()
        with pytest.raises(KeyboardInterrupt):
            sell.enqueue("pears")
        somebody.join()
    assert [job.id for job in shop.jobs()] == [first]
    assert sell.enqueue("pears").id > first


def test_what_was_rolled_back_leaves_them_prepared(shop: Mutirao) -> None:
    """A rule that fails undoes its job; the connection serves further ones."""

    def merge(older: dict[str, Any], newer: dict[str, Any]) -> dict[str, Any]:
        raise ZeroDivisionError

    rule = Supersede("kind", {("new", "bad"): "merge"}, merge)

    @shop.task(supersede=rule)
    def tell(kind: str) -> None: ...

    sell = sold(shop)
    for n in range(12):  # psycopg prepares by itself what it is asked more than five times
        tell.using(key=str(n)).enqueue("new")
    for _ in range(3):
        with pytest.raises(InvalidJob, match="merge raised ZeroDivisionError"):
            tell.using(key="0").enqueue("bad")
        tell.using(key="1").enqueue("other")
        sell.enqueue("pears")
    assert len(shop.jobs()) == 18


def test_refused_at_the_commit(shop: Mutirao, database: psycopg.Connection) -> None:
    """What the server says only then is told like any refusal, and nothing is written."""
    database.execute(REFUSE)

    @shop.task
    def refused() -> None: ...

    for _ in range(2):
        with pytest.raises(StoreRefused, match="not at the commit"):
            refused.enqueue()
    sold(shop).enqueue("pears")
    assert [job.task.rpartition(".")[2] for job in shop.jobs()] == ["sell"]


def test_no_longer_prepared(shop: Mutirao) -> None:
    """Where a pooler has changed the session beneath, the call is sent again: nothing was done."""
    sell = sold(shop)
    sell.enqueue("pears")
    on_ours(shop, "DEALLOCATE ALL")
    sell.enqueue("plums")
    assert len(shop.jobs()) == 2


def test_another_client_encoding(shop: Mutirao, pg_url: str) -> None:
    """Texts arrive as they are, also those that travel while it is UTF-8 for a COPY."""
    application = Mutirao(f"{pg_url}?client_encoding=latin1")
    all_of_them = Supersede("região", {})

    @application.task(name="ação", fair_by="região")
    def plain(região: str) -> None: ...

    @application.task(name="série", fair_by="região", supersede=all_of_them)
    def superseding(região: str) -> None: ...

    for _ in range(2):
        for task in (plain, superseding):
            for key in (None, "maçã"):
                job = shop.job(task.using(key=key).enqueue("São Paulo").id)
                assert (job.task, job.args) == (task.name, {"região": "São Paulo"})
    application.close()
