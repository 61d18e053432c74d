"""Random graphs against a naive model: steps end, fail, vanish, are cancelled and redriven.

The model keeps every step by hand. After each action the store's jobs are the model's, in the same
states; and nothing ever ran before its predecessors.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings, strategies as st

from mutirao.model.graphs.graph import Graph
from mutirao.model.graphs.graph_plan import plan
from mutirao.model.jobs.job import Claim, JobState, NewJob, OutcomeKind
from mutirao.model.jobs.records import GraphState, JobFilter
from mutirao.ports import Store
from mutirao_conformance.kit import at, ended, newcomer
from tests.integration.conftest import OpenStores
from tests.support.repeats import Share

_queues = (f"q{n}" for n in itertools.count())
EXPIRY = 5.0
LIVE = (JobState.BLOCKED, JobState.READY, JobState.RUNNING)
BAD = (JobState.DEAD, JobState.CANCELLED)


@dataclass
class Place:
    """A step of the model, with the job that has its place."""

    after: frozenset[int]
    on_dead: str
    undo: bool = False
    job: int = 0
    state: JobState = JobState.READY
    undoes: int | None = None
    first: int = 0  # the job that had the place first

    @property
    def well_ended(self) -> bool:
        """Whether it has ended, and not so that those after it stay blocked."""
        return self.state is JobState.SUCCEEDED or (
            self.state in BAD and self.on_dead == "continue"
        )


@dataclass
class Model:
    """All steps of the graph, by their places."""

    steps: list[Place]
    undoing: bool = False
    depths: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        for step in self.steps:
            self.depths.append(1 + max((self.depths[each] for each in step.after), default=0))
        self.settle()

    def end(self, step: Place, state: JobState) -> None:
        """Let a step end, and what follows from that."""
        step.state = state
        if state in BAD and step.on_dead == "compensate":
            self.undoing = True
            for other in self.steps:
                if other.state in (JobState.BLOCKED, JobState.READY):
                    other.state = JobState.CANCELLED
        self.settle()
        if self.undoing and not any(each.state in LIVE for each in self.steps):
            self.begin_undoing()

    def settle(self) -> None:
        """Block what has to wait, and let go what has not."""
        for step in self.steps:
            if step.state in (JobState.BLOCKED, JobState.READY):
                free = all(map(self.passed, step.after))
                step.state = JobState.READY if free else JobState.BLOCKED

    def passed(self, place: int) -> bool:
        """Whether those after a step need not wait for it, nor for what came before it."""
        step = self.steps[place]
        return step.well_ended and all(map(self.passed, step.after))

    def begin_undoing(self) -> None:
        """Add the steps that undo others, the last one's first."""
        done = [n for n, each in enumerate(self.steps) if each.state is JobState.SUCCEEDED]
        after = frozenset[int]()
        for place in sorted(done, key=lambda n: (-self.depths[n], -self.steps[n].first)):
            if self.steps[place].undo:
                self.steps[place].undo = False
                self.steps.append(Place(after, "stop", undoes=place))
                self.depths.append(0)
                after = frozenset({len(self.steps) - 1})
        self.settle()

    @property
    def state(self) -> GraphState:
        """How the graph stands."""
        states = {each.state for each in self.steps}
        if states & {JobState.READY, JobState.RUNNING}:
            return GraphState.RUNNING
        if JobState.BLOCKED in states:
            return GraphState.STOPPED
        failed = {each.state for each in self.steps if not each.well_ended}
        if JobState.DEAD in failed:
            return GraphState.DEAD
        return GraphState.CANCELLED if failed else GraphState.SUCCEEDED


