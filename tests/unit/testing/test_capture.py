"""`capture`: jobs are kept and not run, and asserted about."""

from __future__ import annotations

import re
import sqlite3
from datetime import UTC, datetime, timedelta, timezone

import pytest

from mutirao import JobState, OutcomeKind
from mutirao.errors import InvalidArguments
from mutirao.testing import adrain, capture, drain
from tests.unit.testing.shop import Address, Shop

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_jobs_are_kept_and_not_run(shop: Shop) -> None:
    """Through every way in, in order; nothing runs and no database is touched."""
    with capture(shop.app) as jobs:
        assert len(jobs) == 0
        shop.send.enqueue(7)
        shop.resize.using(queue="bulk", priority=3).enqueue("a.png")
        shop.app.enqueue_many([shop.send.job(8), shop.send.job(9, note="x")])
        assert [(job.task, job.queue) for job in jobs] == [
            ("send", "mail"), ("resize", "bulk"), ("send", "mail"), ("send", "mail"),
        ]  # fmt: skip
        assert [job.args for job in jobs[2:]] == [{"order_id": 8}, {"order_id": 9, "note": "x"}]
        assert (jobs[1].priority, jobs[1].state) == (3, JobState.READY)
    assert shop.done == []


async def test_coroutines_are_captured_too(shop: Shop) -> None:
    """Through `aenqueue` and `aenqueue_many`, and the application answers from memory."""
    with capture(shop.app) as jobs:
        handle = await shop.send.aenqueue(7)
        await shop.app.aenqueue_many([shop.send.job(8)])
        assert [job.id for job in jobs] == [handle.id, handle.id + 1]
        assert (await shop.app.ajob(handle.id)).args == {"order_id": 7}


def test_any_connection_will_do(shop: Shop) -> None:
    """The job is there at once, whatever becomes of the transaction."""
    connection = sqlite3.connect(":memory:")
    with capture(shop.app) as jobs:
        shop.send.using(conn=connection).enqueue(7)
        connection.rollback()
        assert len(jobs) == 1
    connection.close()


def test_calls_are_checked_as_ever(shop: Shop) -> None:
    """What the real store would not be given is refused here too."""
    with capture(shop.app) as jobs, pytest.raises(InvalidArguments):
        shop.send.enqueue("seven")  # type: ignore[arg-type]
    assert len(jobs) == 0


def test_the_store_is_put_back(shop: Shop) -> None:
    """After the block, also when that failed, and after a block in a block."""
    own = shop.app.store
    with capture(shop.app) as outer:
        with capture(shop.app) as inner:
            shop.send.enqueue(1)
        shop.send.enqueue(2)
    assert [len(inner), len(outer)] == [1, 1]
    with pytest.raises(ZeroDivisionError), capture(shop.app):
        raise ZeroDivisionError
    assert shop.app.store is own


class TestAsserting:
    """What a test says about the jobs."""

    def test_with_some_of_the_arguments(self, shop: Shop) -> None:
        """Those that are given are compared; none is any call. The first job is returned."""
        with capture(shop.app) as jobs:
            shop.send.enqueue(7)
            shop.send.enqueue(8, note="x")
        assert jobs.assert_enqueued(shop.send).args == {"order_id": 7}
        assert jobs.assert_enqueued(shop.send, order_id=8).args["note"] == "x"
        assert jobs.assert_enqueued(shop.send, note="x", order_id=8).id == jobs[1].id
        assert jobs.of(shop.send) == list(jobs)
        assert jobs.of(shop.send, note="x") == [jobs[1]]
        assert jobs.of(shop.resize) == []

    def test_defaults_count(self, shop: Shop) -> None:
        """The handler gets them, so the job has them."""
        with capture(shop.app) as jobs:
            shop.resize.enqueue("a.png")
        jobs.assert_enqueued(shop.resize, path="a.png", width=800)
        jobs.assert_not_enqueued(shop.resize, width=200)

    def test_values_are_those_the_handler_gets(self, shop: Shop) -> None:
        """Dataclasses and moments, not their JSON; the job itself is no argument."""
        with capture(shop.app) as jobs:
            shop.ship.enqueue(Address("Rua A", 5), at=NOON)
        tokyo = NOON.astimezone(timezone(timedelta(hours=9)))
        jobs.assert_enqueued(shop.ship, to=Address("Rua A", 5), at=tokyo)
        jobs.assert_not_enqueued(shop.ship, to=Address("Rua A"))
        jobs.assert_not_enqueued(shop.ship, at=None)

    def test_without_annotations_json_is_compared(self, shop: Shop) -> None:
        """A tuple is a list there."""

        def loose(pairs, *more, **named):  # type: ignore[no-untyped-def]
            raise AssertionError("not run")

        task = shop.task(loose)
        with capture(shop.app) as jobs:
            task.enqueue(((1, 2), (3, 4)), "x", "y", key=NOON)
        jobs.assert_enqueued(task, pairs=((1, 2), (3, 4)), more=("x", "y"), named={"key": NOON})
        jobs.assert_not_enqueued(task, pairs=((1, 2),))

    def test_what_was_not_there(self, shop: Shop) -> None:
        """The message lists what was."""
        with capture(shop.app) as jobs:
            with pytest.raises(AssertionError, match=r"send\(\) was not enqueued; nothing was\."):
                jobs.assert_enqueued(shop.send)
            shop.send.enqueue(7)
            shop.resize.enqueue("a.png")
        listed = "send(order_id=8) was not enqueued; these were:\n  send(order_id=7)\n  resize("
        with pytest.raises(AssertionError, match=re.escape(listed)):
            jobs.assert_enqueued(shop.send, order_id=8)

    def test_what_should_not_have_been_there(self, shop: Shop) -> None:
        """Any such job is one too many."""
        with capture(shop.app) as jobs:
            jobs.assert_not_enqueued(shop.send)
            shop.send.enqueue(7)
        jobs.assert_not_enqueued(shop.send, order_id=8)
        with pytest.raises(AssertionError, match=r"send\(order_id=7\) was enqueued"):
            jobs.assert_not_enqueued(shop.send, order_id=7)

    def test_a_name_that_is_no_parameter(self, shop: Shop) -> None:
        """Is a mistake in the test, which would otherwise pass for ever."""
        with (
            capture(shop.app) as jobs,
            pytest.raises(TypeError, match="no parameter 'order'; it has order_id, note"),
        ):
            jobs.assert_not_enqueued(shop.send, order=7)


def test_captured_jobs_can_be_drained(shop: Shop) -> None:
    """They run then, and what they enqueue is captured as well."""

    def parent() -> None:
        shop.resize.enqueue("child.png")

    task = shop.task(parent)
    with capture(shop.app) as jobs:
        task.enqueue()
        assert drain(shop.app) == {OutcomeKind.SUCCEEDED: 2}
        jobs.assert_enqueued(shop.resize, path="child.png")
    assert [job.state for job in jobs] == [JobState.SUCCEEDED] * 2


async def test_draining_from_a_coroutine(shop: Shop) -> None:
    """The same, in the running loop."""
    with capture(shop.app):
        await shop.send.aenqueue(7)
        assert await adrain(shop.app) == {OutcomeKind.SUCCEEDED: 1}
    assert shop.done == [("send", 7, "thanks")]
