"""Tasks that were written for Celery, without it: calls, retries, canvas, and refusals."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, create_engine

import mutirao.integrations.celery as package
from mutirao import JobState, Mutirao, OutcomeKind
from mutirao.errors import (
    ConfigurationError,
    InvalidJob,
    JobDied,
    ResultMissing,
    UnknownJob,
    UnknownTask,
)
from mutirao.integrations.celery import (
    AsyncResult,
    CeleryTask,
    CeleryTasks,
    GroupResult,
    Ignore,
    MaxRetriesExceededError,
    Reject,
    chain,
    chord,
    crontab,
    get_task_logger,
    group,
)
from mutirao.integrations.celery.celery_task import _NOT_OURS
from mutirao.integrations.celery.options import (
    _NOT_OF_CALL,
    _NOT_OF_TASK,
    FOREVER,
    rate,
    task_options,
)
from mutirao.integrations.celery.refusing import PAGE
from mutirao.model.jobs.expiry import EXPIRES_KEY
from mutirao.testing import drain

FAR = datetime(2031, 1, 2, tzinfo=UTC)


@pytest.fixture
def app(lite_url: str) -> Iterator[Mutirao]:
    """An application of ours."""
    app = Mutirao(lite_url)
    yield app
    app.close()


@pytest.fixture
def celery(app: Mutirao) -> CeleryTasks:
    """Tasks of Celery's kind in it, which keep what they return."""
    return CeleryTasks(app, keep_results=True)


@pytest.fixture
def add(celery: CeleryTasks) -> CeleryTask:
    """A task that adds."""

    @celery.shared_task
    def add(x: int, y: int = 0) -> int:
        return x + y

    task: CeleryTask = add
    return task


@pytest.fixture
def conn(lite_url: str) -> Iterator[Connection]:
    """A connection of the application's own."""
    engine = create_engine(lite_url)
    with engine.connect() as conn:
        yield conn
    engine.dispose()


@pytest.fixture
def total(celery: CeleryTasks) -> CeleryTask:
    """A task that sums."""

    @celery.task(name="total")
    def total(numbers: Any) -> int:
        return sum(numbers)

    task: CeleryTask = total
    return task


class TestCalls:
    """`delay` and `apply_async`."""

    def test_a_call(self, app: Mutirao, add: CeleryTask) -> None:
        """Enqueued, run, and its result read; called like a function it is one."""
        assert add.name.endswith("test_celery.add")
        found = add.delay(2, y=3)
        assert (found.status, found.ready(), found.result) == ("PENDING", False, None)
        drain(app)
        assert (found.status, found.get(timeout=60), found.successful()) == ("SUCCESS", 5, True)
        assert (add(1, 1), add.request.called_directly) == (2, True)
        assert (found.id, found.name) == (str(found), add.name)

    def test_every_option(self, app: Mutirao, celery: CeleryTasks, add: CeleryTask) -> None:
        """Each reaches the job; a bigger priority is one that runs first."""
        found = add.apply_async(
            (1,), {"y": 2}, eta=FAR, expires=FAR + timedelta(days=1), queue="slow", priority=7,
            time_limit=30, headers={"who": "ana"}, retry=True, retry_policy={"max_retries": 1},
        )  # fmt: skip
        job = found.record
        assert (job.run_at, job.queue, job.priority, job.timeout) == (FAR, "slow", -7, 30)
        assert job.expires_at == FAR + timedelta(days=1)
        assert job.args == {"x": 1, "y": 2}
        soon = add.apply_async((1,), countdown=60).record
        assert soon.state is JobState.SCHEDULED
        assert celery.send_task(add.name, (4,)).record.args == {"x": 4}
        found.revoke(terminate=True)
        assert (found.status, found.failed()) == ("REVOKED", False)
        assert celery.AsyncResult(found.id).ready()

    def test_priorities_of_redis(self, app: Mutirao) -> None:
        """There the smaller one runs first, as here."""
        tasks = CeleryTasks(app, priorities="smaller first")
        task = tasks.task(priority=3)(lambda: None)
        assert task.native.options.priority == 3
        with pytest.raises(ConfigurationError, match="give one of 'bigger first', 'smaller first'"):
            CeleryTasks(priorities="high")  # type: ignore[arg-type]

    def test_in_a_transaction(self, app: Mutirao, add: CeleryTask, conn: Connection) -> None:
        """The job is there if that commits."""
        found = add.apply_async((1,), conn=conn)
        conn.rollback()
        assert app.jobs() == []
        assert isinstance(found, AsyncResult)

    def test_what_does_not_fit(self, add: CeleryTask) -> None:
        """A call is checked when it is made, in Celery only when it runs."""
        with pytest.raises(InvalidJob):
            add.delay("one")
        with pytest.raises(TypeError):
            add.delay(z=1)

    def test_no_application(self) -> None:
        """Tasks are defined before there is one, and cannot be enqueued."""
        tasks = CeleryTasks()
        task = tasks.task(name="early")(lambda: None)
        with pytest.raises(ConfigurationError, match=r"no application"):
            task.delay()

    async def test_a_coroutine(self, celery: CeleryTasks) -> None:
        """Celery has none; here a task may be one, also with self."""
        seen = list[Any]()

        @celery.task(bind=True)
        async def work(self: CeleryTask, n: int) -> None:
            seen.append((n, self.request.retries))

        assert work.native.is_coroutine
        await work(1)
        assert seen == [(1, 0)]


