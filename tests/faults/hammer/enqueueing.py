"""What callers do: transactions that only enqueue. None of them may ever meet a deadlock.

Several calls in one transaction take their keys in one order, as `docs/uniqueness.md` asks; one
call of `enqueue_many` may name its jobs in any order.
"""

from __future__ import annotations

from mutirao import NewJob, chain, group, step
from tests.faults.hammer import app
from tests.faults.hammer.hand import Hand
from tests.faults.hammer.operation import Operation
from tests.faults.hammer.stage import CALLER


async def keyed_calls(hand: Hand) -> None:
    """Enqueue jobs with keys, call by call, in the order of the keys."""
    await _calls(hand, [app.with_key(hand.dice, key) for key in app.some_keys(hand.dice, 6, 12)])


async def superseding_calls(hand: Hand) -> None:
    """Enqueue jobs that supersede others, call by call, in the order of the keys."""
    await _calls(hand, [app.superseding(hand.dice, key) for key in app.some_keys(hand.dice, 4, 8)])


async def mixed_calls(hand: Hand) -> None:
    """Enqueue jobs with and without keys, call by call, in the order of the keys."""
    with_keys = [app.any_with_key(hand.dice, key) for key in app.some_keys(hand.dice, 6, 12)]
    await _calls(hand, [*with_keys, hand.without_key()])


class _GivenUp(Exception):
    """A caller rolls back."""


async def rolled_back(hand: Hand) -> None:
    """Enqueue jobs with keys, and roll back."""
    jobs = app.in_order(app.any_with_key(hand.dice, key) for key in app.some_keys(hand.dice, 6, 12))
    try:
        async with hand.transaction() as connection:
            for job in jobs:
                await hand.enqueuer.asubmit(job, connection)
            raise _GivenUp
    except _GivenUp:
        return


async def keyed_batch(hand: Hand) -> None:
    """Enqueue jobs with keys in one call, in any order, in a transaction of ours."""
    await _batch(
        hand, [app.any_with_key(hand.dice, key) for key in app.some_keys(hand.dice, 6, 12)]
    )


async def keyed_batch_alone(hand: Hand) -> None:
    """Enqueue jobs with keys in one call, in any order, in a transaction of its own."""
    jobs = [app.any_with_key(hand.dice, key) for key in app.some_keys(hand.dice, 6, 12)]
    hand.known.jobs.extend(await hand.enqueuer.aenqueue_many(jobs))


async def mixed_batch(hand: Hand) -> None:
    """Enqueue jobs with and without keys in one call, in any order."""
    with_keys = [app.any_with_key(hand.dice, key) for key in app.some_keys(hand.dice, 4, 8)]
    jobs = with_keys + [hand.without_key() for _ in range(hand.dice.randint(2, 8))]
    await _batch(hand, hand.dice.sample(jobs, len(jobs)))


async def batch(hand: Hand) -> None:
    """Enqueue jobs without keys in one call."""
    await _batch(hand, [hand.without_key() for _ in range(hand.dice.randint(3, 12))])


async def one_keyed(hand: Hand) -> None:
    """Enqueue a job with a key, in a transaction of its own."""
    job = app.any_with_key(hand.dice, hand.dice.choice(app.KEYS))
    hand.known.jobs.append((await hand.enqueuer.asubmit(job)).id)


async def one_plain(hand: Hand) -> None:
    """Enqueue a job without a key, in a transaction of its own."""
    hand.known.jobs.append((await hand.enqueuer.asubmit(hand.without_key())).id)


async def graph(hand: Hand) -> None:
    """Enqueue a chain around a group, whose steps may be undone."""
    on_dead = hand.dice.choice(("stop", "continue", "compensate"))
    undo = app.undo.job(1) if on_dead == "compensate" else None
    first, last = (step(app.step.job(n), compensate=undo) for n in (1, 2))
    middle = group(app.step.job(n) for n in range(hand.dice.randint(2, 4)))
    async with hand.transaction() as connection:
        made = await hand.enqueuer.aenqueue_graph(
            chain(first, middle, last), on_dead=on_dead, conn=connection
        )
    hand.known.graphs.append(made.id)
    hand.known.jobs.extend(each.id for each in made.jobs)


async def _calls(hand: Hand, jobs: list[NewJob]) -> None:
    async with hand.transaction() as connection:
        handles = [await hand.enqueuer.asubmit(job, connection) for job in app.in_order(jobs)]
    hand.known.jobs.extend(handle.id for handle in handles)


async def _batch(hand: Hand, jobs: list[NewJob]) -> None:
    async with hand.transaction() as connection:
        ids = await hand.enqueuer.aenqueue_many(jobs, connection)
    hand.known.jobs.extend(ids)


ENQUEUEING = (
    Operation(CALLER, keyed_calls, 14),
    Operation(CALLER, superseding_calls, 8),
    Operation(CALLER, mixed_calls, 8, grows=True),
    Operation(CALLER, rolled_back, 3),
    Operation(CALLER, keyed_batch, 10),
    Operation(CALLER, keyed_batch_alone, 6),
    Operation(CALLER, mixed_batch, 6, grows=True),
    Operation(CALLER, batch, 6, grows=True),
    Operation(CALLER, one_keyed, 4),
    Operation(CALLER, one_plain, 4, grows=True),
    Operation(CALLER, graph, 5, grows=True),
)
