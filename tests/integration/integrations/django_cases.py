"""A Django project's own tests, run as a program: how jobs are enqueued through its connections.

Not collected by pytest, since Django is set up once for a process. `test_django.py` runs it with
the URL of a migrated database, which has a table `orders`.
"""

from __future__ import annotations

import sys
import threading
import unittest
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import django
import pytest
from django.conf import settings
from django.core.cache import cache
from django.db import (
    ProgrammingError,
    close_old_connections,
    connection,
    connections,
    transaction,
)
from django.db.transaction import TransactionManagementError
from django.db.utils import DatabaseError
from django.test import SimpleTestCase, TestCase, TransactionTestCase
from django.test.utils import CaptureQueriesContext, setup_test_environment
from sqlalchemy import make_url, text

from mutirao import Job, Mutirao, Retry, Supersede
from mutirao.errors import SchemaMissing, UnsupportedConnection, WrongState
from mutirao.model.jobs.job import NewJob
from mutirao.testing import drain, inline

if __name__ != "__main__":
    raise ImportError("run this as a program")

if "psycopg2" in sys.argv[1]:
    sys.modules["psycopg"] = None  # type: ignore[assignment]  # Django prefers it

URL = make_url(sys.argv[1])
POSTGRESQL = URL.get_backend_name() == "postgresql"
SHOP = {
    "ENGINE": f"django.db.backends.{'postgresql' if POSTGRESQL else 'sqlite3'}",
    "NAME": URL.database,
    "USER": URL.username or "",
    "PASSWORD": URL.password or "",
    "HOST": URL.host or "",
    "PORT": URL.port or "",
}
EMPTY = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
settings.configure(DATABASES={"default": SHOP, "other": SHOP, "empty": EMPTY}, USE_TZ=True)
django.setup(set_prefix=False)

from django.db import models  # noqa: E402 (it needs the settings)

app = Mutirao(URL)


class Order(models.Model):  # type: ignore[misc]
    """An order."""

    item = models.TextField()

    class Meta:
        app_label, db_table, managed = "shop", "orders", False


@app.task
def send(order_id: int) -> None:
    """Send a receipt."""


@app.task(supersede=Supersede.activities(by="type"))
def deliver(type: str, object: str) -> None:
    """Deliver an activity."""


@app.around_handler
def connections_as_around_requests(job: Job) -> Iterator[None]:
    """Do what the page tells: close connections that are broken or too old."""
    close_unusable()
    try:
        yield
    finally:
        close_unusable()


def close_unusable() -> None:
    """Leave out what is in a transaction, such as a test's."""
    for each in connections.all(initialized_only=True):
        if not each.in_atomic_block:
            each.close_if_unusable_or_obsolete()


@app.task(queue="tested")
def close() -> None:
    """Close the test's own connection, as `close_old_connections` does in a transaction."""
    close_old_connections()


@app.task(queue="tested")
def note(item: str, more: int) -> None:
    """Place an order, and others after it."""
    Order.objects.create(item=item)
    if more == 2:
        note.using(conn=connection).enqueue(item + "1", 1)
    elif more:
        with transaction.atomic():
            note.enqueue(item + "1", 0)


@app.task(queue="tested")
async def anote(job: Job, item: str) -> None:
    """Place an order with the job's completion."""
    async with job.transaction() as session:
        await session.execute(text("INSERT INTO orders (item) VALUES (:item)"), {"item": item})


@app.task(queue="tested", retry=Retry.never())
def fail(how: str) -> None:
    """Fail in one of the ways in which Django's transactions do."""
    if how == "statement":
        connection.cursor().execute("SELECT nonsense FROM nowhere")
    if how == "atomic":
        with transaction.atomic(savepoint=False):
            Order.objects.create(item="drained and lost")
            raise ValueError(how)
    Order.objects.create(item="drained and kept")
    raise ValueError(how)


def ids() -> list[int]:
    """Return the jobs that others see."""
    return [job.id for job in app.jobs(limit=1_000)]


