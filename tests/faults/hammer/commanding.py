"""What people and their programs order: cancel, retry, change, redrive, limits, prune, rescue."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

from mutirao import Limit
from mutirao.errors import NothingToRedrive, UnknownGraph, UnknownLimit, WorkerGone
from mutirao.model.jobs.job import JobState, NewWorker, OutcomeKind
from tests.faults.hammer import app
from tests.faults.hammer.hand import Hand
from tests.faults.hammer.operation import Operation
from tests.faults.hammer.stage import COMMAND

MOST = 30  # jobs that one order is about
EXTRA = "extra"  # a limit that is made and removed
ENDS = (OutcomeKind.SUCCEEDED, OutcomeKind.CANCELLED, OutcomeKind.DEAD)


def _filter(hand: Hand) -> dict[str, Any]:
    dice = hand.dice
    narrowing: dict[str, Any] = dice.choice(
        (
            {"queue": dice.choice(app.QUEUES)},
            {"task": dice.choice(("keyed", "superseded", "limited", "step", "keyed_and_limited"))},
            {"state": dice.choice((JobState.BLOCKED, JobState.READY, JobState.SCHEDULED))},
            {"tag": dice.choice(app.TENANTS)},
        )
    )
    return narrowing | {"limit": dice.randint(1, MOST)}


async def cancel_by_filter(hand: Hand) -> None:
    """Cancel the oldest that are of a queue, a task, a state or a tag."""
    await hand.commander.acancel(**_filter(hand))


async def cancel_by_ids(hand: Hand) -> None:
    """Cancel jobs that were named in any order."""
    await hand.commander.acancel(*hand.some_jobs(MOST))


async def cancel_graph(hand: Hand) -> None:
    """Cancel what is left of a graph."""
    if hand.known.graphs:
        with suppress(UnknownGraph):  # pruned
            await hand.commander.acancel_graph(hand.dice.choice(hand.known.graphs))


async def run_now_by_filter(hand: Hand) -> None:
    """Make the oldest of a queue, a task, a state or a tag due now."""
    await hand.commander.aretry(**_filter(hand))


async def run_now_by_ids(hand: Hand) -> None:
    """Make jobs due now that were named in any order."""
    await hand.commander.aretry(*hand.some_jobs(MOST))


def _new_values(hand: Hand) -> Any:
    dice = hand.dice
    return dice.choice(
        (
            {"priority": dice.randint(-2, 2)},
            {"queue": dice.choice(app.QUEUES)},
            {"delay": dice.choice((0, 0.5))},
            {"queue": dice.choice(app.QUEUES), "priority": 0, "delay": 0},
        )
    )


async def change_by_filter(hand: Hand) -> None:
    """Give the oldest of a queue, a task, a state or a tag new values."""
    where: Any = _filter(hand)
    await hand.commander.achange(where=where, **_new_values(hand))


async def change_by_ids(hand: Hand) -> None:
    """Give jobs new values that were named in any order."""
    await hand.commander.achange(*hand.some_jobs(MOST), **_new_values(hand))


async def redrive_by_filter(hand: Hand) -> None:
    """Enqueue the oldest dead ones again."""
    await hand.commander.aredrive(state=JobState.DEAD, limit=hand.dice.randint(1, MOST))


async def redrive_by_ids(hand: Hand) -> None:
    """Enqueue those again that are dead, of some that were named in any order."""
    with suppress(NothingToRedrive):
        await hand.commander.aredrive(*hand.some_jobs(MOST))


async def change_limit(hand: Hand) -> None:
    """Give a limit of the code other terms."""
    dice, limits = hand.dice, hand.commander.limits
    match dice.randrange(5):
        case 0:
            await limits.aput(Limit(dice.randint(2, 12)), task="limited")
        case 1:
            await limits.aput(Limit(dice.randint(1, 6), by="tenant"), task="limited")
        case 2:
            await limits.aput(Limit(dice.randint(2, 12)), task="keyed_and_limited")
        case 3:
            await limits.aput(Limit(dice.randint(50, 200), per=1, burst=20), task="rated")
        case _:
            await limits.aput(Limit(dice.randint(5, 40)), queue="aside")


async def extra_limit(hand: Hand) -> None:
    """Make a limit, of one thing or another, or remove it."""
    dice, limits = hand.dice, hand.commander.limits
    if dice.random() < 0.4:
        where = dice.choice(({"task": "keyed"}, {"task": "superseded"}, {"queue": "work"}))
        await limits.aput(Limit(dice.randint(4, 12), name=EXTRA), **where)
    else:
        with suppress(UnknownLimit):
            await limits.aremove(EXTRA)


def _paused(hand: Hand) -> dict[str, str]:
    choices = (
        {"queue": "aside"},
        {"task": "superseded"},
        {"task": "keyed"},
        {"task": "limited", "key": "ann", "by": "tenant"},
        {"task": "limited_in_turn", "key": "bob", "by": "tenant"},
    )
    return dict(hand.dice.choice(choices))


async def pause(hand: Hand) -> None:
    """Let nothing of a queue, a task or a tenant start."""
    await hand.commander.apause(**_paused(hand))


async def resume(hand: Hand) -> None:
    """Let it start again, if it was paused."""
    with suppress(UnknownLimit):
        await hand.commander.aresume(**_paused(hand))


async def prune(hand: Hand) -> None:
    """Delete what has ended some seconds ago."""
    age = timedelta(seconds=hand.dice.uniform(4, 8))
    await hand.commander.aprune(hand.dice.choice(ENDS), age, hand.dice.randint(20, 300))


async def rescue(hand: Hand) -> None:
    """Give back the jobs of workers that have vanished."""
    await hand.commander.store.rescue(orphans=hand.dice.random() < 0.3)


async def vanish(hand: Hand) -> None:
    """Be a worker that takes some jobs, gives half of them back, and is never heard of again."""
    store, dice = hand.commander.store, hand.dice
    queues = (dice.choice(app.QUEUES),)
    new = NewWorker(name="brief", host="-", pid=1, queues=queues, concurrency=4, version="0")
    worker = await store.register(new, expiry=0.3)
    lanes = [head.lane for head in await store.lanes(queues) if head.due_in <= 0]
    with suppress(WorkerGone):  # it was slow, and has vanished already
        claims = await store.claim(worker, lanes, dice.randint(1, 4)) if lanes else []
        await store.release([(claim.id, claim.run) for claim in claims[::2]])


COMMANDING = (
    Operation(COMMAND, cancel_by_filter, 4),
    Operation(COMMAND, cancel_by_ids, 4),
    Operation(COMMAND, cancel_graph, 2),
    Operation(COMMAND, run_now_by_filter, 3),
    Operation(COMMAND, run_now_by_ids, 3),
    Operation(COMMAND, change_by_filter, 3),
    Operation(COMMAND, change_by_ids, 3),
    Operation(COMMAND, redrive_by_filter, 2, grows=True),
    Operation(COMMAND, redrive_by_ids, 2, grows=True),
    Operation(COMMAND, change_limit, 3),
    Operation(COMMAND, extra_limit, 2),
    Operation(COMMAND, pause, 1),
    Operation(COMMAND, resume, 4),
    Operation(COMMAND, prune, 4),
    Operation(COMMAND, rescue, 3),
    Operation(COMMAND, vanish, 2),
)
