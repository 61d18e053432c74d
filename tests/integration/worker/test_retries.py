"""Whether a failed job runs again, and when: by policy, by exception, by what the handler says."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from mutirao import Cancel, Dead, Job, JobRecord, JobState, Mutirao, Retry, RetryPolicy, Snooze
from mutirao.model.jobs.records import AttemptRecord
from tests.integration.worker.kit import ended, never_polling, outcomes, until_attempts

SLACK = 20.0  # seconds that a slow machine may take to write an outcome


@pytest.fixture
def url(pg_url: str) -> str:
    """One database is enough: the engine decides what is shown here."""
    return pg_url


class Transient(ConnectionError):
    """Worth another try."""


class Hopeless(Exception):
    """Not worth one."""


def waited(job: JobRecord) -> float:
    """Return the seconds between a job's last attempt and when it is due again."""
    return (job.run_at - job.attempts[-1].finished_at).total_seconds()


def by_attempt(attempt: int, error: BaseException | None) -> timedelta:
    """Return a wait that tells what it was computed from."""
    return timedelta(seconds=1000 * attempt + len(str(error)))


POLICIES: dict[str, tuple[RetryPolicy, list[tuple[float, float]]]] = {
    "exponential": (
        Retry.exponential(base=100, factor=10, jitter=0.1),
        [(90, 110), (900, 1100), (9000, 11000)],
    ),
    "linear": (Retry.linear(interval=100), [(100, 100), (200, 200), (300, 300)]),
    "fixed": (Retry.fixed(interval=timedelta(minutes=5)), [(300, 300), (300, 300)]),
    "list": (Retry.delays(100, 700, 300), [(100, 100), (700, 700), (300, 300)]),
    "callable": (Retry.by(by_attempt), [(1004, 1004), (2004, 2004)]),
    "by type": (
        Retry.fixed(interval=10, by_type={ConnectionError: Retry.linear(interval=500)}),
        [(500, 500), (1000, 1000)],
    ),
}


@pytest.mark.parametrize("name", POLICIES)
async def test_policies(app: Mutirao, name: str) -> None:
    """A job waits as long as its policy says, after every attempt."""
    policy, waits = POLICIES[name]

    @app.task(retry=policy)
    async def failing() -> None:
        raise Transient("1234")

    async with never_polling(app):
        id = failing.enqueue().id
        for number, (least, most) in enumerate(waits, 1):
            job = await until_attempts(app, id, number)
            assert (job.state, job.attempt) == (JobState.SCHEDULED, number)
            assert least <= waited(job) <= most + SLACK
            assert await app.aretry(id) == [id]


async def test_the_next_attempt_is_due_by_itself(app: Mutirao) -> None:
    """Nobody has to look for it: the worker knows when."""
    attempts: list[int] = []

    @app.task(retry=Retry.delays(0.2, 0.1, 0))
    async def failing(job: Job) -> None:
        attempts.append(job.attempt)
        raise Transient

    async with never_polling(app):
        job = await ended(app, failing.enqueue().id)
    assert outcomes(job) == ["retried", "retried", "retried", "dead"]
    assert attempts == [1, 2, 3, 4]
    assert [a.attempt for a in job.attempts] == [1, 2, 3, 4]
    gaps = [(b.started_at - a.finished_at).total_seconds() for a, b in pairs(job)]
    assert gaps[0] >= 0.2
    assert gaps[1] >= 0.1


def pairs(job: JobRecord) -> list[tuple[AttemptRecord, AttemptRecord]]:
    """Return each attempt with the one after it."""
    return list(zip(job.attempts, job.attempts[1:], strict=False))