class TestBound:
    """`bind=True`, and retries."""

    def test_what_it_knows(self, app: Mutirao, celery: CeleryTasks) -> None:
        """Its own request, and the task."""
        seen = list[Any]()

        @celery.task(bind=True, name="ask", max_retries=2)
        def ask(self: CeleryTask, *args: int, **kwargs: str) -> None:
            request: Any = self.request
            seen.append((request.id, request.retries, request.task, request.headers, args, kwargs))
            assert (self.name, self.max_retries) == ("ask", 2)
            assert request.delivery_info["routing_key"] == "mail"
            with pytest.raises(AttributeError, match=r"request.root_id has no .*#request"):
                _ = request.root_id
            self.progress(1, of=2)

        found = ask.apply_async((1, 2), {"a": "b"}, queue="mail", headers={"h": 1})
        drain(app)
        assert seen == [(found.id, 0, "ask", {"h": 1}, (1, 2), {"a": "b"})]
        assert found.record.progress_of == 2

    def test_retries(self, app: Mutirao, celery: CeleryTasks) -> None:
        """As often as it may; then the reason is raised, and the job is dead."""
        tries = list[int]()

        @celery.task(bind=True, max_retries=2, default_retry_delay=0)
        def work(self: CeleryTask, how: str) -> None:
            tries.append(self.request.retries)
            try:
                raise OSError("no")
            except OSError as error:
                raise self.retry(exc=error if how == "with" else None, countdown=0) from error

        found, other = work.delay("with"), work.delay("without")
        drain(app, with_scheduled=True)
        assert sorted(tries) == [0, 0, 1, 1, 2, 2]
        assert (found.status, found.record.error) == ("FAILURE", "OSError: no")
        assert "MaxRetriesExceededError" in (other.traceback or "")
        outcomes = [each.outcome for each in found.record.attempts]
        assert outcomes == [OutcomeKind.RETRIED, OutcomeKind.RETRIED, OutcomeKind.DEAD]
        with pytest.raises(JobDied):
            found.get()
        assert isinstance(found.get(propagate=False), JobDied)

    def test_fewer_and_later(self, app: Mutirao, celery: CeleryTasks) -> None:
        """A call of retry may have fewer of them, a moment, and may be raised by the caller."""

        @celery.task(bind=True)
        def work(self: CeleryTask) -> None:
            raise self.retry(eta=FAR, max_retries=1, throw=False)

        found = work.delay()
        drain(app)
        assert (found.status, found.record.run_at) == ("RETRY", FAR)
        drain(app, with_scheduled=True)
        assert found.status == "FAILURE"
        with pytest.raises(OSError, match="direct"):
            work.retry(exc=OSError("direct"))
        with pytest.raises(ConfigurationError, match=r"retry\(max_retries=9\) .*#retries"):
            work.retry(max_retries=9)
        with pytest.raises(ConfigurationError, match=r"other arguments or options .*#retries"):
            work.retry(args=(1,))

    def test_automatic_ones(self, app: Mutirao, celery: CeleryTasks) -> None:
        """Only the errors that are named; all others end the job, as in Celery."""

        @celery.task(
            autoretry_for=(OSError,), dont_autoretry_for=(FileNotFoundError,),
            retry_kwargs={"max_retries": 1, "countdown": 0},
        )  # fmt: skip
        def work(error: str) -> None:
            raise {"os": OSError, "file": FileNotFoundError, "value": ValueError}[error]("no")

        found = {error: work.delay(error) for error in ("os", "file", "value")}
        drain(app, with_scheduled=True)
        assert {error: len(each.record.attempts) for error, each in found.items()} == {
            "os": 2, "file": 1, "value": 1,
        }  # fmt: skip

    def test_signals(self, app: Mutirao, celery: CeleryTasks) -> None:
        """A task may say that it is not to be tried again."""

        @celery.task(autoretry_for=(Exception,))
        def work(how: str) -> None:
            raise Ignore("never mind") if how == "ignore" else Reject("no")

        ignored, rejected = work.delay("ignore"), work.delay("reject")
        drain(app)
        assert (ignored.status, rejected.status) == ("REVOKED", "FAILURE")