class Played:
    """A graph in a store, moved together with its model."""

    def __init__(self, stores: list[Store], shape: list[tuple[list[int], str, bool]]) -> None:
        self.store, self.stores = stores[0], itertools.cycle(stores)
        # Later than it is, so that what is due now is due for the model, too.
        self.queue, self.now, self.worker = next(_queues), 1e9, 0
        self.claims = dict[int, Claim]()
        # Where nothing asks for it, a graph with steps to undo is refused.
        undoes = any(on_dead == "compensate" for _, on_dead, _ in shape)
        self.model = Model(
            [
                Place(frozenset(each % n for each in after if n), on_dead, undo and undoes)
                for n, (after, on_dead, undo) in enumerate(shape)
            ]
        )
        self.graph = 0

    async def begin(self) -> None:
        """Have a worker, and the graph."""
        self.worker = await self.store.register(newcomer(), expiry=EXPIRY, now=at(self.now))
        graph, parts = Graph(), list[object]()
        for n, step in enumerate(self.model.steps):
            after = [parts[each] for each in sorted(step.after)]
            undo = self._job({"undo": n}) if step.undo else None
            parts.append(
                graph.add(self._job({"n": n}), after, on_dead=step.on_dead, compensate=undo)  # type: ignore[arg-type]
            )
        planned = plan(graph)
        ids = await self.store.aenqueue_graph(planned)
        for n, part in enumerate(parts):
            step = self.model.steps[n]
            step.job = step.first = ids[planned.parts[part]]  # type: ignore[index]
        self.graph = ids[0]

    def _job(self, args: dict[str, int]) -> NewJob:
        return NewJob(task="t", queue=self.queue, args=json.dumps(args), run_at=at(-1e6))

    def _pick(self, amount: int, *states: JobState) -> Place | None:
        found = [each for each in self.model.steps if each.state in states]
        return found[amount % len(found)] if found else None

    async def claim(self, amount: int) -> None:
        """A worker takes some of what is due, and that only."""
        lanes = [head.lane for head in await self.store.lanes([self.queue], now=at(self.now))]
        claims = await self.store.claim(self.worker, lanes, 1 + amount % 4, now=at(self.now))
        self.claims |= {claim.id: claim for claim in claims}
        due = {each.job: each for each in self.model.steps if each.state is JobState.READY}
        assert {claim.id for claim in claims} <= due.keys()
        assert len(claims) == min(len(due), 1 + amount % 4)
        for claim in claims:
            step = due[claim.id]
            assert all(map(self.model.passed, step.after))
            step.state = JobState.RUNNING

    async def _settle(self, amount: int, kind: OutcomeKind, becomes: JobState) -> None:
        step = self._pick(amount, JobState.RUNNING)
        if step is None:
            return
        settlement = ended(self.claims[step.job], kind, after=0.0)
        store = next(self.stores)
        assert await store.settle(self.worker, [settlement], now=at(self.now)) == {step.job}
        assert await store.settle(self.worker, [settlement], now=at(self.now)) == set()
        if kind.final:
            self.model.end(step, becomes)
        else:
            step.state = becomes

    async def succeed(self, amount: int) -> None:
        await self._settle(amount, OutcomeKind.SUCCEEDED, JobState.SUCCEEDED)

    async def die(self, amount: int) -> None:
        await self._settle(amount, OutcomeKind.DEAD, JobState.DEAD)

    async def give_up(self, amount: int) -> None:
        await self._settle(amount, OutcomeKind.CANCELLED, JobState.CANCELLED)

    async def fail(self, amount: int) -> None:
        await self._settle(amount, OutcomeKind.RETRIED, JobState.READY)

    async def together(self, _: int) -> None:
        """All that run succeed, one by one but at the same time."""
        running = [each for each in self.model.steps if each.state is JobState.RUNNING]
        settled = [
            next(self.stores).settle(self.worker, [ended(self.claims[each.job])], now=at(self.now))
            for each in running
        ]
        assert await asyncio.gather(*settled) == [{each.job} for each in running]
        for each in running:
            self.model.end(each, JobState.SUCCEEDED)

    async def vanish(self, _: int) -> None:
        """The worker is gone, and another one comes."""
        self.now += 2 * EXPIRY
        await self.store.rescue(now=at(self.now))
        for step in self.model.steps:
            step.state = JobState.READY if step.state is JobState.RUNNING else step.state
        self.worker = await self.store.register(newcomer(), expiry=EXPIRY, now=at(self.now))

    async def cancel(self, amount: int) -> None:
        """Somebody cancels a step that waits."""
        step = self._pick(amount, JobState.READY, JobState.BLOCKED)
        if step is not None:
            await self.store.cancel(JobFilter(ids=(step.job,)), now=at(self.now))
            self.model.end(step, JobState.CANCELLED)

    async def redrive(self, amount: int) -> None:
        """Somebody redrives a dead step; only with "stop" it comes back."""
        step = self._pick(amount, JobState.DEAD)
        if step is None or step.on_dead != "stop":
            return
        [step.job] = await self.store.redrive(JobFilter(ids=(step.job,)))
        step.state = JobState.READY

    async def check(self) -> None:
        """The steps of the store are the model's."""
        record = await self.store.graph(self.graph)
        known = {step.job for step in self.model.steps}
        new = [each.job for each in record.steps if each.job not in known]
        for step, job in zip([s for s in self.model.steps if not s.job], new, strict=True):
            assert (await self.store.job(job)).args == {"undo": step.undoes}
            step.job = step.first = job
        found = {
            each.job: JobState.READY if each.state is JobState.SCHEDULED else each.state
            for each in record.steps
        }
        assert found == {step.job: step.state for step in self.model.steps}
        assert record.state is self.model.state


WORDS = (
    *("claim", "claim", "claim", "succeed", "succeed", "together", "die", "give_up", "fail"),
    *("vanish", "cancel", "redrive"),
)
MODES = st.sampled_from(["stop", "stop", "continue", "compensate"])
STEP = st.tuples(st.lists(st.integers(0, 7), max_size=3), MODES, st.booleans())
SHAPES = st.lists(STEP, min_size=1, max_size=7)
ACTIONS = st.lists(st.tuples(st.sampled_from(WORDS), st.integers(0, 7)), min_size=5, max_size=30)


@pytest.mark.parametrize(("kind", "examples"), [("sqlite", 50), ("postgresql", 50)])
def test_whatever_happens(kind: str, examples: int, open_stores: OpenStores, share: Share) -> None:
    """The store agrees with the model after every single step."""
    opened = open_stores(kind)

    @settings(max_examples=share(examples))
    @given(shape=SHAPES, actions=ACTIONS)
    def play(shape: list[tuple[list[int], str, bool]], actions: list[tuple[str, int]]) -> None:
        asyncio.run(_play(opened(), shape, actions))

    play()


async def _play(
    stores: list[Store],
    shape: list[tuple[list[int], str, bool]],
    actions: list[tuple[str, int]],
) -> None:
    played = Played(stores, shape)
    try:
        await played.begin()
        await played.check()
        for action, amount in actions:
            await getattr(played, action)(amount)
            await played.check()
    finally:
        for store in stores:
            await store.close()