@pytest.mark.parametrize(
    ("policy", "of_task", "of_job", "expected"),
    [
        (None, None, None, 10),
        (3, None, None, 3),
        (3, 2, None, 2),
        (3, None, 1, 1),
        (3, 2, 4, 4),
        (None, 1, None, 1),
    ],
)
async def test_max_attempts(
    pg_app: Mutirao, policy: int | None, of_task: int | None, of_job: int | None, expected: int
) -> None:
    """Of the policy, instead of that the task's, instead of that the job's."""
    retry = Retry.fixed(policy or 10, interval=0)

    @pg_app.task(retry=retry, max_attempts=of_task)
    async def failing(job: Job) -> None:
        limits.append(job.max_attempts)
        raise Transient

    limits: list[int] = []
    async with never_polling(pg_app):
        job = await ended(pg_app, failing.using(max_attempts=of_job).enqueue().id)
    assert outcomes(job) == ["retried"] * (expected - 1) + ["dead"]
    assert limits == [expected] * expected


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (Retry.fixed(2, interval=0, only=(Transient,)), ["dead"]),
        (Retry.fixed(2, interval=0, never=(Hopeless, KeyError)), ["dead"]),
        (Retry.fixed(2, interval=0, never=(Transient,)), ["retried", "dead"]),
        (Retry.never(), ["dead"]),
        (Retry.fixed(9, interval=0, by_type={Hopeless: Retry.never()}), ["dead"]),
        (
            Retry.fixed(2, interval=0, by_type={Hopeless: Retry.fixed(4, interval=0)}),
            ["retried", "retried", "retried", "dead"],
        ),
    ],
)
async def test_by_exception(pg_app: Mutirao, policy: RetryPolicy, expected: list[str]) -> None:
    """Some errors are tried again and others are not, each as often as its own policy allows."""

    @pg_app.task(retry=policy)
    async def failing() -> None:
        raise Hopeless("why")

    async with never_polling(pg_app):
        job = await ended(pg_app, failing.enqueue().id)
    assert outcomes(job) == expected
    assert (job.state, job.error_type) == (JobState.DEAD, f"{__name__}.Hopeless")


def broken(attempt: int, error: BaseException | None) -> float:
    """Fail to compute a wait."""
    raise ZeroDivisionError


@pytest.mark.parametrize(
    "policy",
    [
        Retry.by(broken),
        Retry.fixed(only=["not a tuple"]),  # type: ignore[arg-type]
        Retry.by(lambda attempt, error: float("inf")),
        Retry.by(lambda attempt, error: 1e300),
        Retry.by(lambda attempt, error: "soon"),  # type: ignore[arg-type, return-value]
    ],
)
async def test_a_policy_that_fails_itself(app: Mutirao, policy: RetryPolicy) -> None:
    """Costs no job: it waits for a minute, and the handler's error is kept."""

    @app.task(retry=policy)
    async def failing() -> None:
        raise Transient("no route")

    async with never_polling(app):
        job = await until_attempts(app, failing.enqueue().id, 1)
    assert job.state is JobState.SCHEDULED
    assert 60 <= waited(job) <= 60 + SLACK
    assert job.error_type == f"{__name__}.Transient"


@pytest.mark.parametrize(
    ("signal", "wait"),
    [
        (lambda: Retry(after=500), 500),
        (lambda: Retry(after=timedelta(hours=1)), 3600),
        (lambda: Retry(at=datetime.now(UTC) + timedelta(hours=2)), 7200),
        (lambda: Retry(), 40),
        (lambda: Retry(reason="not yet"), 40),
    ],
)
@pytest.mark.parametrize("kind", ["coroutine", "plain"])
async def test_retry_raised(
    app: Mutirao, kind: str, signal: Callable[[], Retry], wait: float
) -> None:
    """When the handler says, or else the policy; counts as an attempt, `only` has no say in it."""

    @app.task(retry=Retry.fixed(3, interval=40, only=(Hopeless,)))
    async def coroutine() -> None:
        raise signal()

    @app.task(retry=Retry.fixed(3, interval=40, only=(Hopeless,)))
    def plain() -> None:
        raise signal()

    async with never_polling(app):
        task = {"coroutine": coroutine, "plain": plain}[kind]
        job = await until_attempts(app, task.enqueue().id, 1)
    assert (job.state, job.attempt, outcomes(job)) == (JobState.SCHEDULED, 1, ["retried"])
    assert wait - 1 <= waited(job) <= wait + SLACK
    assert job.attempts[0].error_type == "Retry"
    assert job.attempts[0].error == str(signal())


async def test_retry_raised_for_a_moment(app: Mutirao) -> None:
    """It begins then by itself, and at once if that has passed."""
    moments = iter([timedelta(hours=-1), timedelta(seconds=0.3)])

    @app.task
    async def failing() -> None:
        for ahead in moments:
            raise Retry(at=datetime.now(UTC) + ahead)

    async with never_polling(app):
        job = await ended(app, failing.enqueue().id)
    assert outcomes(job) == ["retried", "retried", "succeeded"]


