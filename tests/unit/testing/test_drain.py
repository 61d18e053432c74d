"""`drain` and `adrain`: what is due runs, as in a worker, until nothing is left."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from datetime import timedelta
from typing import Any

import pytest

from mutirao import Job, JobState, Mutirao, NewJob, Outcome, OutcomeKind, Retry
from mutirao.errors import SchemaMissing, WrongState
from mutirao.testing import adrain, capture, drain
from tests.support.waiting import soon
from tests.unit.testing.shop import Shop

pytestmark = pytest.mark.repeats("postgresql", "mysql", decided="tests/conformance")

OK, DEAD, RETRIED = OutcomeKind.SUCCEEDED, OutcomeKind.DEAD, OutcomeKind.RETRIED


class TestOnADatabase:
    """The application's own store."""

    def test_nothing_to_do(self, real_shop: Shop) -> None:
        """Counts nothing, and leaves no worker behind."""
        assert drain(real_shop.app) == {}

    def test_what_is_due_runs(self, real_shop: Shop) -> None:
        """Functions and coroutines, in the order of lanes; what they enqueue too."""
        shop = real_shop

        def parent() -> None:
            shop.send.enqueue(3)

        shop.task(parent).enqueue()
        shop.send.using(priority=-1).enqueue(1)
        shop.send.enqueue(2)
        shop.send.using(delay=3_600).enqueue(4)
        assert drain(shop.app) == {OK: 4}
        assert [order for _, order, _ in shop.done] == [1, 2, 3]
        left = shop.app.jobs(state=JobState.SCHEDULED)
        assert [job.args for job in left] == [{"order_id": 4}]
        assert len(shop.app.jobs(state=JobState.SUCCEEDED)) == 4

    async def test_from_a_coroutine(self, real_shop: Shop) -> None:
        """The same, awaited; history is written."""
        handle = await real_shop.send.aenqueue(7)
        assert await adrain(real_shop.app) == {OK: 1}
        record = await real_shop.app.ajob(handle.id)
        assert (record.state, record.attempt) == (JobState.SUCCEEDED, 1)
        assert await real_shop.app.store.workers() == []
        await real_shop.app.aclose()

    async def test_interrupted_ahead_of_time(self, real_shop: Shop) -> None:
        """What was not due yet waits again, and is nobody's."""
        began = asyncio.Event()

        async def last() -> None:
            began.set()
            await asyncio.Event().wait()

        handle = await real_shop.task(last).using(delay=timedelta(days=7)).aenqueue()
        draining = asyncio.create_task(adrain(real_shop.app, with_scheduled=True))
        await soon(began.wait())
        draining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await draining
        assert (await real_shop.app.ajob(handle.id)).state is JobState.SCHEDULED
        await real_shop.app.aclose()

    def test_scheduled_jobs_and_retries(self, real_shop: Shop) -> None:
        """Are left for later, unless they are asked for: then nothing is waited for."""
        shop, buried = real_shop, real_shop.bury()
        handle = shop.fail.enqueue()
        shop.send.using(delay=timedelta(days=7)).enqueue(1)
        assert drain(shop.app) == {RETRIED: 1}
        assert drain(shop.app) == {}
        assert drain(shop.app, with_scheduled=True) == {OK: 2, RETRIED: 1, DEAD: 1}
        record = shop.app.job(handle.id)
        assert [each.outcome for each in record.attempts] == [RETRIED, RETRIED, DEAD]
        assert [dead.id for dead in buried] == [handle.id]
        assert shop.done.count(("send", 1, "thanks")) == 1

    def test_a_transaction_completes_its_job(self, real_shop: Shop) -> None:
        """And is counted like any other success."""
        shop = real_shop

        def handler(job: Job) -> None:
            with job.transaction() as session:
                shop.send.using(conn=session).enqueue(1)

        handle = shop.task(handler).enqueue()
        assert drain(shop.app) == {OK: 2}
        assert len(shop.app.job(handle.id).attempts) == 1

    def test_tasks_of_others_are_left(self, real_shop: Shop) -> None:
        """Jobs this application has no task for stay as they are, and hide no others."""
        shop = real_shop
        [strange] = shop.app.enqueue_many([NewJob(task="of another version", queue="mail")])
        shop.send.enqueue(1)
        assert drain(shop.app) == {OK: 1}
        record = shop.app.job(strange)
        assert (record.state, record.attempt) == (JobState.READY, 0)

    def test_without_tables(self, sqlite_url: str) -> None:
        """Says which command to run, as everything does."""
        other = Shop(Mutirao(sqlite_url))
        with pytest.raises(SchemaMissing, match="mutirao migrate"):
            drain(other.app)