class TestOptions:
    """What options of a task mean."""

    @pytest.mark.parametrize(
        ("given", "attempt", "least", "most"),
        [
            ({}, 1, 180, 180),
            ({"default_retry_delay": timedelta(seconds=5)}, 3, 5, 5),
            ({"retry_backoff": True, "retry_jitter": False}, 4, 8, 8),
            ({"retry_backoff": 5, "retry_jitter": False}, 2, 10, 10),
            ({"retry_backoff": True, "retry_backoff_max": 20, "retry_jitter": False}, 9, 20, 20),
            ({"retry_backoff": True}, 4, 0, 8),
        ],
    )
    def test_waits(self, given: dict[str, Any], attempt: int, least: float, most: float) -> None:
        """A delay, or one that doubles, up to a longest one; with jitter any part of it."""
        ours, _ = task_options({"autoretry_for": (OSError,), **given}, "bigger first")
        assert least <= ours["retry"].delay(attempt, OSError()) <= most

    def test_how_often(self) -> None:
        """Three retries, unless it says otherwise; None: as often as it takes."""
        for given, attempts in (({}, 4), ({"max_retries": 0}, 1), ({"max_retries": None}, FOREVER)):
            ours, _ = task_options(given, "bigger first")
            assert ours["retry"].max_attempts == attempts

    @pytest.mark.parametrize(
        ("given", "most", "per"),
        [("10/s", 10, 1), ("100/m", 100, 60), ("5/h", 5, 3600), (3, 3, 1), ("0.5/s", 1, 2)],
    )
    def test_rates(self, given: str | int, most: int, per: float) -> None:
        """Of the whole fleet."""
        assert (rate(given).most, rate(given).per) == (most, per)

    def test_the_others(self) -> None:
        """They become ours; those that say what is so anyway are taken."""
        given = {
            "queue": "mail", "expires": 60, "time_limit": 9, "rate_limit": "1/s",
            "ignore_result": False, "acks_late": True, "reject_on_worker_lost": True,
            "track_started": True, "throws": (KeyError,), "serializer": "json", "base": None,
        }  # fmt: skip
        ours, _ = task_options(given, "bigger first")
        assert (ours["queue"], ours["expires"], ours["timeout"]) == ("mail", 60, 9)
        assert (ours["keep_result"], ours["limit"].most) == (True, 1)

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"base": object}, r"task\(base=…\) has no equal .*around_handler .*md#base-class"),
            ({"soft_time_limit": 5}, "#time"),
            ({"acks_late": False}, "always runs again.*#acknowledging"),
            ({"reject_on_worker_lost": False}, "#acknowledging"),
            ({"acks_on_failure_or_timeout": False}, "#acknowledging"),
            ({"serializer": "pickle"}, r"serializer='pickle' has no equal.*#arguments"),
            ({"routing_key": "a"}, "#routing"),
            ({"on_failure": print}, "on_dead.*#base-class"),
            ({"retry_kwargs": {"jitter": 1}}, "#retries"),
            ({"rate_limit": "fast"}, "give a rate such as '10/s'"),
            ({"rate_limit": "0/s"}, "give a rate such as"),
            ({"colour": "red"}, "nothing is known of this option.*#options"),
            ({"bind": True}, "give it self as first.*#options"),
        ],
    )
    def test_what_is_refused(
        self, celery: CeleryTasks, given: dict[str, Any], message: str
    ) -> None:
        """When the module is imported, with what to do."""
        with pytest.raises(ConfigurationError, match=message):
            celery.task(**given)(lambda: None)

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"task_id": "x"}, r"apply_async\(task_id=…\) has no equal.*#ids"),
            ({"link_error": 1}, "on_dead.*#canvas"),
            ({"exchange": "x"}, "#routing"),
            ({"serializer": "yaml"}, "#arguments"),
            ({"connection": 1}, "#calls"),
            ({"colour": 1}, "#options"),
        ],
    )
    def test_calls_that_are_refused(
        self, add: CeleryTask, given: dict[str, Any], message: str
    ) -> None:
        """When they are made."""
        with pytest.raises(ConfigurationError, match=message):
            add.apply_async((1,), **given)

    @pytest.mark.parametrize("name", ["apply", "chunks", "replace", "delay_on_commit"])
    def test_methods_that_are_not(self, add: CeleryTask, name: str) -> None:
        """They say so."""
        with pytest.raises(AttributeError, match=rf"task.{name} has no equal .*celery.md#"):
            getattr(add, name)
        with pytest.raises(AttributeError, match="has no attribute 'colour'"):
            _ = add.colour