async def test_retry_raised_in_the_last_attempt(app: Mutirao) -> None:
    """There is no further one: the job is dead."""

    @app.task(max_attempts=1)
    async def failing() -> None:
        raise Retry(after=0, reason="once more, please")

    async with never_polling(app):
        job = await ended(app, failing.enqueue().id)
    assert (job.state, outcomes(job)) == (JobState.DEAD, ["dead"])
    assert job.error == "once more, please"


@pytest.mark.parametrize("kind", ["coroutine", "plain"])
async def test_snooze(app: Mutirao, kind: str) -> None:
    """Not now, later: no attempt is consumed, history knows of it."""
    signals = iter([Snooze(0.1), Snooze(at=datetime.now(UTC)), Snooze(timedelta(0))])
    attempts: list[tuple[int, int]] = []

    @app.task(max_attempts=1)
    async def coroutine(job: Job) -> None:
        attempts.append((job.attempt, job.run))
        for signal in signals:
            raise signal

    @app.task(max_attempts=1)
    def plain(job: Job) -> None:
        attempts.append((job.attempt, job.run))
        for signal in signals:
            raise signal

    async with never_polling(app):
        task = {"coroutine": coroutine, "plain": plain}[kind]
        job = await ended(app, task.enqueue().id)
    assert outcomes(job) == ["snoozed", "snoozed", "snoozed", "succeeded"]
    assert attempts == [(1, 1), (1, 2), (1, 3), (1, 4)]
    assert (job.attempt, job.attempts[0].error) == (1, "snoozed by its handler")


async def test_snoozing_for_long(app: Mutirao) -> None:
    """It waits as long as it asked for."""

    @app.task
    async def later() -> None:
        raise Snooze(500, reason="full moon")

    async with never_polling(app):
        job = await until_attempts(app, later.enqueue().id, 1)
    assert (job.state, job.attempt) == (JobState.SCHEDULED, 0)
    assert 500 <= waited(job) <= 500 + SLACK


@pytest.mark.parametrize("kind", ["coroutine", "plain"])
@pytest.mark.parametrize(("signal", "state"), [(Dead, JobState.DEAD), (Cancel, JobState.CANCELLED)])
async def test_no_further_attempts(
    app: Mutirao, kind: str, signal: type[Dead] | type[Cancel], state: JobState
) -> None:
    """Dead or no longer wanted, with the reason, though attempts are left."""

    @app.task
    async def coroutine() -> None:
        raise signal("the order was withdrawn")

    @app.task
    def plain() -> None:
        raise signal("the order was withdrawn")

    async with never_polling(app):
        task = {"coroutine": coroutine, "plain": plain}[kind]
        job = await ended(app, task.enqueue().id)
    assert (job.state, outcomes(job)) == (state, [str(state)])
    assert (job.error_type, job.error) == (signal.__name__, "the order was withdrawn")


@pytest.mark.parametrize("reason", ["nul \x00 and \ud800", "x" * 1_000_000])
async def test_reasons_are_made_to_fit(app: Mutirao, reason: str) -> None:
    """As error texts are."""

    @app.task
    async def refusing() -> None:
        raise Dead(reason)

    async with never_polling(app):
        job = await ended(app, refusing.enqueue().id)
    assert job.state is JobState.DEAD
    assert 10 < len(job.error or "") <= 8_000


async def test_dead_jobs_are_kept_and_can_be_redriven(app: Mutirao) -> None:
    """With all their attempts; the new one keeps the link to the old one, in any generation."""
    broken = True

    @app.task(max_attempts=2, retry=Retry.fixed(interval=0))
    async def fickle(order_id: int) -> None:
        if broken:
            raise Transient("no route")

    async with never_polling(app):
        first = await ended(app, fickle.enqueue(7).id)
        [second] = await app.aredrive(first.id)
        assert (await ended(app, second)).state is JobState.DEAD
        assert await app.aredrive(state=JobState.DEAD, task="fickle") != []
        broken = False
        [fourth] = await app.aredrive(second)
        job = await ended(app, fourth)
    assert (job.state, job.redrive_of, job.args) == (JobState.SUCCEEDED, second, {"order_id": 7})
    assert (first.state, outcomes(first)) == (JobState.DEAD, ["retried", "dead"])
    assert (await app.ajob(first.id)) == first
