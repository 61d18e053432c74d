"""Stopping a worker with signals, as an operator or a supervisor does: real processes."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from mutirao import JobState, Mutirao, NewJob
from tests.integration.worker.kit import ended, outcomes, until_attempts, until_state
from tests.integration.worker.signalling import enqueue, running
from tests.support.postgresql import PostgresServer
from tests.support.waiting import DEADLINE, until

pytestmark = pytest.mark.repeats("2", decided="tests/integration/worker/test_shutdown.py")

SIGNALS = [signal.SIGTERM, signal.SIGINT]


@pytest.fixture
def url(pg_url: str) -> str:
    """One database is enough: the engine decides what is shown here."""
    return pg_url


@pytest.mark.parametrize("number", SIGNALS)
async def test_running_jobs_may_finish(
    app: Mutirao, tmp_path: Path, number: signal.Signals
) -> None:
    """Within the grace period: those in the loop, in a thread and in a process."""
    path = tmp_path / "go"
    ids = enqueue(app, "hold", "hold_thread")
    ids += enqueue(app, "hold_process", args=f'{{"path": "{path}"}}')
    async with running(app) as worker:
        await worker.says(*(f"begun {id}" for id in ids))
        worker.send(number)
        await worker.logs(f"{number.name}: stopping; once more to end at once")
        worker.let_go()
        path.touch()
        assert await worker.ends() == 0
    for id in ids:
        assert outcomes(await app.ajob(id)) == ["succeeded"]
    assert await app.store.workers() == []


async def test_nothing_new_is_started(app: Mutirao) -> None:
    """Claimed and not started, or not claimed: those jobs wait for others, unattempted."""
    [first, *others] = enqueue(app, "hold", *["quick"] * 5)
    async with running(app, concurrency=1, prefetch=1000) as worker:
        await worker.says(f"begun {first}")
        worker.send(signal.SIGTERM)
        await worker.logs("stopping")
        later = enqueue(app, "quick")
        worker.let_go()
        assert await worker.ends() == 0
    assert (await app.ajob(first)).state is JobState.SUCCEEDED
    for id in (*others, *later):
        job = await app.ajob(id)
        assert (job.state, job.attempt, job.attempts) == (JobState.READY, 0, ())


async def test_after_the_grace_period(app: Mutirao) -> None:
    """Unfinished jobs are given back without costing an attempt, and run elsewhere at once."""
    ids = enqueue(app, "hold", "hold_thread")
    async with running(app, grace=0.2) as worker:
        await worker.says(*(f"begun {id}" for id in ids))
        worker.send(signal.SIGTERM)
        await worker.logs("giving back 2 unfinished jobs")
        assert await worker.ends() == 0
    for id in ids:
        job = await app.ajob(id)
        assert (job.state, job.attempt, outcomes(job)) == (JobState.READY, 0, ["released"])
    async with running(app) as worker:
        await worker.says(*(f"begun {id}" for id in ids))
        worker.let_go()
        for id in ids:
            job = await ended(app, id)
            assert [(a.attempt, str(a.outcome)) for a in job.attempts] == [
                (1, "released"),
                (1, "succeeded"),
            ]


async def test_a_process_after_the_grace_period(app: Mutirao, tmp_path: Path) -> None:
    """Its child is killed, its job given back."""
    [id] = enqueue(app, "hold_process", args=f'{{"path": "{tmp_path / "never"}"}}')
    async with running(app, grace=0.2) as worker:
        await worker.says(f"begun {id}")
        worker.send(signal.SIGTERM)
        assert await worker.ends() == 0
    job = await app.ajob(id)
    assert (job.state, job.attempt, outcomes(job)) == (JobState.READY, 0, ["released"])


@pytest.mark.parametrize("number", SIGNALS)
async def test_a_signal_to_the_whole_group(
    app: Mutirao, tmp_path: Path, number: signal.Signals
) -> None:
    """Terminals and systemd signal the children too; they finish like the others."""
    path = tmp_path / "go"
    [id] = enqueue(app, "hold_process", args=f'{{"path": "{path}"}}')
    async with running(app) as worker:
        await worker.says(f"begun {id}")
        os.killpg(worker.pid, number)
        await worker.logs("stopping")
        path.touch()
        assert await worker.ends() == 0
    assert outcomes(await app.ajob(id)) == ["succeeded"]


@pytest.mark.parametrize("number", SIGNALS)
async def test_a_second_signal(app: Mutirao, number: signal.Signals) -> None:
    """Ends at once, whatever the grace period; unfinished jobs are given back."""
    ids = enqueue(app, "hold", "hold_thread")
    async with running(app, grace=3_600) as worker:
        await worker.says(*(f"begun {id}" for id in ids))
        worker.send(number)
        await worker.logs("stopping")
        worker.send(number)
        await worker.logs("again: ending at once")
        assert await worker.ends(10) == 0
    for id in ids:
        job = await app.ajob(id)
        assert (job.state, job.attempt, outcomes(job)) == (JobState.READY, 0, ["released"])


async def test_a_second_signal_and_a_handler_that_ignores_it(app: Mutirao) -> None:
    """It does not end when it is cancelled: its job is given back, and the process ends."""
    [id] = enqueue(app, "ignore")
    async with running(app, grace=3_600) as worker:
        await worker.says(f"begun {id}")
        worker.send(signal.SIGTERM)
        worker.send(signal.SIGINT)
        assert await worker.ends() == 7
    job = await app.ajob(id)
    assert (job.state, job.attempt, outcomes(job)) == (JobState.READY, 0, ["released"])


async def test_a_second_signal_and_a_handler_that_blocks(app: Mutirao) -> None:
    """Nobody can give its job back: the process ends, and others take it for gone."""
    [id] = enqueue(app, "block")
    async with running(app, grace=3_600) as worker:
        await worker.says(f"begun {id}")
        worker.send(signal.SIGTERM)
        worker.send(signal.SIGINT)
        assert await worker.ends() == 7
    assert (await app.ajob(id)).state is JobState.RUNNING
    async with running(app) as other:
        await other.says(f"begun {id}")
    assert outcomes(await app.ajob(id)) == ["lost"]


async def test_a_thread_of_a_coroutine(app: Mutirao) -> None:
    """Nobody can end it: its job is given back, and the process does not wait for it."""
    [id] = enqueue(app, "hold_elsewhere")
    async with running(app, grace=0.2, margin=2) as worker:
        await worker.says(f"begun {id}")
        worker.send(signal.SIGTERM)
        assert await worker.ends() == 7
    assert outcomes(await app.ajob(id)) == ["released"]


async def test_a_handler_that_exits(app: Mutirao) -> None:
    """`sys.exit` fails its job, and the worker goes on."""
    async with running(app) as worker:
        for task in ("leave", "leave_thread", "leave_process"):
            [id] = enqueue(app, task)
            job = await ended(app, id)
            assert (job.state, job.error_type) == (JobState.DEAD, "SystemExit")
            [next_one] = enqueue(app, "quick")
            await worker.says(f"quick {next_one}")


async def test_an_idle_worker(app: Mutirao) -> None:
    """Stops at once, however long it would have slept."""
    async with running(app, poll=3_600) as worker:
        await worker.logs(") started")
        worker.send(signal.SIGTERM)
        await worker.logs("stopped")
        assert await worker.ends(10) == 0
    assert await app.store.workers() == []


async def test_while_the_database_stays_away(pg_app: Mutirao, postgres: PostgresServer) -> None:
    """A stop does not wait for it for ever: what could not be written is run again."""
    [id] = enqueue(pg_app, "hold")
    async with running(pg_app, grace=0.5) as worker:
        await worker.says(f"begun {id}")
        await asyncio.to_thread(postgres.stop)
        try:
            worker.send(signal.SIGTERM)
            await worker.logs("did not end; 1 jobs will run again", "could not sign off")
            assert await worker.ends() == 0
        finally:
            postgres.start()
    async with running(pg_app) as other:
        await other.says(f"begun {id}")
        other.let_go()
        assert outcomes(await ended(pg_app, id)) == ["lost", "succeeded"]


async def test_killed(app: Mutirao) -> None:
    """SIGKILL: others find its jobs within the expiry, and the attempt is counted as lost."""
    ids = enqueue(app, "hold", "hold_thread")
    async with running(app) as killed, running(app, poll=3_600) as other:
        await killed.logs(") started")
        await other.logs(") started")
        workers = {worker.pid: worker.id for worker in await app.store.workers()}
        for id in ids:
            await until_state(app, id, JobState.RUNNING)
        holders = {(await app.ajob(id)).worker for id in ids}
        victim, survivor = (killed, other) if workers[killed.pid] in holders else (other, killed)
        victim.send(signal.SIGKILL)
        lost = [id for id in ids if (await app.ajob(id)).worker == workers[victim.pid]]
        await survivor.says(*(f"begun {id}" for id in lost))
        survivor.let_go()
        for id in lost:
            job = await ended(app, id)
            assert [(a.attempt, str(a.outcome)) for a in job.attempts] == [
                (1, "lost"),
                (2, "succeeded"),
            ]
            assert job.attempts[0].error_type == "WorkerLost"
            gap = job.attempts[1].started_at - job.attempts[0].finished_at
            assert gap.total_seconds() < DEADLINE  # not at the next poll, in an hour
        assert [worker.id for worker in await app.store.workers()] == [workers[survivor.pid]]


async def test_a_blocked_event_loop_is_alive(app: Mutirao) -> None:
    """A handler that computes for longer than the expiry is not rescued from."""
    [id] = enqueue(app, "block")
    async with running(app, expiry=1.0) as worker, running(app, expiry=1.0) as other:
        await until_state(app, id, JobState.RUNNING)
        beats = await beats_of(app)
        for _ in range(8):  # each of them beats eight times: longer than the expiry
            beats = await later_beats(app, beats)
        worker.let_go()
        other.let_go()
        job = await ended(app, id)
    assert [(a.attempt, str(a.outcome)) for a in job.attempts] == [(1, "succeeded")]


async def beats_of(app: Mutirao) -> dict[int, object]:
    """Return when each worker has last given a sign of life."""
    return {worker.id: worker.beat_at for worker in await app.store.workers()}


async def later_beats(app: Mutirao, before: dict[int, object]) -> dict[int, object]:
    """Wait until each of these workers has beaten again."""

    async def beaten() -> dict[int, object] | None:
        now = await beats_of(app)
        assert set(before) <= set(now), "a worker was taken for gone"
        return now if all(now[id] != beat for id, beat in before.items()) else None

    return await until(beaten)


async def test_killed_in_the_last_attempt(app: Mutirao) -> None:
    """There is no further one: dead, and the reason says how."""
    [id] = app.store.enqueue([NewJob(task="hold", max_attempts=1)])
    async with running(app) as worker:
        await worker.says(f"begun {id}")
        worker.send(signal.SIGKILL)
        await worker.ends()
    async with running(app):
        job = await until_attempts(app, id, 2)
    assert (job.state, outcomes(job)) == (JobState.DEAD, ["lost", "dead"])
