"""Graphs: which steps are blocked, when they are released, and what follows a failed step."""

import json
from typing import Any

import pytest

from mutirao.errors import UnknownGraph
from mutirao.model.graphs.graph import (
    PREVIOUS,
    Chain,
    Graph,
    Group,
    OnDead,
    Reference,
    Step,
    chain,
    group,
    step,
)
from mutirao.model.graphs.graph_plan import plan
from mutirao.model.jobs.job import Claim, JobState, KeptResult, NewJob, OutcomeKind
from mutirao.model.jobs.outcome import Outcome, Settlement
from mutirao.model.jobs.records import GraphState, JobFilter
from mutirao.ports import Store
from mutirao_conformance.kit import (
    FAR_AHEAD,
    NOW,
    Face,
    at,
    due,
    ended,
    finish,
    ids_of,
    join,
    newcomer,
    put,
    take,
    take_one,
)
from mutirao_conformance.transactions import Failed, Handler, Watched, run

DEAD, CANCELLED = OutcomeKind.DEAD, OutcomeKind.CANCELLED


def a(n: int = 0, **options: Any) -> NewJob:
    """Return a job that is due at NOW."""
    return due("a", args=f'{{"n": {n}}}', **options)


def taking(of: Any = PREVIOUS, **options: Any) -> NewJob:
    """Return a job whose argument `got` is the result of others."""
    return due("b", refers={"got": of.of if isinstance(of, Reference) else of}, **options)


async def write_graph(
    store: Store, composed: Graph | Chain | Group | Step, face: Face = "aenqueue", **options: Any
) -> list[int]:
    """Enqueue a graph; return the ids of its jobs."""
    if not isinstance(composed, Graph):
        whole = Graph(**options)
        whole.add(composed)
        composed = whole
    if face == "enqueue":
        return store.enqueue_graph(plan(composed))
    return await store.aenqueue_graph(plan(composed))


def returned(claim: Claim, value: Any, seconds: float | None = None) -> Settlement:
    """Return the settlement of a job that has succeeded with a result."""
    outcome = Outcome(OutcomeKind.SUCCEEDED, result=KeptResult(json.dumps(value), seconds))
    return Settlement(claim.id, claim.run, outcome, linked=True)


async def states(store: Store, ids: list[int]) -> list[JobState]:
    """Return the states of jobs."""
    return [(await store.job(id)).state for id in ids]


async def stands(store: Store, id: int) -> tuple[GraphState, str | None]:
    """Return a graph's state and stage."""
    record = await store.graph(id)
    return record.state, record.stage


async def ready(store: Store, *, now: Any = NOW) -> list[int]:
    """Return the ids of the jobs that a claim would take, and give them back."""
    claims = await take(store, await join(store), now=now)
    await store.release([(claim.id, claim.run) for claim in claims])
    return sorted(ids_of(claims))