def orders() -> int:
    """Return the number of orders that this connection sees."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM orders")
        return int(cursor.fetchone()[0])


def order() -> int:
    """Place an order, and enqueue its receipt in the same transaction."""
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO orders (item) VALUES (%s)", ["kite"])
    return send.using(conn=connections["default"]).enqueue(order_id=1).id


class Transactions(TransactionTestCase):  # type: ignore[misc]
    """Whose transactions are committed. Django flushes nothing, as it knows no models."""

    databases = {"default", "other", "empty"}  # noqa: RUF012

    def setUp(self) -> None:
        """Note what is there."""
        self.before = ids()

    def new(self) -> list[int]:
        """Return the jobs that have become visible."""
        return sorted(set(ids()) - set(self.before))

    def test_an_unopened_connection(self) -> None:
        """It is opened, as for a query; and without a transaction each call commits."""
        connection.close()
        assert connection.connection is None
        id = send.using(conn=connections["default"]).enqueue(order_id=1).id
        assert self.new() == [id]

    def test_the_proxy(self) -> None:
        """`django.db.connection` stands for this thread's; one of a cache is refused."""
        id = send.using(conn=connection).enqueue(order_id=1).id
        assert self.new() == [id]
        with pytest.raises(UnsupportedConnection, match=r"expected django\.db\.connection"):
            send.using(conn=cache).enqueue(order_id=1)

    def test_atomic(self) -> None:
        """The job is there when the block has committed, and not before."""
        with transaction.atomic():
            id = order()
            if POSTGRESQL:  # SQLite's reader is in no other's way, but sees the same
                assert self.new() == []
        assert self.new() == [id]

    def test_rollback(self) -> None:
        """Nothing is left of one job or of many, nor of the order."""
        count = orders()
        with suppress(ValueError), transaction.atomic():
            order()
            app.enqueue_many((send.job(order_id=n) for n in range(300)), conn=connection)
            raise ValueError("refused")
        assert (self.new(), orders()) == ([], count)

    def test_an_inner_rollback(self) -> None:
        """Nested blocks are savepoints: what is in them goes alone, of many jobs too."""
        with transaction.atomic():
            kept = order()
            try:
                with transaction.atomic():
                    order()
                    jobs = [send.job(order_id=n) for n in range(300)]
                    assert len(app.enqueue_many(jobs, conn=connection)) == 300
                    raise ValueError
            except ValueError:
                pass
            last = order()
        assert self.new() == [kept, last]

    def test_a_failing_statement(self) -> None:
        """It is Django's error; in a block that has failed, jobs are refused like queries."""
        with transaction.atomic():
            with suppress(DatabaseError), transaction.atomic(savepoint=False):
                connection.cursor().execute("SELECT nonsense FROM nowhere")
            with pytest.raises(TransactionManagementError):
                send.using(conn=connection).enqueue(order_id=1)
        assert self.new() == []

    def test_a_rule(self) -> None:
        """What is asked of the database before it is written comes back as from any driver."""
        by_key = deliver.using(conn=connection, key="note")
        with transaction.atomic():
            first = by_key.enqueue("Create", "a")
            second = by_key.enqueue("Update", "b")
        assert second.how == "merged"
        args = {job.id: job.args for job in app.jobs(task="deliver")}
        assert args[second.id] == {"type": "Create", "object": "b"}
        assert first.id != second.id

    def test_many(self) -> None:
        """Without a transaction, all of a call are written in one."""

        def some() -> Any:
            for n in range(1_000):
                yield send.job(order_id=n)
                if n == 700:
                    raise ValueError("refused")

        with pytest.raises(ValueError, match="refused"):
            app.enqueue_many(some(), conn=connection)
        assert self.new() == []
        written = app.enqueue_many((send.job(order_id=n) for n in range(1_000)), conn=connection)
        assert self.new() == written

    def test_another_alias(self) -> None:
        """It is in the transaction of the connection that was given, and in no other."""
        with suppress(ValueError), transaction.atomic(using="other"):
            id = send.using(conn=connections["default"]).enqueue(order_id=1).id
            if POSTGRESQL:  # SQLite has one writer
                send.using(conn=connections["other"]).enqueue(order_id=2)
            raise ValueError("refused")
        assert self.new() == [id]

    def test_another_thread(self) -> None:
        """A connection is refused there, as Django does."""
        held, raised = connections["default"], []
        held.ensure_connection()

        def elsewhere() -> None:
            try:
                send.using(conn=held).enqueue(order_id=1)
            except DatabaseError as error:
                raised.append(str(error))

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert "created in a thread can only be used in that same thread" in raised[0]

    def test_a_database_without_tables(self) -> None:
        """It is told as of any driver, and another kind of database too."""
        elsewhere: Mutirao = app if not POSTGRESQL else Mutirao("sqlite:///nowhere.db")
        with pytest.raises(SchemaMissing):
            elsewhere.submit(NewJob(task="send"), connections["empty"])
        if POSTGRESQL:
            with pytest.raises(UnsupportedConnection, match="a connection to SQLite, but this"):
                send.using(conn=connections["empty"]).enqueue(order_id=1)

    def test_a_coroutine(self) -> None:
        """Django has no asynchronous connection; the error says what to call."""
        with pytest.raises(UnsupportedConnection, match="is synchronous: use `enqueue`"):
            app._portal.call(send.using(conn=connection).aenqueue, 1)