class TestCanvas:
    """Signatures, chains, groups and chords, as one graph."""

    def test_a_chain(self, app: Mutirao, add: CeleryTask) -> None:
        """The result of one is the first argument of the next, but of one that is immutable."""
        last = (add.s(1, 2) | add.s(10) | add.s(y=100)).delay()
        other = chain(add.s(1), add.si(5, 5))()
        drain(app)
        assert (last.get(timeout=60), last.parent.get(), last.parent.parent.get()) == (113, 13, 3)
        assert last.parent.parent.parent is None
        assert other.get(timeout=60) == 10
        assert {each.graph for each in app.jobs()} == {1, 4}

    def test_a_group(self, app: Mutirao, add: CeleryTask) -> None:
        """Results in the order of its members."""
        found = group(add.s(n, n) for n in range(3)).apply_async()
        assert isinstance(found, GroupResult)
        assert found.waiting()
        drain(app)
        assert (found.get(timeout=60), found.completed_count()) == ([0, 2, 4], 3)
        assert (found.successful(), found.failed(), len(found)) == (True, False, 3)
        assert [each.get() for each in found] == [found[n].get() for n in range(3)]

    def test_a_chord(self, app: Mutirao, add: CeleryTask, total: CeleryTask) -> None:
        """The body gets the list; it may be given later, or by `|`."""
        results = [
            chord(add.s(n, 1) for n in range(4))(total.s()),
            chord([add.s(n, 1) for n in range(4)], total.s()).apply_async(),
            (group(add.s(n, 1) for n in range(4)) | total.s()).delay(),
        ]
        drain(app)
        assert [each.get(timeout=60) for each in results] == [10, 10, 10]
        assert results[0].parent.get() == [1, 2, 3, 4]

    def test_inside_each_other(self, app: Mutirao, add: CeleryTask, total: CeleryTask) -> None:
        """A result goes to each member of a group, and chains may be members."""
        last = chain(
            add.s(1), group(add.s(1), chain(add.s(2), add.s(3)), add.si(7)), total.s(), add.s(y=1)
        ).delay(1)
        drain(app)
        assert last.get(timeout=60) == (2 + 1) + (2 + 2 + 3) + 7 + 1

    def test_partial_signatures(self, app: Mutirao, add: CeleryTask) -> None:
        """More arguments come first; options stay with their step."""
        one = add.s(10).set(queue="slow")
        assert (one.clone((5,)).args, one.args, one.task) == ((5, 10), (10,), add.name)
        assert (one(5), add.si(1, 2).clone((5,)).args) == (15, (1, 2))
        first = one.delay(5)
        last = chain(one, add.signature((1,), countdown=0)).delay(1)
        drain(app)
        assert (first.get(timeout=60), last.get(timeout=60)) == (15, 12)
        assert last.parent.record.queue == "slow"

    def test_a_link(self, app: Mutirao, add: CeleryTask) -> None:
        """What follows a call, one or several."""
        found = add.apply_async((1, 2), link=add.s(10))
        several = add.apply_async((1,), link=[add.s(1), add.s(2) | add.s(3)])
        drain(app)
        assert (found.get(timeout=60), several.get(timeout=60)) == (3, 1)
        done = sorted(app.result(job.id) for job in app.jobs() if job.graph)
        assert done == [1, 2, 3, 3, 6, 13]

    def test_in_a_transaction(self, app: Mutirao, add: CeleryTask, conn: Connection) -> None:
        """The whole of it, or nothing."""
        (add.s(1) | add.s(2)).apply_async(conn=conn)
        conn.rollback()
        assert app.jobs() == []

    def test_what_is_refused(self, add: CeleryTask) -> None:
        """What no graph is made of."""
        with pytest.raises(ConfigurationError, match="a part of a chain is 7; give signatures"):
            chain(add.s(1), 7)
        with pytest.raises(ConfigurationError, match=r"an empty group .*#canvas"):
            group([])
        with pytest.raises(ConfigurationError, match=r"on_dead.*#canvas"):
            add.s(1).on_error(add.s())
        with pytest.raises(ConfigurationError, match=r"chain.on_error.* has no .*#canvas"):
            chord([add.s(1)], add.s()).on_error(add.s())
        with pytest.raises(TypeError):
            _ = add.s(1) | 5  # type: ignore[operator]


