"""Jobs that cannot be run here: unknown tasks, payloads that do not fit, rows that others wrote."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import IntegrityError

from mutirao import Job, JobState, Mutirao, NewJob
from tests.integration.worker import children
from tests.integration.worker.kit import ended, outcomes, until_state, working
from tests.support.waiting import until

pytestmark = pytest.mark.repeats("postgresql", decided="tests/conformance")

PLAIN_SQL = {
    "sqlite": "INSERT INTO mutirao_job (task, args) VALUES ('send', :args)",
    "postgresql": "SELECT mutirao_enqueue('send', CAST(:args AS json))",
}


def by_plain_sql(app: Mutirao, args: str) -> None:
    """Enqueue a call of `send` as another program would."""
    engine = create_engine(app.url)
    with engine.begin() as connection:
        connection.execute(text(PLAIN_SQL[engine.dialect.name]), {"args": args})
    engine.dispose()


UNFIT = {
    "missing": ("{}", "missing required field `order_id`"),
    "another type": ('{"order_id": "seven"}', "Expected `int`, got `str`"),
    "unknown": ('{"order_id": 7, "colour": "red"}', "unknown field `colour`"),
    "no text": ('{"order_id": 7, "note": "\\ud800"}', "do not fit"),
    "too large": ('{"order_id": 1e999}', "do not fit"),
}


@pytest.mark.parametrize("name", UNFIT)
async def test_a_payload_that_no_longer_fits(app: Mutirao, name: str) -> None:
    """Dead at once, with the reason and the signature; the handler is not called."""
    args, reason = UNFIT[name]

    @app.task
    async def send(order_id: int, note: str = "") -> None:
        raise AssertionError

    by_plain_sql(app, args)
    async with working(app):
        job = await ended(app, 1)
    assert (job.state, outcomes(job)) == (JobState.DEAD, ["dead"])
    assert job.error_type == "InvalidArguments"
    assert reason in (job.error or "")
    assert "send(order_id: 'int', note: 'str' = '')" in (job.error or "")


async def test_a_process_handler_s_payload(pg_app: Mutirao) -> None:
    """The same, told by the child."""
    children.register(pg_app)
    pg_app.submit(NewJob(task="write_pid", args='{"path": 7}'))
    async with working(pg_app):
        job = await ended(pg_app, 1)
    assert (outcomes(job), job.error_type) == (["dead"], "InvalidArguments")
    assert "write_pid(path: 'str')" in (job.error or "")


async def test_an_unknown_task(app: Mutirao) -> None:
    """Its job is neither lost nor failed: it waits for a worker that knows it."""

    @app.task
    async def known() -> None:
        pass

    strange = app.enqueue_many(NewJob(task="of_tomorrow") for _ in range(30))
    async with working(app, concurrency=2):
        for _ in range(3):
            assert outcomes(await ended(app, known.enqueue().id)) == ["succeeded"]
        assert await app.store.unserved_tasks(app.tasks) == {"of_tomorrow": 30}
        for id in strange:
            job = await until_state(app, id, JobState.READY)
            assert (job.attempt, job.attempts) == (0, ())
        tomorrow = Mutirao(app.url)
        seen: list[int] = []

        @tomorrow.task
        async def of_tomorrow(job: Job) -> None:
            seen.append(job.attempt)

        async with working(tomorrow):
            for id in strange:
                assert outcomes(await ended(app, id)) == ["succeeded"]
        await tomorrow.aclose()
    assert seen == [1] * 30


async def test_an_unknown_task_among_known_ones(app: Mutirao) -> None:
    """Jobs behind it, in the same lane and claimed together with it, run."""

    @app.task
    async def known() -> None:
        pass

    jobs = [NewJob(task="of_tomorrow") if n % 3 else known.job() for n in range(60)]
    ids = app.enqueue_many(jobs)
    async with working(app, concurrency=4):
        for id in ids[::3]:
            assert outcomes(await ended(app, id)) == ["succeeded"]

        async def given_back() -> bool:
            return await app.store.unserved_tasks(app.tasks) == {"of_tomorrow": 40}

        await until(given_back)


async def test_two_workers_know_different_tasks(app: Mutirao) -> None:
    """Neither keeps the other from its jobs, though both serve the same queue."""
    both = [app, Mutirao(app.url)]

    def handler_of(application: Mutirao, name: str) -> Any:
        @application.task(name=name)
        async def handler() -> None:
            pass

        return handler

    first, second = handler_of(both[0], "a"), handler_of(both[1], "b")
    ids = app.enqueue_many([first.job(), second.job()] * 20)
    async with working(both[0]), working(both[1]):
        for id in ids:
            assert outcomes(await ended(app, id)) == ["succeeded"]
    await both[1].aclose()


AT_A_MOMENT = {
    "sqlite": "INSERT INTO mutirao_job (task, run_at) VALUES ('send', :at)",
    "postgresql": "SELECT mutirao_enqueue('send', run_at => CAST(:at AS timestamptz))",
}
BEYOND_PYTHON: dict[str, list[int | str]] = {
    "sqlite": [1 << 62, -(1 << 62)],
    "postgresql": ["infinity", "-infinity", "12026-01-01", "0100-01-01 BC", "9999-12-31 22:00Z"],
}


async def test_moments_that_python_cannot_hold(app: Mutirao) -> None:
    """They would stop every worker that reads them: the database refuses them."""
    engine = create_engine(app.url)
    for moment in BEYOND_PYTHON[engine.dialect.name]:
        with pytest.raises(IntegrityError), engine.begin() as connection:
            connection.execute(text(AT_A_MOMENT[engine.dialect.name]), {"at": moment})
    engine.dispose()
