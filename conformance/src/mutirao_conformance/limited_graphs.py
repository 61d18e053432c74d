"""Steps of limited tasks: they wait for earlier steps first, and then for room."""

from mutirao.model.graphs.graph import OnDead, chain, group, step
from mutirao.model.jobs.job import JobState, NewJob, OutcomeKind
from mutirao.model.jobs.records import GraphState
from mutirao.model.limits.limits import pause_of
from mutirao.ports import Store
from mutirao_conformance.graphs import stands, states, write_graph
from mutirao_conformance.kit import (
    NOW,
    due,
    ended,
    finish,
    ids_of,
    join,
    put,
    take,
    take_one,
)
from mutirao_conformance.limits import full, limited, of


def last(**options: object) -> NewJob:
    """Return a job of a task without limits."""
    return due("last", **options)


class LimitedGraphsContract:
    """`Store.enqueue_graph` and `Store.limits` in combination."""

    async def test_limited_members_and_what_follows(self, store: Store) -> None:
        """No more members run than may; what follows waits for those that were parked, too."""
        rule = await limited(store, 2)
        *members, after = await write_graph(store, chain(group(due() for _ in range(5)), last()))
        worker = await join(store)
        seen: list[int] = []
        while claims := await take(store, worker):
            assert len(claims) <= (await full(store, rule.name)).running <= 2
            assert await stands(store, members[0]) == (GraphState.RUNNING, "greet")
            assert (await store.job(after)).state is JobState.BLOCKED
            await finish(store, worker, claims)
            seen += ids_of(claims)
            if len(seen) == len(members):
                break
        assert seen == members
        assert (await full(store, rule.name)).running == 0
        assert (await take_one(store, worker)).id == after

    async def test_released_while_its_limit_is_full(self, store: Store) -> None:
        """A step whose turn has come waits for room; its graph goes on, nothing stops it."""
        rule = await limited(store, by="tenant")
        worker = await join(store)
        [other] = await put(store, of("a"))
        holder = await take_one(store, worker)
        first, limited_one, after = await write_graph(store, chain(last(), of("a"), last()))
        await finish(store, worker, [await take_one(store, worker)])
        assert await take(store, worker) == []
        record = await store.graph(first)
        assert (record.state, record.stage) == (GraphState.RUNNING, "greet")
        assert (record.blocked, record.waiting, record.succeeded) == (1, 1, 1)
        assert await states(store, [limited_one, after]) == [JobState.BLOCKED] * 2
        assert (await store.job(limited_one)).run_at == NOW
        assert (await full(store, rule.name, "a")).parked == 1
        await finish(store, worker, [holder])
        assert holder.id == other
        for id in (limited_one, after):
            claim = await take_one(store, worker)
            assert claim.id == id
            await finish(store, worker, [claim])
        assert await stands(store, first) == (GraphState.SUCCEEDED, None)

    async def test_other_steps_release_nothing_that_is_parked(self, store: Store) -> None:
        """A step that waits for room is not let go because another one of its graph has ended."""
        await limited(store)
        _, second, other, _ = await write_graph(store, chain(group(due(), due(), last()), last()))
        worker = await join(store)
        claims = {claim.id: claim for claim in await take(store, worker)}
        assert second not in claims
        await finish(store, worker, [claims[other]])
        assert await take(store, worker) == []
        assert (await store.job(second)).state is JobState.BLOCKED

    async def test_given_up_while_parked(self, store: Store) -> None:
        """Where a graph is undone, steps that wait for room are cancelled, and leave it."""
        rule = await limited(store)
        composed = group(due(), due(), step(last(), on_dead=OnDead.COMPENSATE))
        first, parked, bad = await write_graph(store, composed)
        worker = await join(store)
        claims = {claim.id: claim for claim in await take(store, worker)}
        assert sorted(claims) == [first, bad]
        dead = ended(claims[bad], OutcomeKind.DEAD)
        assert await store.settle(worker, [dead], now=NOW) == {bad}
        assert (await store.job(parked)).state is JobState.CANCELLED
        assert (await full(store, rule.name)).parked == 0
        await finish(store, worker, [claims[first]])
        assert (await full(store, rule.name)).running == 0
        assert await take(store, worker) == []

    async def test_given_up_with_room(self, store: Store) -> None:
        """The room that a step was called back for is not lost with it: others have it."""
        rule = await limited(store)
        worker = await join(store)
        composed = group(due(), due(), step(last(), on_dead=OnDead.COMPENSATE))
        first, parked, bad = await write_graph(store, composed)
        [other] = await put(store, due())
        claims = {claim.id: claim for claim in await take(store, worker)}
        assert sorted(claims) == [first, bad]
        assert (await full(store, rule.name)).parked == 2
        batch = [ended(claims[first]), ended(claims[bad], OutcomeKind.DEAD)]
        assert await store.settle(worker, batch, now=NOW) == {first, bad}
        assert await states(store, [parked, other]) == [JobState.CANCELLED, JobState.READY]
        assert (await take_one(store, worker)).id == other

    async def test_a_paused_queue(self, store: Store) -> None:
        """Its steps are blocked, and their graph runs on: it needs no redriving."""
        pause = pause_of("q", None)
        await store.limits.put(pause, now=NOW)
        first, second = await write_graph(store, chain(last(), last(queue="q")))
        worker = await join(store)
        await finish(store, worker, [await take_one(store, worker)])
        assert await take(store, worker) == []
        assert (await store.job(second)).state is JobState.BLOCKED
        assert await stands(store, first) == (GraphState.RUNNING, "last")
        await store.limits.remove(pause.name)
        assert (await take_one(store, worker)).id == second