class TestSchedules:
    """`beat_schedule`."""

    def test_entries(self, app: Mutirao, celery: CeleryTasks, add: CeleryTask) -> None:
        """Times of day, and intervals; with their arguments."""
        celery.add_beat_schedule(
            {
                "nightly": {
                    "task": add.name,
                    "schedule": crontab(minute=30, hour="3,15", day_of_week={1, 5}),
                    "args": (16, 16),
                },
                "often": {"task": add.name, "schedule": 30.0, "kwargs": {"x": 1}},
                "hourly": {
                    "task": add.name,
                    "schedule": timedelta(hours=1),
                    "args": [1],
                    "options": {"expires": 60, "queue": "x", "priority": 3, "headers": {"a": 1}},
                },
            },
            timezone="Europe/Lisbon",
        )
        found = {each.name: each for each in app.schedules.declared()}
        assert (found["nightly"].cron, found["nightly"].timezone) == (
            "30 3,15 * * 1,5",
            "Europe/Lisbon",
        )
        assert found["nightly"].job.args == '{"x":16,"y":16}'
        assert (found["often"].every, found["hourly"].every) == (
            timedelta(seconds=30), timedelta(hours=1),
        )  # fmt: skip
        hourly = found["hourly"].job
        assert (hourly.queue, hourly.priority) == ("x", -3)
        assert hourly.metadata == {"headers": {"a": 1}, EXPIRES_KEY: 60.0}
        assert crontab("1", "2", "sun", "*", "3").line == "1 2 * 3 sun"

    @pytest.mark.parametrize(
        ("entry", "message"),
        [
            ({"options": {"countdown": 5}}, "nothing is known of this option.*#options"),
            ({"schedule": object()}, "give a crontab, a timedelta, or seconds.*#schedules"),
            ({"relative": True}, "#schedules"),
            ({"colour": 1}, "#options"),
        ],
    )
    def test_what_is_refused(
        self, celery: CeleryTasks, add: CeleryTask, entry: dict[str, Any], message: str
    ) -> None:
        """When the module is imported."""
        with pytest.raises(ConfigurationError, match=message):
            celery.add_beat_schedule({"e": {"task": add.name, "schedule": 1, "args": [1], **entry}})

    def test_days_of_two_kinds(self) -> None:
        """There both have to match."""
        with pytest.raises(ConfigurationError, match=r"one of them .*#schedules"):
            crontab(day_of_month=1, day_of_week=1)
        with pytest.raises(ConfigurationError, match=r"timezone=\) .*#schedules"):
            crontab(nowfun=None)

    def test_a_task_that_is_not(self, celery: CeleryTasks) -> None:
        """Its module was not imported."""
        with pytest.raises(UnknownTask, match="Import its module first"):
            celery.add_beat_schedule({"e": {"task": "shop.nothing", "schedule": 1}})
        with pytest.raises(UnknownTask):
            celery.signature("shop.nothing")