class InATest(TestCase):  # type: ignore[misc]
    """Whose transaction is never committed."""

    databases = {"default"}  # noqa: RUF012

    def test_it_is_seen_here(self) -> None:
        """By the test's own connection, and by nobody else."""
        with connection.cursor() as cursor:
            id = order()
            cursor.execute("SELECT task FROM mutirao_jobs WHERE id = %s", [id])
            assert cursor.fetchall() == [("send",)]
        assert id not in ids()

    def test_the_log_of_queries(self) -> None:
        """Ours are in it: one for a job; for many all, and the bulk of them once."""
        with CaptureQueriesContext(connection) as queries:
            send.using(conn=connection).enqueue(order_id=1)
        assert any("mutirao_" in each["sql"] for each in queries)
        with CaptureQueriesContext(connection) as queries:
            app.enqueue_many((send.job(order_id=n) for n in range(300)), conn=connection)
        written = "COPY" if POSTGRESQL else "INSERT INTO"
        assert any(written in each["sql"] for each in queries)

    def test_execute_wrappers(self) -> None:
        """They are asked, and may refuse."""

        def refuse(*_: object) -> None:
            raise ProgrammingError("no queries here")

        with connection.execute_wrapper(refuse), pytest.raises(ProgrammingError, match="no qu"):
            send.using(conn=connection).enqueue(order_id=1)

    def test_another_database(self) -> None:
        """The guard of those that a test has not named is kept."""
        with pytest.raises(AssertionError, match="'other' are not allowed"):
            send.using(conn=connections["other"]).enqueue(order_id=1)


