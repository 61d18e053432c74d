"""Code around enqueueing and attempts: in order, synchronous or not, and free to refuse."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from mutirao import Cancel, Job, Mutirao, NewJob, Outcome, Retry, Snooze
from mutirao.errors import ConfigurationError, InvalidJob
from mutirao.tasks.around.middleware import (
    AsyncAttemptSteps,
    AttemptSteps,
    EnqueueManySteps,
    EnqueueSteps,
)
from tests.integration.worker.kit import ended, outcomes, working

FACES = ["enqueue", "aenqueue", "enqueue_many", "aenqueue_many"]


@pytest.fixture
def url(pg_url: str) -> str:
    """One database is enough: the engine decides what is shown here."""
    return pg_url


async def enqueue(app: Mutirao, face: str, *jobs: NewJob, conn: object | None = None) -> list[int]:
    """Enqueue through one of the four faces."""
    given = {} if conn is None else {"conn": conn}
    if face == "enqueue":
        return [app.submit(job, conn).id for job in jobs]
    if face == "aenqueue":
        return [(await app.asubmit(job, conn)).id for job in jobs]
    if face == "enqueue_many":
        return app.enqueue_many(iter(jobs), **given)
    return await app.aenqueue_many(iter(jobs), **given)


def raising_once(signal: BaseException, colour: str, when: str) -> Any:
    """Return a middleware of either colour that raises, before or after its first attempt."""
    errors = iter([signal])

    def raise_it(now: str) -> None:
        if now == when:
            for error in errors:
                raise error

    def plain(job: Job) -> AttemptSteps:
        raise_it("before")
        yield
        raise_it("after")

    async def asynchronous(job: Job) -> AsyncAttemptSteps:
        raise_it("before")
        yield
        raise_it("after")

    return plain if colour == "plain" else asynchronous


class TestAroundAttempts:
    """What happens before and after a handler runs."""

    @pytest.mark.parametrize("kind", ["coroutine", "plain"])
    async def test_the_first_is_outermost(self, app: Mutirao, kind: str) -> None:
        """Synchronous and asynchronous ones mixed, around every kind of handler."""
        said: list[str] = []

        @app.around_attempt
        def first(job: Job) -> AttemptSteps:
            said.append(f"first {job.id}")
            outcome = yield
            said.append(f"first {outcome.kind}")

        @app.around_attempt
        async def second(job: Job) -> AsyncAttemptSteps:
            await asyncio.sleep(0)
            said.append("second")
            outcome = yield
            await asyncio.sleep(0)
            said.append(f"second {outcome.kind}")

        @app.around_attempt
        def third(job: Job) -> AttemptSteps:
            said.append("third")
            outcome = yield
            said.append(f"third {outcome.kind}")

        @app.task
        async def coroutine() -> None:
            said.append("handler")

        @app.task
        def plain() -> None:
            said.append("handler")

        async with working(app):
            await ended(app, {"coroutine": coroutine, "plain": plain}[kind].enqueue().id)
        assert said == [
            *("first 1", "second", "third", "handler"),
            *("third succeeded", "second succeeded", "first succeeded"),
        ]

    async def test_they_see_how_it_went(self, app: Mutirao) -> None:
        """The outcome, error included, of every attempt; a refused one too."""
        seen: list[Outcome] = []

        @app.around_attempt
        def watch(job: Job) -> AttemptSteps:
            seen.append((yield))

        @app.task(retry=Retry.fixed(2, interval=0))
        async def failing(number: int) -> None:
            raise ValueError("no such order")

        async with working(app):
            await ended(app, failing.enqueue(7).id)
            await ended(app, app.submit(NewJob(task="failing", args="{}")).id)
        assert [(str(o.kind), o.error_type) for o in seen] == [
            ("retried", "ValueError"),
            ("dead", "ValueError"),
            ("dead", "InvalidArguments"),
        ]
        assert (seen[0].error or "").startswith("no such order\n")

    @pytest.mark.parametrize("colour", ["plain", "asynchronous"])
    @pytest.mark.parametrize("when", ["before", "after"])
    @pytest.mark.parametrize(
        ("signal", "expected"),
        [
            (ValueError("in the middle"), ["retried", "succeeded"]),
            (Snooze(0), ["snoozed", "succeeded"]),
            (Cancel("not wanted"), ["cancelled"]),
            (SystemExit(1), ["retried", "succeeded"]),
        ],
    )
    async def test_raising(
        self,
        pg_app: Mutirao,
        colour: str,
        when: str,
        signal: BaseException,
        expected: list[str],
    ) -> None:
        """Is as if the handler had raised; those around it see that, and are finished."""
        said: list[str] = []

        @pg_app.around_attempt
        def outside(job: Job) -> AttemptSteps:
            try:
                outcome = yield
                said.append(str(outcome.kind))
            finally:
                said.append("closed")

        pg_app.around_attempt(raising_once(signal, colour, when))

        @pg_app.task(retry=Retry.fixed(2, interval=0))
        async def handler() -> None:
            said.append("handler")

        async with working(pg_app):
            job = await ended(pg_app, handler.enqueue().id)
        assert outcomes(job) == expected
        ran = [["handler"] if when == "after" else [], ["handler"]]
        assert said == [
            word
            for before, outcome in zip(ran, expected, strict=False)
            for word in (*before, outcome, "closed")
        ]

    @pytest.mark.parametrize("colour", ["plain", "asynchronous"])
    async def test_cancelled_in_the_middle(self, pg_app: Mutirao, colour: str) -> None:
        """A timeout that hits a middleware while it waits is the attempt's timeout."""

        @pg_app.around_attempt
        async def slow(job: Job) -> AsyncAttemptSteps:
            if colour == "plain":
                yield
            if job.attempt == 1:
                await asyncio.Event().wait()
            if colour != "plain":
                yield

        @pg_app.task(retry=Retry.fixed(2, interval=0), timeout=0.2)
        async def handler() -> None:
            pass

        async with working(pg_app):
            job = await ended(pg_app, handler.enqueue().id)
        assert outcomes(job) == ["retried", "succeeded"]
        assert job.attempts[0].error_type == "AttemptTimeout"

    async def test_yielding_wrongly(self, pg_app: Mutirao) -> None:
        """Not at all, or twice: the attempt fails and says so."""
        yields = iter([0, 2])

        @pg_app.around_attempt
        def wrong(job: Job) -> AttemptSteps:
            for _ in range(next(yields)):
                yield

        @pg_app.around_attempt
        async def awrong(job: Job) -> AsyncAttemptSteps:
            yield
            if job.attempt == 3:
                yield

        yields = iter([0, 2, 1])

        @pg_app.task(retry=Retry.fixed(3, interval=0))
        async def handler() -> None:
            pass

        async with working(pg_app):
            job = await ended(pg_app, handler.enqueue().id)
        assert outcomes(job) == ["retried", "retried", "dead"]
        assert ["did not yield" in (a.error or "") for a in job.attempts] == [True, False, False]
        assert ["yielded twice" in (a.error or "") for a in job.attempts] == [False, True, True]
        assert {a.error_type for a in job.attempts} == {"ConfigurationError"}

    async def test_added_while_a_worker_runs(self, pg_app: Mutirao) -> None:
        """Stands for the next worker."""
        said: list[int] = []

        @pg_app.task
        async def handler() -> None:
            pass

        async with working(pg_app):
            pg_app.around_attempt(_noting(said))
            await ended(pg_app, handler.enqueue().id)
        async with working(pg_app):
            await ended(pg_app, handler.enqueue().id)
        assert said == [2]


