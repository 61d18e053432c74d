"""`app.actions`: in batches, told, stopped and killed half-way, on SQLite."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mutirao import Mutirao
from mutirao.errors import InvalidFilter, StoreBusy
from mutirao.model.audit.actions import Action, ActionKind, ActionState, Came, NewAction
from mutirao.model.jobs.change import Change
from mutirao.model.jobs.job import JobState
from mutirao.model.jobs.records import JobFilter
from mutirao_conformance.kit import deadline

CANCEL = Action(ActionKind.CANCEL)


@pytest.fixture
async def app(migrated_sqlite_url: str) -> AsyncIterator[Mutirao]:
    """An application with a task, and ten jobs that wait."""
    app = Mutirao(migrated_sqlite_url)

    @app.task(queue="mail")
    def send(n: int) -> None: ...

    await app.aenqueue_many([send.job(n=n) for n in range(10)])
    yield app
    await app.aclose()


async def _states(app: Mutirao) -> list[str]:
    return [str(job.state) for job in reversed(await app.ajobs(limit=None))]


async def test_everything_that_matches(app: Mutirao) -> None:
    """In batches, each of which is told; the rest is left alone."""
    told: list[Came] = []
    record = await app.actions.arun(
        CANCEL, "-arg.n:0,1", by="ana", batch=3, expected=8, progress=lambda _, c: told.append(c)
    )
    assert [each.done for each in told] == [3, 6, 8]
    assert (record.who, record.filter, record.expected) == ("ana", "-arg.n:0,1", 8)
    assert (record.matched, record.done, record.passed_over) == (8, 8, 0)
    assert record.state is ActionState.DONE
    assert await _states(app) == ["ready"] * 2 + ["cancelled"] * 8
    assert await app.actions.alist() == (record,)


async def test_each_kind(app: Mutirao) -> None:
    """Change, retry, cancel, redrive and delete; what cannot be is passed over, and why."""
    ids = sorted(job.id for job in await app.ajobs(limit=None))
    run = app.actions.arun
    later = Action(ActionKind.CHANGE, Change(run_at=datetime.now(UTC) + timedelta(days=1)))
    changed = await run(later, "queue:mail", by="ana", ids=None, batch=4)
    assert (changed.done, (changed.change or "")[:11]) == (10, '{"run_at": ')
    assert await _states(app) == ["scheduled"] * 10
    assert (await run(Action(ActionKind.RETRY), by="ana", ids=(ids[0], 99))).why == {"gone": 1}
    assert (await run(CANCEL, "state:scheduled", by="ana")).done == 9
    again = await run(CANCEL, "queue:mail", by="ana")
    assert (again.matched, again.done, again.why) == (10, 1, {"cancelled": 9})
    redriven = await run(Action(ActionKind.REDRIVE), "state:cancelled arg.n:3,4", by="ana", batch=1)
    assert (redriven.matched, redriven.done) == (2, 2)
    once_more = await run(Action(ActionKind.REDRIVE), "state:cancelled arg.n:3,4", by="ana")
    assert (once_more.matched, once_more.done, once_more.passed_over) == (2, 0, 2)
    gone = await run(Action(ActionKind.DELETE), "queue:mail", by="ana", batch=5)
    assert (gone.done, gone.why) == (10, {"ready": 2})
    assert await _states(app) == ["ready"] * 2


async def test_what_comes_later_is_left_alone(app: Mutirao) -> None:
    """Also what the action itself enqueues."""

    def enqueue(*_: object) -> None:
        app.enqueue_many([app.tasks["send"].job(n=77)])

    await app.actions.arun(CANCEL, "queue:mail", by="ana", batch=4, progress=enqueue)
    assert (await _states(app)).count("ready") == 3


@pytest.mark.parametrize("kind", [ActionKind.CANCEL, ActionKind.REDRIVE])
async def test_only_what_was_counted_is_acted_on(
    kind: ActionKind, app: Mutirao, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that begins to match after its batch was looked for is left alone."""
    store, name = app.store, str(kind)
    late = JobFilter(ids=(sorted(job.id for job in await app.ajobs(limit=None))[4],))
    work = getattr(store, name)
    await store.change(late, Change(queue="late"))
    if kind is ActionKind.REDRIVE:
        await store.cancel(JobFilter(queue="mail", limit=None))

    async def meanwhile(which: JobFilter) -> list[int]:
        await store.change(late, Change(queue="mail"))
        if kind is ActionKind.REDRIVE:
            await store.cancel(late)
        return list(await work(which))

    monkeypatch.setattr(store, name, meanwhile)
    state = "ready" if kind is ActionKind.CANCEL else "cancelled"
    record = await app.actions.arun(Action(kind), f"queue:mail state:{state}", by="ana")
    assert (record.matched, record.done, record.passed_over) == (9, 9, 0)