@pytest.mark.parametrize("id", ["b2f7c1de-0000-4000-8000-000000000000", "9" * 5_000, "1_0", "-1"])
def test_ids_of_no_job(celery: CeleryTasks, id: str) -> None:
    """Those that Celery has given, or anybody: there is no such job, and no other error."""
    with pytest.raises(UnknownJob, match="is no id of a job here"):
        celery.AsyncResult(id)


def test_results_are_not_kept_unless_asked(app: Mutirao) -> None:
    """By the application, or the task."""
    tasks = CeleryTasks(app)
    kept, not_kept = (
        tasks.task(ignore_result=False, name="kept")(lambda: 1),
        tasks.task(name="not kept")(lambda: 1),
    )
    one, other = kept.delay(), not_kept.delay()
    drain(app)
    assert one.get(timeout=60) == 1
    with pytest.raises(ResultMissing):
        other.get(timeout=60)


def test_small_things() -> None:
    """What task modules import besides."""
    assert get_task_logger("shop") is logging.getLogger("shop")
    assert issubclass(MaxRetriesExceededError, Exception)
    assert repr(crontab(minute=0)) == "<crontab: 0 * * * *>"


def test_each_refusal_names_a_section_of_the_page() -> None:
    """Which is there."""
    page = (Path(__file__).parents[3] / PAGE).read_text(encoding="utf-8")
    sections = {each.lower().replace(" ", "-") for each in re.findall(r"^##+ (.*)$", page, re.M)}
    source = "".join(each.read_text() for each in Path(package.__path__[0]).glob("*.py"))
    named = set(re.findall(r"refusal\([^()]*(?:\([^()]*\)[^()]*)*\"([a-z-]+)\"[,\s]*\)", source))
    named |= {anchor for _, anchor in (*_NOT_OF_TASK.values(), *_NOT_OF_CALL.values())}
    named |= {anchor for _, anchor in _NOT_OURS.values()}
    assert len(named) > 8
    assert named - sections == set()
