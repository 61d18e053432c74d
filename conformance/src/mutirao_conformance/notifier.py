"""Wake-ups: the contract of a notifier, on which workers never depend."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mutirao.errors import StoreUnavailable
from mutirao.model.jobs.job import NewJob, Wake
from mutirao.ports import Notifier, Store
from mutirao_conformance.kit import (
    FAR_AHEAD,
    Face,
    both_faces,
    deadline,
    due,
    enqueue,
    join,
    put,
    take,
)

IDLE = 3_600.0  # seconds that a listening worker stays alive in these tests


@asynccontextmanager
async def listening(notifier: Notifier) -> AsyncIterator[AsyncIterator[Wake]]:
    """Listen, and wait for the wake that says so; stop listening at the end."""
    wakes = notifier.listen()
    try:
        async with deadline():
            assert await anext(wakes) == Wake()
        yield wakes
    finally:
        await wakes.aclose()  # type: ignore[attr-defined]


async def until(wakes: AsyncIterator[Wake], queue: str) -> Wake:
    """Wait for a wake that says to look into `queue`, or everywhere."""
    async with deadline():
        async for wake in wakes:
            if wake.queue in (queue, None):
                return wake
    raise AssertionError("the iterator ended by itself")


@pytest.mark.asyncio
class NotifierContract:
    """The contract of every notifier. A backend gives three fixtures.

    `store`: an empty store. `notifier`: one that listens to that store's data. `unreachable`: a
    notifier of the same kind for data that cannot be reached.
    """

    async def test_the_first_wake_says_that_it_listens(
        self, store: Store, notifier: Notifier
    ) -> None:
        """At once, without a lane, though nothing happened."""
        async with listening(notifier):
            pass

    @both_faces
    async def test_a_new_job_wakes(self, store: Store, notifier: Notifier, face: Face) -> None:
        """Every time; with a lane, it is the job's."""
        await join(store, expiry=IDLE, now=None)
        async with listening(notifier) as wakes:
            for priority in (0, -5, 7):
                await enqueue(store, face, [due(queue="mail é", priority=priority)])
                wake = await until(wakes, "mail é")
                if wake.queue is not None:
                    assert (wake.priority, wake.run_at) == (priority, due().run_at)

    @both_faces
    async def test_a_batch_wakes(self, store: Store, notifier: Notifier, face: Face) -> None:
        """Jobs for many lanes in one call: every worker that serves any of them is woken."""
        await join(store, expiry=IDLE, now=None)
        for queue in ("q-0", "q-29"):
            async with listening(notifier) as wakes:
                await enqueue(store, face, [due(queue=f"q-{n}") for n in range(30)])
                await until(wakes, queue)

    async def test_a_job_for_later_wakes(self, store: Store, notifier: Notifier) -> None:
        """Waiting workers must wake: a job may be due earlier than they assumed."""
        await join(store, expiry=IDLE, now=None)
        async with listening(notifier) as wakes:
            await put(store, NewJob(task="t", run_at=FAR_AHEAD))
            wake = await until(wakes, "default")
            assert wake.run_at in (None, FAR_AHEAD)

    async def test_nothing_between_two_waits_is_lost(
        self, store: Store, notifier: Notifier
    ) -> None:
        """A job that arrives while no one waits at the iterator wakes the next wait."""
        await join(store, expiry=IDLE, now=None)
        async with listening(notifier) as wakes:
            await put(store, due(queue="a"))
            await until(wakes, "a")
            await asyncio.gather(*(put(store, due(queue="b")) for _ in range(5)))
            await until(wakes, "b")

    async def test_a_rescue_wakes(self, store: Store, notifier: Notifier) -> None:
        """The jobs of a vanished worker are ready for the idle ones."""
        await put(store, due())
        await take(store, await join(store, expiry=1))
        await join(store, expiry=IDLE, now=None)
        async with listening(notifier) as wakes:
            assert len(await store.rescue()) == 1
            await until(wakes, "default")

    async def test_every_listener_is_woken(self, store: Store, notifier: Notifier) -> None:
        """A notification is for all of them."""
        await join(store, expiry=IDLE, now=None)
        async with listening(notifier) as one, listening(notifier) as other:
            await put(store, due())
            await until(one, "default")
            await until(other, "default")

    async def test_listening_again(self, store: Store, notifier: Notifier) -> None:
        """A notifier may be listened to any number of times, one after another."""
        await join(store, expiry=IDLE, now=None)
        for _ in range(3):
            async with listening(notifier) as wakes:
                await put(store, due())
                await until(wakes, "default")

    async def test_a_cancelled_wait(self, store: Store, notifier: Notifier) -> None:
        """A worker that is stopped while it waits ends."""
        async with listening(notifier) as wakes:
            started = asyncio.Event()

            async def wait() -> Wake:
                started.set()
                return await anext(wakes)

            task = asyncio.create_task(wait())
            await started.wait()
            task.cancel()
            async with deadline():
                with pytest.raises(asyncio.CancelledError):
                    await task

    async def test_out_of_reach(self, unreachable: Notifier) -> None:
        """Raises StoreUnavailable, so that the caller waits and listens again."""
        wakes = unreachable.listen()
        async with deadline():
            with pytest.raises(StoreUnavailable):
                await anext(wakes)