async def test_ids_within_a_filter(app: Mutirao) -> None:
    """Of those that are named, only what the filter means; the audit has both."""
    ids = tuple(sorted(job.id for job in await app.ajobs(limit=None)))
    await app.store.change(JobFilter(ids=ids[:1]), Change(queue="video"))
    record = await app.actions.arun(CANCEL, "queue:mail", ids=ids[:3], by="ana", batch=2)
    assert (record.filter, record.ids) == ("queue:mail", ids[:3])
    assert (record.matched, record.done, record.why) == (3, 2, {"not matching": 1})
    assert await _states(app) == ["ready", "cancelled", "cancelled"] + ["ready"] * 7


async def test_stopped_half_way(app: Mutirao) -> None:
    """From elsewhere: after its batch; what is done is done, and it says so."""
    other = Mutirao(app.url)
    stopped = []

    def stop(id: int, came: Came) -> None:
        if came.done == 4:
            stopped.append(other.actions.stop(id))

    record = await app.actions.arun(CANCEL, "queue:mail", by="ana", batch=2, progress=stop)
    other.close()
    assert stopped == [True]
    assert (record.state, record.done) == (ActionState.STOPPED, 4)
    assert (await _states(app)).count(JobState.CANCELLED) == 4


KILLED = """
import os, sys
from mutirao import Mutirao
from mutirao.model.audit.actions import Action, ActionKind
kill = lambda id, came: came.done == 4 and os._exit(9)
Mutirao(sys.argv[1]).actions.run(Action(ActionKind.CANCEL), "queue:mail", by="ana", batch=2, progress=kill)
"""  # noqa: E501


async def test_killed_half_way(app: Mutirao) -> None:
    """Its entry says how far it came, but for the batch that it had just done; nothing else is."""
    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", KILLED, str(app.url))
    async with deadline():
        assert await killed.wait() == 9
    [record] = await app.actions.alist()
    assert (record.state, record.done, record.finished_at) == (ActionState.RUNNING, 2, None)
    assert (await _states(app)).count(JobState.CANCELLED) == 4
    # It is lost once nothing was seen of it for a minute; whoever gives the order again goes on.
    rest = await app.actions.arun(CANCEL, "queue:mail state:ready", by="ana")
    assert rest.done == 6


async def test_cancelled_and_failed(app: Mutirao, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is interrupted, or meets an error, leaves an entry that says so."""

    async def fail(*_: Any, **__: Any) -> list[int]:
        raise StoreBusy("too much to do")

    with monkeypatch.context() as patch:
        patch.setattr(app.store, "cancel", fail)
        with pytest.raises(StoreBusy):
            await app.actions.arun(CANCEL, "queue:mail", by="ana")
    [failed] = await app.actions.alist()
    assert (failed.state, failed.error) == (ActionState.FAILED, "StoreBusy: too much to do")

    begun = asyncio.Event()

    async def never(*_: Any, **__: Any) -> list[int]:
        begun.set()
        await asyncio.Event().wait()
        return []

    with monkeypatch.context() as patch:
        patch.setattr(app.store, "cancel", never)
        task = asyncio.create_task(app.actions.arun(CANCEL, "queue:mail", by="ana"))
        async with deadline():
            await begun.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    [stopped, _] = await app.actions.alist()
    assert (stopped.state, stopped.done) == (ActionState.STOPPED, 0)
    assert await _states(app) == ["ready"] * 10


async def test_stopped_by_whoever_runs_it(app: Mutirao) -> None:
    """After its batch; where that was the last one, it is done."""
    told: list[Came] = []

    async def cancel(text: str, after: int) -> tuple[ActionState, int]:
        told.clear()
        record = await app.actions.arun(
            CANCEL, text, by="ana", batch=2, progress=lambda _, came: told.append(came),
            is_stopping=lambda: len(told) >= after,
        )  # fmt: skip
        return record.state, record.done

    assert await cancel("arg.n:0,1,2,3,4", 2) == (ActionState.STOPPED, 4)
    assert await cancel("arg.n:6,7,8", 2) == (ActionState.DONE, 3)


async def test_what_is_done_is_told_though_the_audit_cannot_be(
    app: Mutirao, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever acts learns what came of it; the log says what the audit does not have."""

    async def busy(*_: object, **__: object) -> bool:
        raise StoreBusy("too much to do")

    async def work() -> list[int]:
        return [7]

    monkeypatch.setattr(app.store.audit, "advance", busy)
    new = NewAction(who="ana", action=ActionKind.CANCEL, ids=(7,))
    assert await app.actions.aobserve(new, work) == [7]
    assert "the audit" in caplog.text


async def test_what_is_refused(app: Mutirao) -> None:
    """Everything, nobody, too many: before anything is written down."""
    run = app.actions.arun
    for text, by, ids in [
        ("", "ana", None), (None, "ana", None), ("stat:x", "ana", None), ("tag:x", "", None),
        ("tag:x", "a\nb", None), ("tag:x", "x" * 201, None), (None, "ana", ()), (None, "ana", (0,)),
    ]:  # fmt: skip
        with pytest.raises(InvalidFilter):
            await run(CANCEL, text, by=by, ids=ids)
    with pytest.raises(InvalidFilter):
        Action(ActionKind.CHANGE)
    with pytest.raises(InvalidFilter):
        Action(ActionKind.RETRY, Change(priority=1))
    assert await app.actions.alist() == ()
    assert await app.actions.aget(7) is None