class Draining(TestCase):  # type: ignore[misc]
    """`drain` on the test's own connection: everything is rolled back at the end."""

    databases = {"default"}  # noqa: RUF012

    @classmethod
    def tearDownClass(cls) -> None:
        """Nothing is left of any test."""
        super().tearDownClass()
        assert not Order.objects.filter(item__startswith="drained").exists()
        assert app.jobs(task="note") == []

    def test_handlers_use_the_orm(self) -> None:
        """A handler's effects are there, and so is what it enqueues, with a conn and without."""
        note.using(conn=connection).enqueue("drained 1", 2)
        assert drain(app, conn=connections["default"], queues=["tested"]) == {"succeeded": 3}
        items = Order.objects.filter(item__startswith="drained").order_by("item")
        assert [each.item for each in items] == ["drained 1", "drained 11", "drained 111"]
        with connection.cursor() as cursor:
            cursor.execute("SELECT state, count(*) FROM mutirao_jobs GROUP BY state")
            assert ("succeeded", 3) in cursor.fetchall()

    def test_a_coroutine_s_transaction(self) -> None:
        """It is a savepoint in the test's transaction."""
        anote.using(conn=connection).enqueue("drained by a coroutine")
        assert drain(app, conn=connection, queues=["tested"]) == {"succeeded": 1}
        assert Order.objects.filter(item="drained by a coroutine").count() == 1

    def test_failing_handlers(self) -> None:
        """Whatever they leave of the transaction, the test goes on."""
        for how in ("statement", "atomic", "raise"):
            fail.using(conn=connection).enqueue(how)
        assert drain(app, conn=connection, queues=["tested"]) == {"dead": 3}
        assert Order.objects.filter(item__startswith="drained").count() == 1
        with connection.cursor() as cursor:
            cursor.execute("SELECT error_type FROM mutirao_attempts ORDER BY job")
            found = [name for (name,) in cursor.fetchall()][-3:]
        assert found[1:] == ["ValueError", "ValueError"]

    def test_without_a_transaction(self) -> None:
        """The guard of databases is kept."""
        with pytest.raises(AssertionError, match="'other' are not allowed"):
            drain(app, conn=connections["other"])


class Inline(TestCase):  # type: ignore[misc]
    """A job that runs as it is enqueued, in the test's own thread."""

    databases = {"default"}  # noqa: RUF012

    def test_the_hook_leaves_the_test_s_connection(self) -> None:
        """It is in a transaction."""
        with inline(app):
            note.enqueue("drained inline", 0)
        assert Order.objects.filter(item="drained inline").exists()


class Closing(TransactionTestCase):  # type: ignore[misc]
    """What the hook is for, and what it must not do."""

    databases = {"default"}  # noqa: RUF012

    def test_a_connection_too_old_is_closed(self) -> None:
        """By the hook, before the handler."""
        connection.ensure_connection()
        before = connection.connection
        connection.close_at = 0
        with inline(app):
            note.enqueue("drained later", 0)
        assert connection.connection is not before
        Order.objects.filter(item="drained later").delete()

    def test_whoever_closes_the_borrowed_one_is_told(self) -> None:
        """In one sentence, with what to do."""
        found = pytest.raises(WrongState, match=r"has closed the connection.*in_atomic_block")
        with found, transaction.atomic():
            close.using(conn=connection).enqueue()
            drain(app, conn=connection, queues=["tested"])


class DrainingOutside(TransactionTestCase):  # type: ignore[misc]
    """Without a transaction there is nothing to drain in."""

    databases = {"default"}  # noqa: RUF012

    def test_it_is_refused(self) -> None:
        """Unless the test begins one."""
        with pytest.raises(WrongState, match=r"within|atomic"):
            drain(app, conn=connection, queues=["tested"])
        with suppress(ValueError), transaction.atomic():
            note.using(conn=connection).enqueue("drained", 0)
            assert drain(app, conn=connection, queues=["tested"]) == {"succeeded": 1}
            raise ValueError
        assert not Order.objects.filter(item="drained").exists()


class WithoutADatabase(SimpleTestCase):  # type: ignore[misc]
    """Which forbids queries."""

    def test_it_is_forbidden(self) -> None:
        """Whether the connection is open or not."""
        with pytest.raises(AssertionError, match="are not allowed"):
            send.using(conn=connections["default"]).enqueue(order_id=1)


setup_test_environment()
suite = unittest.TestSuite(
    unittest.defaultTestLoader.loadTestsFromTestCase(each)
    for each in (
        Transactions,
        InATest,
        Draining,
        Inline,
        Closing,
        DrainingOutside,
        WithoutADatabase,
    )
)
result = unittest.TextTestRunner(verbosity=2).run(suite)
app.close()
sys.exit(0 if result.wasSuccessful() else 1)