class GraphsContract:
    """`Store.enqueue_graph` and what `settle`, `cancel` and `redrive` owe it."""

    async def test_a_chain(self, store: Store, face: Face) -> None:
        """One after the other: each is due from the moment that the one before has succeeded."""
        first, second, third = await write_graph(store, chain(a(), a(), a()), face)
        worker = await join(store)
        assert await states(store, [first, second, third]) == [
            JobState.READY, JobState.BLOCKED, JobState.BLOCKED,
        ]  # fmt: skip
        for id in (first, second, third):
            assert await stands(store, first) == (GraphState.RUNNING, "a")
            claim = await take_one(store, worker)
            assert claim.id == id
            assert await take(store, worker) == []
            await finish(store, worker, [claim])
        assert await stands(store, first) == (GraphState.SUCCEEDED, None)

    async def test_a_group_and_what_follows(self, store: Store) -> None:
        """Members run at once; what follows waits for all of them, and takes their results."""
        *members, last = await write_graph(store, chain(group(a(1), a(2), a(3)), taking()))
        worker = await join(store)
        claims = await take(store, worker)
        assert ids_of(claims) == members
        for claim in reversed(claims):
            assert await take(store, worker) == []
            value = json.loads(claim.args)["n"] * 10
            assert await store.settle(worker, [returned(claim, value)], now=NOW) == {claim.id}
        follower = await take_one(store, worker)
        assert (follower.id, json.loads(follower.args)) == (last, {"got": [10, 20, 30]})

    async def test_settled_in_one_batch(self, store: Store) -> None:
        """All of a group at once, with jobs of others: what follows is released, once."""
        *members, last = await write_graph(store, chain(group(a(), a(), a()), a()))
        [other] = await put(store, due("other"))
        worker = await join(store)
        claims = await take(store, worker)
        assert sorted(ids_of(claims)) == sorted([*members, other])
        await finish(store, worker, claims)
        assert ids_of(await take(store, worker)) == [last]

    async def test_a_large_group(self, store: Store, face: Face) -> None:
        """More than fit into one statement, before and after a single step."""
        many = [a(n) for n in range(450)]
        ids = await write_graph(store, chain(a(), group(many), group(many), a()), face)
        worker = await join(store)
        counts = []
        for _ in range(4):
            claims = await take(store, worker, 1_000)
            counts.append(len(claims))
            await finish(store, worker, claims)
        assert counts == [1, 450, 450, 1]
        assert (await store.graph(ids[0])).state is GraphState.SUCCEEDED

    async def test_free_dependencies(self, store: Store) -> None:
        """A diamond with a tail; results of any step that is before."""
        graph = Graph("diamond")
        top = graph.add(a(1), stage="read")
        left, right = graph.add(taking(top.result), [top]), graph.add(a(2), top)
        bottom = graph.add(taking(chain(left, right).result), [left, right], stage="write")
        tail = graph.add(taking((top, bottom)), [bottom])
        planned = plan(graph)
        ids = await store.aenqueue_graph(planned)
        at_place = {part: ids[place] for part, place in planned.parts.items()}
        worker = await join(store)
        seen = []
        for value in ("t", None, "b", "e"):
            claims = await take(store, worker)
            seen.append({claim.id: json.loads(claim.args) for claim in claims})
            batch = [returned(c, value or ("l" if c.task == "b" else "r")) for c in claims]
            await store.settle(worker, batch, now=NOW)
        assert seen == [
            {at_place[top]: {"n": 1}},
            {at_place[left]: {"got": "t"}, at_place[right]: {"n": 2}},
            {at_place[bottom]: {"got": "r"}},
            {at_place[tail]: {"got": ["t", "b"]}},
        ]
        record = await store.graph(ids[0])
        assert (record.name, record.jobs, record.succeeded) == ("diamond", 5, 5)
        after = {each.job: set(each.after) for each in record.steps}
        assert after[at_place[bottom]] == {at_place[left], at_place[right]}

    async def test_its_own_time(self, store: Store) -> None:
        """A released step is due at the time that it was asked for."""
        first, later = await write_graph(store, chain(a(), a(run_at=FAR_AHEAD)))
        worker = await join(store)
        await finish(store, worker, [await take_one(store, worker)])
        assert (await store.job(later)).run_at == FAR_AHEAD
        assert (await store.job(later)).state is JobState.SCHEDULED
        assert ids_of(await take(store, worker, now=FAR_AHEAD)) == [later]
        assert (await store.graph(first)).waiting == 0

    @pytest.mark.parametrize("kind", [OutcomeKind.RETRIED, OutcomeKind.SNOOZED])
    async def test_what_has_not_ended_releases_nothing(
        self, store: Store, kind: OutcomeKind
    ) -> None:
        """A retry, a lost worker and a stale settlement leave the later steps blocked."""
        first, second = await write_graph(store, chain(a(), a()))
        gone = await store.register(newcomer(), expiry=5.0, now=NOW)
        claim = await take_one(store, gone)
        assert await store.settle(gone, [ended(claim, kind, after=0.0)], now=NOW) == {first}
        assert await ready(store) == [first]
        stale = await take_one(store, gone)
        await store.rescue(now=at(6))
        assert await store.settle(gone, [ended(stale)], now=at(6)) == set()
        worker = await join(store)
        [again] = await take(store, worker, now=at(6))
        assert again.id == first
        await finish(store, worker, [again])
        assert await ready(store) == [second]

    async def test_a_transaction_releases(self, store: Store, handler: Handler) -> None:
        """`job.transaction()` settles the step and releases the next in one commit, or neither."""
        first, second = await write_graph(store, chain(a(), a()))
        worker = await join(store, now=None)
        claim = await take_one(store, worker)
        with pytest.raises(Failed):
            await run(store, claim, Watched(), handler, fail=True)
        assert await states(store, [first, second]) == [JobState.RUNNING, JobState.BLOCKED]
        await run(store, claim, Watched(), handler)
        assert await states(store, [first, second]) == [JobState.SUCCEEDED, JobState.READY]

    @pytest.mark.parametrize("kind", [DEAD, CANCELLED])
    async def test_stop(self, store: Store, kind: OutcomeKind) -> None:
        """Later steps stay blocked; others of the graph go on."""
        first, other, last = await write_graph(store, chain(group(a(), a()), a()))
        worker = await join(store)
        one, two = await take(store, worker)
        await finish(store, worker, [one], kind)
        assert await stands(store, first) == (GraphState.RUNNING, "a")
        await finish(store, worker, [two])
        assert await stands(store, first) == (GraphState.STOPPED, "a")
        assert await states(store, [other, last]) == [JobState.SUCCEEDED, JobState.BLOCKED]

    async def test_redriving_goes_on(self, store: Store) -> None:
        """The redriven job takes the dead one's place, with its arguments and its result."""
        first, second, third = await write_graph(store, chain(a(7), taking(), taking()))
        worker = await join(store)
        await store.settle(worker, [returned(await take_one(store, worker), "one")], now=NOW)
        await finish(store, worker, [await take_one(store, worker)], DEAD)
        assert (await store.graph(first)).state is GraphState.STOPPED
        [again] = await store.redrive(JobFilter(ids=(second,)))
        assert (await store.graph(first)).state is GraphState.RUNNING
        worker = await join(store, now=None)
        [claim] = await take(store, worker, now=FAR_AHEAD)
        assert (claim.id, json.loads(claim.args)) == (again, {"got": "one"})
        await store.settle(worker, [returned(claim, "two")])
        [last] = await take(store, worker, now=FAR_AHEAD)
        assert (last.id, json.loads(last.args)) == (third, {"got": "two"})
        await store.settle(worker, [ended(last)])
        record = await store.graph(first)
        assert (record.state, record.succeeded, record.dead) == (GraphState.SUCCEEDED, 3, 0)

    async def test_the_last_step_may_die(self, store: Store) -> None:
        """Then the graph is dead; redriving brings it to its end."""
        first, last = await write_graph(store, chain(a(), a()))
        worker = await join(store)
        await finish(store, worker, [await take_one(store, worker)])
        await finish(store, worker, [await take_one(store, worker)], DEAD)
        assert await stands(store, first) == (GraphState.DEAD, "a")
        [again] = await store.redrive(JobFilter(ids=(last,)))
        worker = await join(store, now=None)
        [claim] = await take(store, worker, now=FAR_AHEAD)
        assert claim.id == again
        await store.settle(worker, [ended(claim)])
        assert (await store.graph(first)).state is GraphState.SUCCEEDED

    @pytest.mark.parametrize("kind", [DEAD, CANCELLED])
    async def test_continue(self, store: Store, kind: OutcomeKind) -> None:
        """The failed step counts as ended; its result is missing. A redriven one is on its own."""
        first, _, last = await write_graph(
            store, chain(group(a(1), a(2)), taking()), on_dead=OnDead.CONTINUE
        )
        worker = await join(store)
        one, two = await take(store, worker)
        await finish(store, worker, [one], kind)
        await store.settle(worker, [returned(two, 20)], now=NOW)
        claim = await take_one(store, worker)
        assert (claim.id, json.loads(claim.args)) == (last, {"got": [None, 20]})
        await finish(store, worker, [claim])
        assert await stands(store, first) == (GraphState.SUCCEEDED, None)
        again = await store.redrive(JobFilter(ids=(first,)))
        assert len(again) == 1
        assert (await store.graph(first)).state is GraphState.SUCCEEDED

    @pytest.mark.parametrize("kind", [DEAD, CANCELLED])
    async def test_compensate(self, store: Store, kind: OutcomeKind) -> None:
        """Waiting steps are cancelled, running ones go on, then all that succeeded is undone."""

        def doing(n: int) -> Step:
            return step(a(n), compensate=taking(args=f'{{"undo": {n}}}'))

        composed = chain(doing(1), group(doing(2), doing(3), doing(4)), doing(5))
        ids = await write_graph(store, composed, on_dead="compensate")
        worker = await join(store)
        await store.settle(worker, [returned(await take_one(store, worker), "one")], now=NOW)
        two, three, four = await take(store, worker)
        await store.settle(worker, [returned(two, "two")], now=NOW)
        await finish(store, worker, [three], kind)
        assert await states(store, ids[4:]) == [JobState.CANCELLED]
        assert await ready(store) == []
        await store.settle(worker, [returned(four, "four")], now=NOW)
        undone = []
        worker = await join(store, now=None)
        while claims := await take(store, worker, now=FAR_AHEAD):
            assert (await store.graph(ids[0])).state is GraphState.RUNNING
            undone += [json.loads(claim.args) for claim in claims]
            await store.settle(worker, [ended(claim) for claim in claims])
        assert undone == [
            {"undo": 4, "got": "four"}, {"undo": 2, "got": "two"}, {"undo": 1, "got": "one"},
        ]  # fmt: skip
        record = await store.graph(ids[0])
        over = GraphState.DEAD if kind is DEAD else GraphState.CANCELLED
        assert (record.state, record.jobs, record.blocked) == (over, 8, 0)

    async def test_nothing_to_undo(self, store: Store) -> None:
        """A graph that fails at once has nothing to compensate, and is over."""
        ids = await write_graph(store, chain(a(), a()), on_dead="compensate")
        worker = await join(store)
        await finish(store, worker, [await take_one(store, worker)], DEAD)
        assert await stands(store, ids[0]) == (GraphState.DEAD, "a")
        assert await states(store, ids) == [JobState.DEAD, JobState.CANCELLED]

    async def test_cancelling_a_graph(self, store: Store) -> None:
        """Waiting steps end, running ones are flagged; another graph is left alone."""
        ids = await write_graph(store, chain(a(), group(a(), a()), a()))
        others = await write_graph(store, chain(a(), a()))
        worker = await join(store)
        claims = await take(store, worker)
        done, kept = claims
        await finish(store, worker, [done])
        running, waiting = await take(store, worker, 1), ids[2]
        assert sorted(await store.cancel(JobFilter(graph=ids[0], limit=None), now=NOW)) == ids[1:]
        beat = await store.beat(worker, expiry=60.0, now=NOW)
        assert beat.cancelled == ((running[0].id, running[0].run),)
        await finish(store, worker, running, CANCELLED)
        record = await store.graph(ids[0])
        assert (record.state, record.cancelled, record.succeeded) == (GraphState.CANCELLED, 3, 1)
        assert (await store.job(waiting)).state is JobState.CANCELLED
        await finish(store, worker, [kept])
        assert await ready(store) == others[1:]

    async def test_cancelling_a_blocked_step(self, store: Store) -> None:
        """With "continue" those behind it need not wait for it, but for what came before it."""
        ids = await write_graph(store, chain(a(), a(), a(), a()), on_dead="continue")
        first, *skipped, last = ids
        assert sorted(await store.cancel(JobFilter(ids=tuple(skipped)), now=NOW)) == skipped
        assert await ready(store) == [first]
        worker = await join(store)
        await finish(store, worker, [await take_one(store, worker)])
        assert await ready(store) == [last]
        assert (await store.graph(first)).cancelled == 2

    async def test_a_blocked_step_is_not_made_due(self, store: Store) -> None:
        """Nor is it counted as scheduled."""
        first, second = await write_graph(store, chain(a(), a()))
        assert await store.run_now(JobFilter(ids=(first, second))) == [first]
        assert await ready(store) == [first]
        counts = {count.state: count.jobs for count in await store.counts()}
        assert counts == {JobState.READY: 1, JobState.BLOCKED: 1}
        found = await store.jobs(JobFilter(state=JobState.BLOCKED))
        assert [(job.id, job.graph, job.stage) for job in found] == [(second, first, "a")]

    async def test_listing(self, store: Store) -> None:
        """Newest first, by state, without their steps."""
        one = await write_graph(store, chain(a(), a()), name="one")
        two = await write_graph(store, group(a(), a()), name="two")
        worker = await join(store)
        await finish(store, worker, await take(store, worker, 1), DEAD)
        found = await store.graphs()
        assert [(g.id, g.name, g.state) for g in found] == [
            (two[0], "two", GraphState.RUNNING), (one[0], "one", GraphState.STOPPED),
        ]  # fmt: skip
        assert [g.steps for g in found] == [(), ()]
        assert [g.id for g in await store.graphs(GraphState.STOPPED)] == [one[0]]
        assert len(await store.graphs(limit=1)) == 1
        with pytest.raises(UnknownGraph):
            await store.graph(two[1])

    async def test_pruning(self, store: Store) -> None:
        """A graph's jobs stay while one of them is live; then they go, and it with the last."""
        ids = await write_graph(store, chain(a(), a()))
        worker = await join(store)
        await store.settle(worker, [returned(await take_one(store, worker), 1)], now=NOW)
        long_after = at(1e8)

        async def prune() -> int:
            return await store.prune(OutcomeKind.SUCCEEDED, 60.0, 100, now=long_after)

        assert await prune() == 0
        assert (await store.endings(ids[:1]))[0].result == "1"
        await finish(store, worker, [await take_one(store, worker)])
        assert await prune() == 2
        assert await store.endings(ids) == []
        with pytest.raises(UnknownGraph):
            await store.graph(ids[0])