def _noting(said: list[int]) -> Any:
    def note(job: Job) -> AttemptSteps:
        said.append(job.id)
        yield

    return note


class TestAroundEnqueues:
    """What happens before and after a job is written."""

    @pytest.mark.parametrize("face", FACES)
    async def test_the_first_is_outermost(self, app: Mutirao, face: str) -> None:
        """Each sees the job the ones around it made of it; then what it has become."""
        said: list[str] = []

        @app.around_enqueue
        def first(job: NewJob) -> EnqueueSteps:
            said.append(f"first {job.queue}")
            handle = yield replace(job, queue="a")
            said.append(f"first {handle.id} {handle.queue}")

        @app.around_enqueue
        def second(job: NewJob) -> EnqueueSteps:
            said.append(f"second {job.queue}")
            handle = yield replace(job, queue="b", metadata={"tenant": "acme"})
            said.append(f"second {handle.id} {handle.task}")

        @app.task
        async def send() -> None:
            pass

        [id] = await enqueue(app, face, send.job())
        job = await app.ajob(id)
        assert (job.queue, job.metadata) == ("b", {"tenant": "acme"})
        assert said == ["first default", "second a", "second 1 send", "first 1 b"]

    @pytest.mark.parametrize("face", FACES)
    async def test_refusing(self, app: Mutirao, face: str) -> None:
        """Raising before the yield: nothing is written, and those around it see why."""
        said: list[str] = []

        @app.around_enqueue
        def outside(job: NewJob) -> EnqueueSteps:
            try:
                yield job
            except PermissionError:
                said.append("seen")
                raise

        @app.around_enqueue
        def refusing(job: NewJob) -> EnqueueSteps:
            if job.args == '{"n":2}':
                raise PermissionError("not you")
            yield job

        @app.task
        async def send(n: int) -> None:
            pass

        with pytest.raises(PermissionError, match="not you"):
            await enqueue(app, face, send.job(2))
        assert said == ["seen"]
        with pytest.raises(PermissionError, match="not you"):
            await enqueue(app, face, send.job(1), send.job(2), send.job(3))
        together = face.endswith("many")
        assert len(await app.ajobs()) == (0 if together else 1)
        assert said == ["seen"] * (3 if together else 2)

    @pytest.mark.parametrize("face", FACES)
    async def test_what_it_makes_is_checked(self, app: Mutirao, face: str) -> None:
        """A middleware cannot write what a caller could not; it sees that it was not written."""
        said: list[str] = []

        @app.around_enqueue
        def careless(job: NewJob) -> EnqueueSteps:
            try:
                yield replace(job, priority=1_000_000)
            except InvalidJob:
                said.append("seen")
                raise

        @app.task
        async def send() -> None:
            pass

        with pytest.raises(InvalidJob, match="priority is 1000000"):
            await enqueue(app, face, send.job())
        assert said == ["seen"]
        assert await app.ajobs() == []

    @pytest.mark.parametrize("face", FACES)
    async def test_a_write_that_fails(self, app: Mutirao, face: str) -> None:
        """Every one of them sees the error, innermost first, and the caller gets it."""
        said: list[str] = []

        def seeing(name: str) -> Any:
            def middleware(job: NewJob) -> EnqueueSteps:
                try:
                    yield job
                except TypeError:
                    said.append(name)
                    raise

            return middleware

        for name in ("outer", "inner"):
            app.around_enqueue(seeing(name))

        @app.task
        async def send() -> None:
            pass

        with pytest.raises(TypeError):
            await enqueue(app, face, send.job(), conn=object())
        # Jobs of a batch are read when they are written, which is never.
        assert said == ([] if face.endswith("many") else ["inner", "outer"])

    async def test_swallowing_an_error(self, app: Mutirao) -> None:
        """Does not make it a success for the caller."""

        @app.around_enqueue
        def swallowing(job: NewJob) -> EnqueueSteps:
            try:
                yield job
            except TypeError:
                return

        @app.task
        async def send() -> None:
            pass

        wrong: Any = object()
        with pytest.raises(TypeError):
            send.using(conn=wrong).enqueue()

    async def test_raising_another_error(self, app: Mutirao) -> None:
        """That one reaches the caller, and those around it are finished all the same."""
        said: list[str] = []

        @app.around_enqueue
        def outside(job: NewJob) -> EnqueueSteps:
            try:
                yield job
            finally:
                said.append("closed")

        @app.around_enqueue
        def other(job: NewJob) -> EnqueueSteps:
            try:
                yield job
            except TypeError:
                raise LookupError("another one") from None

        @app.task
        async def send() -> None:
            pass

        wrong: Any = object()
        with pytest.raises(LookupError, match="another one"):
            send.using(conn=wrong).enqueue()
        assert said == ["closed"]

    async def test_yielding_wrongly(self, app: Mutirao) -> None:
        """Not at all is an error before anything is written."""

        @app.around_enqueue
        def never(job: NewJob) -> EnqueueSteps:
            if job.queue == "never":
                yield job

        @app.task
        async def send() -> None:
            pass

        with pytest.raises(ConfigurationError, match="did not yield"):
            send.enqueue()
        assert await app.ajobs() == []

    async def test_raising_afterwards(self, app: Mutirao) -> None:
        """The job is there, all the others are told so, and the caller gets the error."""
        said: list[int] = []

        @app.around_enqueue
        def outside(job: NewJob) -> EnqueueSteps:
            said.append((yield job).id)

        @app.around_enqueue
        def raising(job: NewJob) -> EnqueueSteps:
            yield job
            raise LookupError("too late")

        @app.task
        async def send() -> None:
            pass

        with pytest.raises(LookupError, match="too late"):
            send.enqueue()
        assert said == [1]
        assert len(await app.ajobs()) == 1

    async def test_what_handlers_enqueue(self, app: Mutirao) -> None:
        """Goes through it too."""
        seen: list[str] = []

        @app.around_enqueue
        def watch(job: NewJob) -> EnqueueSteps:
            seen.append(job.task)
            yield job

        @app.task
        async def child() -> None:
            pass

        @app.task
        async def parent(job: Job) -> None:
            async with job.transaction() as session:
                await child.using(conn=session).aenqueue()

        async with working(app):
            await ended(app, parent.enqueue().id)
            await ended(app, 2)
        assert seen == ["parent", "child"]


