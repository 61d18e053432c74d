"""`expires`: counted from each call; the task's own where the call says nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mutirao import DeadJob, Mutirao, chain
from mutirao.errors import InvalidJob, InvalidSubscription, InvalidTask
from mutirao.model.jobs.expiry import EXPIRES_KEY, SHARED, begun, expiry_in
from mutirao.model.jobs.job import NewJob
from mutirao.testing import capture

HOUR = timedelta(hours=1)


@pytest.fixture
def app() -> Mutirao:
    """An application that nothing is enqueued by."""
    return Mutirao("sqlite:///nowhere.db")


def ahead(job: NewJob) -> timedelta:
    """Return how long a job is wanted from now."""
    moment = expiry_in(job.metadata)
    assert moment is not None
    return moment - datetime.now(UTC)


def test_of_a_task_and_of_a_call(app: Mutirao) -> None:
    """The call's replaces the task's; the metadata of a call is kept beside it."""

    @app.task(expires=HOUR)
    def work() -> None: ...

    assert HOUR - timedelta(seconds=9) < ahead(work.job()) <= HOUR
    assert ahead(work.using(expires=2 * HOUR).job()) > HOUR
    moment = datetime(2030, 1, 2, tzinfo=UTC)
    told = work.using(expires=moment, metadata={"a": 1}).job().metadata
    assert told == {"a": 1, EXPIRES_KEY: "2030-01-02T00:00:00+00:00"}
    assert work.using(metadata=told).job().metadata == told


def test_counted_from_each_call(app: Mutirao) -> None:
    """Many calls in a moment share what was checked; a later one does not."""

    @app.task(expires=10)
    def work(n: int) -> None: ...

    call = work.using()
    first, second = call.job(1), call.job(2)
    assert first.checked is second.checked
    assert ahead(second) <= timedelta(seconds=10)
    kept, job = call.template.checked.written[EXPIRES_KEY]
    before = kept - timedelta(seconds=2 * SHARED)
    call.template.checked.written[EXPIRES_KEY] = before, job
    assert expiry_in(call.job(3).metadata) > before


def test_what_does_not_inherit_it(app: Mutirao) -> None:
    """Whoever is told of a death is told however late; nobody else's calls expire."""

    @app.task(expires=10)
    def work() -> None: ...

    @work.on_dead
    def mourn(dead: DeadJob) -> None: ...

    told = work.announce_death(DeadJob(1, "work", "default", {}, 1, None, None))
    assert told is not None
    assert told.metadata == {}


def test_steps_of_a_graph(app: Mutirao) -> None:
    """Each step for itself."""

    @app.task
    def work() -> None: ...

    with capture(app) as jobs:
        app.enqueue_graph(chain(work.using(expires=5).job(), work.job()))
    assert [EXPIRES_KEY in each.metadata for each in jobs] == [True, False]


def test_a_schedule_s_jobs(app: Mutirao) -> None:
    """What is stored is for how long; a moment would be the same for all of them."""

    @app.schedule(every=60)
    @app.task(expires=50)
    def work() -> None: ...

    [declared] = app.schedules.declared()
    assert declared.job.metadata == {EXPIRES_KEY: 50.0}


@pytest.mark.parametrize("expires", [0, -1, 1e12, float("nan")])
def test_no_length_for_a_task(app: Mutirao, expires: float) -> None:
    """Found when the task is registered."""
    with pytest.raises(InvalidTask, match=r"expires is .* give more than 0"):
        app.task(expires=expires)(lambda: None)


def test_subscribers(app: Mutirao) -> None:
    """Deliveries are made in the database, all alike; the publication expires for all of them."""
    options: dict[str, Any] = {"expires": 60}
    with pytest.raises(InvalidTask, match=r"subscriber 'mail' has expires, .* publish\("):
        app.subscriber("mail", topic="order.paid", **options)(lambda event: None)

    @app.subscriber("log", topic="order.paid")
    def log(event: dict[str, Any]) -> None: ...

    with pytest.raises(InvalidSubscription, match="was given expires"):
        app.subscriptions.put("x", log.using(expires=60), "order.paid")
    topic = app.topic("order.paid")
    assert ahead(topic.using(expires=HOUR).job({"id": 1})) <= HOUR


def test_due_after_it(app: Mutirao) -> None:
    """A call that could never start is refused, also where the task's own length is too short."""

    @app.task(expires=10)
    def work() -> None: ...

    with capture(app), pytest.raises(InvalidJob, match="due in 60 seconds, and expires before"):
        work.using(delay=60).enqueue()


@pytest.mark.parametrize("seconds", [1e308, -1e308, float("nan"), float("inf")])
def test_what_is_no_time_in_a_schedule(seconds: float) -> None:
    """Others may have written it: the tick makes its job, which says what is wrong with it."""
    metadata = begun({EXPIRES_KEY: seconds}, datetime.now(UTC))
    with pytest.raises(ValueError, match="give a moment with a time zone"):
        expiry_in(metadata)
