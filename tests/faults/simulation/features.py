"""What jobs have to do with each other, in a fleet: keys, order, turns, graphs and schedules.

`Features` enqueues such jobs, and says what must hold of them: at any begin, and in the end.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any

from mutirao import Graph, Job, Mutirao, OnDead, Retry, Supersede
from mutirao.errors import DuplicateJob
from mutirao.model.jobs.job import OutcomeKind
from mutirao.model.keys.uniqueness import OnConflict, Placed
from tests.faults.simulation.fleet import Fleet
from tests.faults.simulation.store import Ended
from tests.faults.simulation.world import BEGINNING

KEYS = ("a", "b")
CONFLICTS = (OnConflict.KEEP, OnConflict.ERROR, *2 * [OnConflict.REPLACE, OnConflict.RERUN])
ACTIVITIES = ("Create", "Update", "Delete", "Add", "Remove", "Announce")
STEP_TASKS = ("slow", "once", "fails", "commits", "limited", "kills")
STEPS_OFTEN = (5, 3, 1, 3, 2, 0.3)
EVERY = 2.0  # seconds between the ticks of the schedule
MANY = 40  # jobs of a tenant that has many; the other one has one
SHORT = 0.2  # seconds
MOMENT = 1e-5  # seconds: databases know microseconds


class Features:
    """The jobs of one fleet that have to do with each other.

    `ticking`: its schedule ticks until `last`, in seconds. `turns`: two tenants' jobs are served in
    turn, which is looked at in a fleet without faults.
    """

    def __init__(self, fleet: Fleet, *, ticking: bool, last: float) -> None:
        self._fleet, self._random = fleet, fleet.world.random
        self._ticking, self._last = ticking, last
        self._newest: dict[tuple[str, str], Placed] = {}  # by task and key
        self._ordered: dict[str, list[int]] = defaultdict(list)  # ids, by key
        self._edges: list[tuple[int, int, OnDead]] = []
        self._crowd: tuple[list[int], int] | None = None
        self._declare(fleet.app)
        fleet.store.schedules.there_are_some = ticking
        fleet.story.on_begin = self._look
        self.found: list[tuple[str, int | None]] = []

    def _declare(self, app: Mutirao) -> None:
        noted: Callable[[Job], Any] = self._fleet.noted

        @app.task(retry=Retry.fixed(max_attempts=3, interval=0.5))
        async def keyed(job: Job, seconds: float) -> None:
            with noted(job):
                await asyncio.sleep(seconds)
                if seconds > 1.0:
                    raise ValueError("it takes too long")

        @app.task(retry=Retry.fixed(max_attempts=3, interval=0.5), supersede=Supersede.activities())
        async def activity(job: Job, type: str, seconds: float) -> None:
            with noted(job):
                await asyncio.sleep(seconds)
                if type == "Announce":
                    raise ValueError("nobody hears it")

        @app.task(fair_by="tenant", queue="turns")
        async def turn(job: Job, tenant: str) -> None:
            with noted(job):
                await asyncio.sleep(SHORT)

        @app.task
        async def tick(job: Job) -> None:
            with noted(job):
                await asyncio.sleep(SHORT)

        if self._ticking:
            until = BEGINNING + timedelta(seconds=self._last)
            app.schedule(every=EVERY, until=until, catch_up="all", name="clock")(tick)

    # What is enqueued

    def enqueue_keyed(self, seconds: float) -> None:
        """Enqueue a job with a key that others have, too, with any `on_conflict`."""
        key, conflict = self._random.choice(KEYS), self._random.choice(CONFLICTS)
        task = self._fleet.app.tasks["keyed"]
        try:
            [id] = self._fleet.enqueue([task.using(key=key, on_conflict=conflict).job(seconds)])
        except DuplicateJob:
            return
        assert isinstance(id, Placed)
        self._fleet.story.note(f"key {key}, on_conflict {conflict}: {id.how}", int(id))
        if id.written:
            self._newest["keyed", key] = id

    def enqueue_activity(self, seconds: float) -> None:
        """Enqueue a job that may make another one redundant."""
        key, type = self._random.choice(KEYS), self._random.choice(ACTIVITIES)
        job = self._fleet.app.tasks["activity"].using(key=key).job(type, seconds)
        [id] = self._fleet.enqueue([job])
        assert isinstance(id, Placed)
        self._fleet.story.note(f"key {key}: {id.how}", int(id))
        self._ordered[key].append(int(id))

    def enqueue_turn(self) -> None:
        """Enqueue a job of one of three tenants."""
        self._fleet.enqueue([self._fleet.app.tasks["turn"].job(self._random.choice("xyz"))])

    def enqueue_crowd(self) -> None:
        """Enqueue many jobs of one tenant, and then one of another."""
        task = self._fleet.app.tasks["turn"]
        many = self._fleet.enqueue([task.job("many") for _ in range(MANY)])
        [one] = self._fleet.enqueue([task.job("one")])
        self._crowd = many, one

    def enqueue_graph(self) -> int:
        """Enqueue one step, some that come after it, and one after these; return how many."""
        rule = self._random.choice((OnDead.STOP, OnDead.CONTINUE))
        graph = Graph("pipeline", on_dead=rule)
        first = graph.add(self._step())
        middle = [graph.add(self._step(), after=first) for _ in range(self._random.randint(1, 3))]
        last = graph.add(self._step(), after=middle)
        handle = self._fleet.enqueue_graph(graph)
        for part in middle:
            before, each, after = (handle[step].id for step in (first, part, last))
            self._edges += [(before, each, rule), (each, after, rule)]
        return len(handle.jobs)

    def _step(self) -> Any:
        name = self._random.choices(STEP_TASKS, STEPS_OFTEN)[0]
        seconds = round(self._random.expovariate(2.0), 3)
        return self._fleet.app.tasks[name].job(seconds)

    # What must hold

    def _look(self, job: Job) -> None:
        """At a begin: the run is still the job's own, and no other one of its key is."""
        if not self._fleet.store.has(job.id, job.run):
            self.found.append((f"run {job.run} of job {job.id} begins, and is not its own", job.id))
        until = job.expires_at
        if until is not None and until < self._fleet.world.moment():
            self.found.append((f"job {job.id} begins after {until}, when it is not wanted", job.id))
        if job.key is None:
            return
        running = self._fleet.story.running.values()
        same = {
            each.id: each.run for each in running if (each.task, each.key) == (job.task, job.key)
        }
        live = self._fleet.store.live() if len(same) > 1 else {}
        held = [id for id, run in same.items() if id in live and live[id].is_held(run)]
        if len(held) > 1:
            self.found.append((f"jobs {held} of key {job.key} run at once", job.id))

    def steps(self) -> set[int]:
        """Return the jobs that wait for another one of their graph."""
        return {after for _, after, _ in self._edges}

    def stopped(self) -> set[int]:
        """Return the steps that nobody waits for: one before them died, which stops the graph."""
        ended, found = self._fleet.store.ended(), set[int]()
        for before, after, rule in self._edges:  # each after those that lead to it
            died = before in ended and ended[before].outcome is not OutcomeKind.SUCCEEDED
            if before in found or (died and rule is OnDead.STOP):
                found.add(after)
        return found

    def waits_for_ticks(self) -> bool:
        """Whether ticks are to come."""
        return self._ticking and self._fleet.store.ticks_next()

    def audit(self) -> Iterator[tuple[str, int | None]]:
        """Yield what is wrong in the end, and of which job."""
        ended = self._fleet.store.ended()
        for (task, key), id in self._newest.items():
            if ended[id].outcome is OutcomeKind.CANCELLED:
                yield f"the newest {task} of key {key} was never tried: {ended[id]}", int(id)
        yield from self._audit_order(ended)
        yield from self._audit_edges(ended)
        yield from self._audit_ticks()
        yield from self._audit_turns()

    def _begun(self, id: int) -> float | None:
        begun = [at for (job, _), at in self._fleet.story.begun.items() if job == id]
        return min(begun, default=None)

    def _audit_order(self, ended: dict[int, Ended]) -> Iterator[tuple[str, int | None]]:
        for key, ids in self._ordered.items():
            tried = [id for id in ids if self._begun(id) is not None]
            for before, after in pairwise(sorted(tried)):
                begun = self._begun(after)
                if begun is not None and begun < ended[before].at - MOMENT:
                    yield f"job {after} of key {key} began before job {before} had ended", after

    def _audit_edges(self, ended: dict[int, Ended]) -> Iterator[tuple[str, int | None]]:
        for before, after, rule in self._edges:
            begun = self._begun(after)
            if begun is None:
                continue
            if before not in ended or begun < ended[before].at - MOMENT:
                yield f"step {after} began before step {before} had ended", after
            elif rule is OnDead.STOP and ended[before].outcome is not OutcomeKind.SUCCEEDED:
                yield f"step {after} began though step {before} is {ended[before]}", after

    def _audit_ticks(self) -> Iterator[tuple[str, int | None]]:
        ticks = self._fleet.store.ticks()
        if len({*ticks}) < len(ticks):
            yield f"a tick made two jobs: {ticks}", None
        steps = {round((after - before).total_seconds(), 3) for before, after in pairwise(ticks)}
        if steps - {EVERY}:
            yield f"a tick made no job: {ticks}", None
        if self._ticking and not ticks:
            yield "no tick made a job", None

    def _audit_turns(self) -> Iterator[tuple[str, int | None]]:
        if self._crowd is None:
            return
        many, one = self._crowd
        first = self._begun(one) or 0.0
        before = sum((self._begun(id) or 0.0) < first for id in many)
        if before > MANY / 2:
            yield f"{before} jobs of another tenant began before the one that came last", one
