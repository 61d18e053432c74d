"""The commit happened, and the connection broke before its answer came."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mutirao import DeadJob, Job, Mutirao, Retry
from mutirao.engine.settings import WorkerSettings
from mutirao.errors import StoreUnavailable
from mutirao.sql.store.jobs import SqlStore
from tests.integration.service.kit import Tables, all_finished
from tests.integration.worker.kit import ended, outcomes, working
from tests.support.engine import unanswered_claims
from tests.support.waiting import soon, until

pytestmark = pytest.mark.repeats("sqlite", decided="tests/conformance")


class Forgetful(SqlStore):
    """Loses the first answer to each of the calls named in `forgets`, after it was committed.

    As long as `held` is among them, it does not answer that at all. With `late`, the next claim is
    committed only after somebody has asked what is held.
    """

    def __init__(self, url: Any, forgets: set[str], *, pool_size: int = 5) -> None:
        super().__init__(url, pool_size=pool_size)
        self.forgets = forgets
        self._late: tuple[Any, Any] | None = None

    def clone(self, connections: int = 1, *, within: float | None = None) -> Forgetful:
        """As any store's; what is forgotten once is forgotten once by all."""
        return Forgetful(self.engines.url, self.forgets, pool_size=connections)

    async def claim(self, *args: Any, **kwargs: Any) -> Any:
        """Take due jobs."""
        if "late" in self.forgets:
            self._late = args, kwargs
            self._forget("late", None)
        claims = await super().claim(*args, **kwargs)
        return self._forget("claim", claims) if claims else claims

    async def settle(self, *args: Any, **kwargs: Any) -> Any:
        """Write outcomes."""
        return self._forget("settle", await super().settle(*args, **kwargs))

    async def release(self, *args: Any, **kwargs: Any) -> Any:
        """Give back."""
        return self._forget("release", await super().release(*args, **kwargs))

    async def held(self, *args: Any, **kwargs: Any) -> Any:
        """Return what a worker holds."""
        if "held" in self.forgets:
            raise StoreUnavailable("that takes longer than the server allows")
        held = await super().held(*args, **kwargs)
        if self._late is not None:
            (late, named), self._late = self._late, None
            await super().claim(*late, **named)
        return held

    def _forget(self, call: str, answer: Any) -> Any:
        if call in self.forgets:
            self.forgets.remove(call)
            raise StoreUnavailable(f"the answer to {call} was lost")
        return answer


@pytest.fixture
async def forgetful(url: str) -> AsyncIterator[Mutirao]:
    """An application whose store forgets what a test puts in its `forgets`."""
    store = Forgetful(url, set())
    application = Mutirao(store=store, notifier=store.notifier())
    yield application
    await application.aclose()


def forget(app: Mutirao, *calls: str) -> None:
    """Have the next answers to these calls lost."""
    still_remembered(app).update(calls)


def still_remembered(app: Mutirao) -> set[str]:
    """Return the calls whose answers have not been lost yet."""
    assert isinstance(app.store, Forgetful)
    return app.store.forgets


async def test_a_claim(forgetful: Mutirao, url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Its jobs are given back, which costs no attempt, and then run once."""
    calls: Counter[int] = Counter()

    @forgetful.task
    async def step(job: Job) -> None:
        calls[job.id] += 1
        assert job.attempt == 1

    forget(forgetful, "claim", "release")
    await forgetful.aenqueue_many([step.job() for _ in range(20)])
    async with working(forgetful):
        await all_finished(Tables(url), 20)
    assert not still_remembered(forgetful)
    assert set(calls.values()) == {1}
    assert Tables(url).outcomes() == {"succeeded"}
    assert "giving back 20 jobs whose claim was cut off" in caplog.text


async def test_a_claim_that_is_committed_late(
    forgetful: Mutirao, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its server was not told that nobody waits for it any more; a later look finds its jobs."""

    @forgetful.task
    async def step() -> None: ...

    monkeypatch.setattr(unanswered_claims, "REPEATED_AFTER", (0.05, 0.1, 1.0, 5.0))
    forget(forgetful, "late")
    await forgetful.aenqueue_many([step.job() for _ in range(20)])
    async with working(forgetful):
        await all_finished(Tables(url), 20)
    assert Tables(url).outcomes() == {"succeeded"}


async def test_who_cannot_find_out_what_it_holds(forgetful: Mutirao, url: str) -> None:
    """Goes on claiming, and gives back what it must when it can."""

    @forgetful.task
    async def step() -> None: ...

    forget(forgetful, "claim", "held")
    await forgetful.aenqueue_many([step.job() for _ in range(20)])
    async with working(forgetful):
        await until(lambda: "claim" not in still_remembered(forgetful))
        await ended(forgetful, (await step.aenqueue()).id)
        still_remembered(forgetful).remove("held")
        await all_finished(Tables(url), 21)
    assert Tables(url).outcomes() == {"succeeded"}


@pytest.mark.parametrize("mixed", [False, True])
async def test_a_settlement(
    forgetful: Mutirao, url: str, caplog: pytest.LogCaptureFixture, mixed: bool
) -> None:
    """It is tried again, finds itself written, and writes nothing a second time."""
    calls: Counter[int] = Counter()

    @forgetful.task(retry=Retry.fixed(2, interval=0.2))
    async def step(job: Job) -> None:
        calls[job.id] += 1
        if mixed and job.id % 2 and job.attempt == 1:
            raise ValueError("the first time")

    ids = await forgetful.aenqueue_many([step.job() for _ in range(20)])
    forget(forgetful, "settle")
    async with working(forgetful):
        await all_finished(Tables(url), 20)
        records = [await ended(forgetful, id) for id in ids]
    assert not still_remembered(forgetful)
    twice = {id for id in ids if mixed and id % 2}
    assert calls == {id: 2 if id in twice else 1 for id in ids}
    assert {
        record.id for record in records if outcomes(record) == ["retried", "succeeded"]
    } == twice
    assert "the answer to settle was lost" in caplog.text
    assert "was taken from this worker" not in caplog.text


async def test_a_settlement_with_an_on_dead_job(forgetful: Mutirao, url: str) -> None:
    """The death is announced once."""
    announced: list[int] = []

    @forgetful.task(max_attempts=1)
    async def fail() -> None:
        raise ValueError("always")

    @fail.on_dead
    async def bury(dead: DeadJob) -> None:
        announced.append(dead.id)

    forget(forgetful, "settle")
    await fail.aenqueue()
    async with working(forgetful):
        await all_finished(Tables(url), 2)
    assert announced == [1]


async def test_a_heartbeat_that_fails(app: Mutirao, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker without one would be rescued from while it works: it ends, and says why."""

    @app.task
    async def quick() -> None: ...

    async def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("a defect")

    worker = app._make_worker(WorkerSettings(heartbeat=0.05, expiry=5.0))
    await worker.start()
    await ended(app, (await quick.aenqueue()).id)
    monkeypatch.setattr(SqlStore, "beat", broken)
    await soon(worker.ended.wait())
    assert isinstance(worker.failure, ZeroDivisionError)