class TestAroundCallsOfMany:
    """What happens before and after a call that enqueues many jobs."""

    @pytest.mark.parametrize("face", ["enqueue_many", "aenqueue_many"])
    async def test_it_stands_outside_of_each_job(self, app: Mutirao, face: str) -> None:
        """The first is outermost; one job alone is no such call."""
        said: list[str] = []

        def saying(name: str) -> Any:
            def around() -> EnqueueManySteps:
                said.append(f"{name} begins")
                yield
                said.append(f"{name} ends")

            return around

        app.around_enqueue_many(saying("first"))
        app.around_enqueue_many(saying("second"))

        @app.around_enqueue
        def each(job: NewJob) -> EnqueueSteps:
            handle = yield job
            said.append(str(handle.id))

        @app.task
        async def send() -> None:
            pass

        ids = await enqueue(app, face, send.job(), send.job())
        inside = ["first begins", "second begins", *map(str, ids), "second ends", "first ends"]
        assert said == inside
        [alone] = await enqueue(app, "enqueue", send.job())
        assert said == [*inside, str(alone)]

    async def test_an_error_is_seen_and_not_swallowed(self, app: Mutirao) -> None:
        """Of a job that does not fit; and one that does not yield once is an error itself."""
        seen: list[BaseException] = []

        @app.around_enqueue_many
        def swallowing() -> EnqueueManySteps:
            try:
                yield
            except InvalidJob as error:
                seen.append(error)

        @app.task
        async def send() -> None:
            pass

        with pytest.raises(InvalidJob) as refused:
            app.enqueue_many([send.job(), replace(send.job(), priority=10**6)])
        assert seen == [refused.value]
        assert await app.ajobs() == []

        @app.around_enqueue_many
        def never() -> EnqueueManySteps:
            yield from ()

        with pytest.raises(ConfigurationError, match="did not yield"):
            await app.aenqueue_many([send.job()])
