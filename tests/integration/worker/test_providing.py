"""What handlers are given by annotation: made and torn down for each attempt, where it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest

from mutirao import PROVIDED, DeadJob, Job, JobState, Limit, Mutirao, NewJob, Retry
from mutirao.errors import ConfigurationError, InvalidArguments, InvalidTask
from mutirao.testing import capture, drain, inline
from tests.integration.worker import factories, provided
from tests.integration.worker.kit import ended, outcomes, until_state, working

WHERE = [provided.in_thread, provided.in_process, provided.in_loop]


@dataclass
class Engine:
    """What a session needs."""


@dataclass
class Session:
    """What handlers need."""

    name: str = "primary"


Replica = Annotated[Session, "replica"]


@pytest.fixture
def url(pg_url: str) -> str:
    """One database is enough: the engine decides what is shown here."""
    return pg_url


def said_in(path: Path) -> list[list[str]]:
    """Return who said what: process, thread, words."""
    return [line.split(maxsplit=2) for line in path.read_text().splitlines()]


class TestProviding:
    """In each place where handlers run."""

    @pytest.mark.parametrize("task", WHERE, ids=["thread", "process", "loop"])
    async def test_each_attempt_has_its_own(self, app: Mutirao, tmp_path: Path, task: Any) -> None:
        """In one thread, each made once, and torn down in reverse, also after an error."""
        assert factories.open_notes.__module__  # registered
        path = tmp_path / "said"
        app.register(task)
        async with working(app, concurrency=1):
            job = await ended(app, app.submit(task.job(str(path), fails=True)).id)
        assert outcomes(job) == ["retried", "succeeded"]
        assert (job.attempts[0].error or "").startswith("itself\n")
        assert [what for _, _, what in said_in(path)] == [
            *("opened 1", "begun 1", "handler 1", "rolled-back 1"),
            *("opened 2", "begun 2", "handler 2", "committed 2", "closed 2"),
        ]
        for attempt in ("1", "2"):
            here = {(pid, thread) for pid, thread, what in said_in(path) if what[-1] == attempt}
            assert len(here) == 1

    @pytest.mark.parametrize("ends", ["timeout", "cancel"])
    async def test_torn_down_when_interrupted(self, app: Mutirao, ends: str) -> None:
        """A coroutine that is cancelled, by its timeout or by a person."""
        said: list[str] = []

        @app.provide
        async def open_engine() -> AsyncIterator[Engine]:
            try:
                yield Engine()
            finally:
                await asyncio.sleep(0)
                said.append("engine")

        @app.provide
        def open_session(engine: Engine) -> Iterator[Session]:
            try:
                yield Session()
            except asyncio.CancelledError:
                said.append("session")

        @app.task(retry=Retry.never(), timeout=0.05 if ends == "timeout" else None)
        async def handler(*, session: Session = PROVIDED) -> None:
            await asyncio.Event().wait()

        async with working(app, heartbeat=0.1):
            id = handler.enqueue().id
            if ends == "cancel":
                await until_state(app, id, JobState.RUNNING)
                await app.acancel(id)
            job = await ended(app, id)
        assert said == ["session", "engine"]
        assert outcomes(job) == ["dead" if ends == "timeout" else "cancelled"]

    async def test_of_every_form(self, app: Mutirao) -> None:
        """Functions and coroutines too, by `Annotated`, to a handler and to one of its death."""
        got: list[Any] = []

        @app.provide
        def primary() -> Session:
            return Session()

        @app.provide
        async def replica(session: Session) -> Replica:
            await asyncio.sleep(0)
            return Session(f"replica of {session.name}")

        @app.task(retry=Retry.never())
        async def handler(job: Job, first: Session, order_id: int, second: Replica) -> None:
            got.extend((job.id, first, order_id, second))
            raise ValueError

        @handler.on_dead
        def bury(session: Session, dead: DeadJob) -> None:
            got.extend((session, dead.id))

        submitted: Any = handler.enqueue
        async with working(app, concurrency=1):
            id = submitted(order_id=7).id
            await ended(app, id)
            await ended(app, id + 1)
        primary_one = Session()
        assert got == [id, primary_one, 7, Session("replica of primary"), primary_one, id]

    async def test_what_fails(self, app: Mutirao) -> None:
        """Fails the attempt with its own error: a factory, its teardown, one that yields twice."""

        @app.provide
        def session(job: Job) -> Iterator[Session]:
            if job.attempt == 1:
                raise OSError("no connection")
            yield Session()
            if job.attempt == 2:
                raise OSError("connection lost")
            if job.attempt == 3:
                yield Session()

        @app.task(retry=Retry.fixed(4, interval=0))
        def handler(*, session: Session = PROVIDED) -> None:
            pass

        async with working(app, concurrency=1):
            job = await ended(app, handler.enqueue().id)
        assert outcomes(job) == ["retried", "retried", "retried", "succeeded"]
        errors = [(each.error or "").split("\n")[0] for each in job.attempts[:3]]
        assert errors[:2] == ["no connection", "connection lost"]
        assert "session" in errors[2]
        assert "yielded twice" in errors[2]

    async def test_no_argument(self, app: Mutirao) -> None:
        """Neither a caller nor a row can give it."""

        @app.provide
        def session() -> Session:
            return Session()

        @app.task(findable=True)
        def handler(order_id: int, session: Session) -> None:
            pass

        wrong: Any = handler.enqueue
        with pytest.raises(InvalidArguments, match=r"its signature is handler\(order_id: "):
            wrong(7, session=Session("mine"))
        stored = NewJob(task="handler", args='{"order_id": 7, "session": {"name": "mine"}}')
        async with working(app):
            job = await ended(app, app.submit(stored).id)
        assert [each.error_type for each in job.attempts] == ["InvalidArguments"]

    @pytest.mark.parametrize("way", ["inline", "drain"])
    def test_in_tests(self, app: Mutirao, way: str) -> None:
        """Tests provide like workers, and compare captured jobs by their arguments."""
        got: list[Any] = []

        @app.provide
        def session() -> Iterator[Session]:
            yield Session()
            got.append("closed")

        @app.task
        def plain(n: int, *, session: Session = PROVIDED) -> None:
            got.append((n, session))

        @app.task
        async def coroutine(n: int, *, session: Session = PROVIDED) -> None:
            got.append((n, session))

        with inline(app) if way == "inline" else capture(app) as jobs:
            plain.enqueue(1)
            coroutine.enqueue(2)
            if way == "drain":
                drain(app)
            jobs.assert_enqueued(plain, n=1)
        assert got == [(1, Session()), "closed", (2, Session()), "closed"]

    def test_a_direct_call(self, app: Mutirao) -> None:
        """Is given it like any argument."""

        @app.task
        def handler(n: int, *, session: Session = PROVIDED) -> str:
            return f"{n} {session.name}"

        assert handler(7, session=Session("mine")) == "7 mine"
        with pytest.raises(TypeError, match="handler is provided with session where it runs"):
            handler(7)


class TestRefusals:
    """By name, where it is registered or when a worker starts."""

    async def started(self, app: Mutirao) -> None:
        """Start a worker."""
        async with working(app):
            pass

    async def test_what_is_missing(self, app: Mutirao) -> None:
        """For a handler, and for a factory."""

        @app.task
        async def handler(*, session: Session = PROVIDED) -> None: ...

        with pytest.raises(InvalidTask, match=r"'handler': parameter 'session' .* Session; reg"):
            await self.started(app)

        @app.provide
        def session(engine: Engine) -> Session:
            return Session()

        with pytest.raises(InvalidTask, match=r"'handler': parameter 'engine' of .*Engine"):
            await self.started(app)

    async def test_a_circle(self, app: Mutirao) -> None:
        """Is shown."""

        @app.provide
        def engine(session: Session) -> Engine:
            return Engine()

        @app.provide
        def session(engine: Engine) -> Session:
            return Session()

        @app.task
        def handler(*, session: Session = PROVIDED) -> None: ...

        with pytest.raises(InvalidTask, match="in a circle: Session → Engine → Session"):
            await self.started(app)

    async def test_asynchronous_for_a_plain_function(self, app: Mutirao) -> None:
        """There is no loop in its thread."""

        @app.provide
        async def engine() -> Engine:
            return Engine()

        @app.provide
        def session(engine: Engine) -> Session:
            return Session()

        @app.task
        def handler(*, session: Session = PROVIDED) -> None: ...

        with pytest.raises(InvalidTask, match=r"'handler': the factory .*engine is asynchronous"):
            await self.started(app)

    async def test_a_factory_that_no_process_finds(self, app: Mutirao) -> None:
        """Is refused like such a hook."""
        tasks = Mutirao("sqlite:///never-opened.db")

        @tasks.provide
        def hidden() -> provided.Session:
            raise AssertionError

        task: Any = tasks.task(process=True)(provided.in_process.function)
        app.register(task)
        with pytest.raises(ConfigurationError, match=r"hidden stands around .* module level"):
            await self.started(app)

    def test_two_for_a_type(self, app: Mutirao) -> None:
        """Names both."""

        def first() -> Session:
            return Session()

        app.provide(first)
        with pytest.raises(ConfigurationError, match=r"second and .*first provide Session"):

            @app.provide
            def second() -> Session:
                return Session()

    def test_too_late(self, app: Mutirao) -> None:
        """A task that was used before takes it as an argument; with PROVIDED it does not matter."""

        @app.task
        def early(session: Session) -> None: ...

        @app.task
        def marked(*, engine: Engine = PROVIDED) -> None: ...

        early.job(Session())
        marked.job()
        with pytest.raises(ConfigurationError, match="which task 'early' takes as an argument"):

            @app.provide
            def session() -> Session:
                return Session()

        @app.provide
        def engine() -> Engine:
            return Engine()

    def test_what_is_no_factory(self, app: Mutirao) -> None:
        """It must say what it provides, and what it takes."""

        def nothing():  # type: ignore[no-untyped-def]
            pass

        def none() -> None:
            pass

        def yields() -> Session:  # type: ignore[misc]
            yield Session()

        def job() -> Job:
            raise AssertionError

        def unannotated(engine) -> Session:  # type: ignore[no-untyped-def]
            return Session()

        def unknown() -> Nowhere:  # type: ignore[name-defined]  # noqa: F821
            pass

        @contextmanager
        def manager() -> Iterator[Session]:
            yield Session()

        cases: dict[Any, str] = {
            nothing: "annotate the type that it provides, as in -> Session",
            none: "provides NoneType; annotate",
            yields: "as in -> Iterator",
            job: "provides Job; annotate",
            unannotated: "parameter 'engine' of the factory",
            unknown: "cannot be resolved",
            manager: "without @contextmanager",
            Session: "give a function",
        }
        for wrong, why in cases.items():
            with pytest.raises(ConfigurationError, match=why):
                app.provide(wrong)

    def test_parameters_that_cannot_be_given(self, app: Mutirao) -> None:
        """What is provided goes by name, cannot be given by callers, and tells no jobs apart."""

        @app.provide
        def session() -> Session:
            return Session()

        def by_place(session: Session, /) -> None: ...

        def before_others(session: Session, *numbers: int) -> None: ...

        def any_name(*, session: Session, **numbers: int) -> None: ...

        for function, why in (
            (by_place, "put it behind a `*`"),
            (before_others, "put it behind a `*`"),
            (any_name, "instead of the"),
        ):
            with pytest.raises(InvalidTask, match=why):
                app.task(function).signature.check()
        with pytest.raises(InvalidTask, match="is no argument of it"):

            @app.task(name="limited", limit=Limit(1, by="session"))
            def limited(session: Session) -> None: ...