class TestInMemory:
    """What does not depend on the store."""

    def test_errors_are_outcomes(self, shop: Shop) -> None:
        """Nothing is raised; the counts and the history tell."""
        with capture(shop.app) as jobs:
            for how in ("error", "dead", "snooze"):
                shop.fail.enqueue(how)
            assert drain(shop.app) == {RETRIED: 1, DEAD: 1, OutcomeKind.SNOOZED: 1}
        assert [job.state for job in jobs] == [
            JobState.SCHEDULED, JobState.DEAD, JobState.SCHEDULED,
        ]  # fmt: skip

    def test_only_some_queues(self, shop: Shop) -> None:
        """The others wait."""
        with capture(shop.app) as jobs:
            shop.send.enqueue(1)
            shop.resize.enqueue("a.png")
            assert drain(shop.app, queues=["mail"]) == {OK: 1}
            assert jobs.of(shop.resize)[0].state == JobState.READY

    def test_a_limit(self, shop: Shop) -> None:
        """A job that comes back for ever is given back, and named."""
        with capture(shop.app) as jobs:
            shop.fail.using(max_attempts=100).enqueue("at once")
            with pytest.raises(WrongState, match=r"5 attempts were made .* one of 'fail'"):
                drain(shop.app, limit=5)
            assert (jobs[0].state, jobs[0].attempt) == (JobState.READY, 5)
            assert drain(shop.app, limit=95) == {RETRIED: 94, DEAD: 1}

    def test_side_by_side(self, shop: Shop) -> None:
        """With a higher concurrency handlers meet."""
        meeting = threading.Barrier(3)

        def meet() -> None:
            meeting.wait(100)

        task = shop.task(meet, retry=Retry.never())
        with capture(shop.app):
            shop.app.enqueue_many(task.job() for _ in range(6))
            assert drain(shop.app, concurrency=3) == {OK: 6}

    def test_timeouts(self, shop: Shop) -> None:
        """Count as in a worker; a stuck thread does not keep the rest from running."""
        release = threading.Event()

        def hang() -> None:
            release.wait(100)

        task = shop.task(hang, timeout=0.01, retry=Retry.never())
        with capture(shop.app) as jobs:
            task.enqueue()
            shop.send.enqueue(1)
            assert drain(shop.app) == {DEAD: 1, OK: 1}
            assert jobs.of(task)[0].error_type == "AttemptTimeout"
        release.set()

    def test_middleware(self, shop: Shop) -> None:
        """Goes around these attempts too."""
        seen: list[Any] = []

        @shop.app.around_attempt
        def watch(job: Job) -> Generator[None, Outcome, None]:
            outcome = yield
            seen.append((job.task, outcome.kind))

        with capture(shop.app):
            shop.resize.enqueue("a.png")
            drain(shop.app)
        assert seen == [("resize", OK)]

    async def test_the_plain_form_in_a_loop(self, shop: Shop) -> None:
        """Is refused, with what to write instead."""
        with capture(shop.app), pytest.raises(WrongState, match=r"await adrain\(app\)"):
            drain(shop.app)
