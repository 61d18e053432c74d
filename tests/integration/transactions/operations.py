"""All that locks rows of several kinds, each in a scene where it has to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection, text

from mutirao.model.graphs.graph import OnDead, chain, group
from mutirao.model.jobs.change import Change
from mutirao.model.jobs.job import Claim, NewJob, OutcomeKind
from mutirao.model.jobs.outcome import Outcome, Settlement
from mutirao.model.jobs.records import JobFilter
from mutirao.model.keys.supersede import Supersede
from mutirao.model.keys.uniqueness import OnConflict, Unique
from mutirao.model.limits.limits import Limit, pause_of
from mutirao.model.schedules import schedule_rules
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.graphs import write_graph
from mutirao_conformance.kit import FAR_AHEAD, NOW, at, due, ended, finish, join, put, take
from mutirao_conformance.schedules import order, plan, scheduled
from tests.integration.transactions.kit import Others
from tests.integration.transactions.locks import ADVISORY

SCHEDULE, KEY, SUPERSEDE = "mutirao_schedule", "mutirao_key", "mutirao_supersede_last"
GRAPH, WORKER, LIVE = "mutirao_graph", "mutirao_worker", "mutirao_live"
COUNTER, ROLLED = "mutirao_counter", "mutirao_rolled"

TENANTS = "abcde"
RULE = Limit(1, by="tenant").on(task="greet")
RERUN = Unique(on_conflict=OnConflict.RERUN)
NEWER = Unique(supersede=Supersede(by="kind", rules={("a", "a"): "newer"}))
DEAD, RETRIED = OutcomeKind.DEAD, OutcomeKind.RETRIED

Act = Callable[[], Awaitable[object]]


@dataclass
class Scene:
    """A store, others in the same database, a worker, and what it holds."""

    store: SqlStore
    others: Others
    worker: int = 0
    claims: list[Claim] = field(default_factory=list)

    def settle(self, kind: OutcomeKind = OutcomeKind.SUCCEEDED, **rest: Any) -> Act:
        """Return the act that ends all that runs, the last first."""
        done = [ended(claim, kind, **rest) for claim in reversed(self.claims)]
        return lambda: self.store.settle(self.worker, done, now=NOW)

    def called(self, *jobs: NewJob) -> Act:
        """Return the act of a caller who enqueues these in one call, and commits."""

        def transaction() -> None:
            with self.others.session() as caller:
                self.store.enqueue(jobs, caller)
                caller.commit()

        return lambda: asyncio.to_thread(transaction)


def of(tenant: str, **options: Any) -> NewJob:
    """Return a job of a tenant."""
    return due(args=json.dumps({"tenant": tenant, "kind": "a"}), **options)


async def _limited(scene: Scene, most: int = 1, **options: Any) -> None:
    """Let one job of each tenant run, while others are parked behind each of their limits."""
    store = scene.store
    await store.limits.put(replace(RULE, most=most), now=NOW)
    for _ in range(3):
        await put(store, *(of(tenant, **options) for tenant in TENANTS))
    scene.worker = await join(store)
    scene.claims = await take(store, scene.worker)


async def _keyed(scene: Scene) -> None:
    """The same; each that runs has a key, for which another one waits."""
    store = scene.store
    await store.limits.put(RULE, now=NOW)
    await put(store, *(of(tenant, key=tenant, unique=RERUN) for tenant in TENANTS))
    scene.worker = await join(store)
    scene.claims = await take(store, scene.worker)
    await put(store, *(of(tenant) for tenant in TENANTS))
    await take(store, scene.worker)
    await put(store, *(of(tenant, key=tenant, unique=RERUN) for tenant in TENANTS))


async def _graphs(scene: Scene, on_dead: OnDead = OnDead.STOP) -> None:
    """The same; each that runs is the first step of a graph."""
    store = scene.store
    await store.limits.put(RULE, now=NOW)
    for tenant in TENANTS:
        steps = chain(of(tenant), group(of(tenant), of(tenant)))
        await write_graph(store, steps, on_dead=on_dead)
    scene.worker = await join(store)
    scene.claims = await take(store, scene.worker)
    await put(store, *(of(tenant) for tenant in TENANTS))
    await take(store, scene.worker)


async def _everything(scene: Scene) -> None:
    """Graphs and limits, and jobs with keys and without, that run, wait and are parked."""
    await _graphs(scene, OnDead.COMPENSATE)
    store = scene.store
    await put(store, *(due("other", key=key, unique=RERUN) for key in TENANTS))
    await take(store, scene.worker)
    await put(store, *(due("other", key=key, unique=RERUN) for key in TENANTS))
    await put(store, *(due("other", run_at=FAR_AHEAD) for _ in range(3)))


async def _claims(scene: Scene) -> Act:
    """Jobs for which there is room."""
    await _limited(scene)
    await scene.store.limits.put(replace(RULE, most=5), now=NOW)
    return lambda: take(scene.store, scene.worker)


async def _claims_too_many(scene: Scene) -> Act:
    """Jobs for which there is none: they are parked."""
    await _limited(scene)
    await put(scene.store, *(of(tenant) for tenant in TENANTS))
    return lambda: take(scene.store, scene.worker)


async def _claims_in_turn(scene: Scene) -> Act:
    """Jobs that take turns."""
    await _limited(scene, fair_by="tenant")
    await put(scene.store, *(of(tenant, fair_by="tenant") for tenant in TENANTS))
    return lambda: take(scene.store, scene.worker)


async def _settles(scene: Scene) -> Act:
    await _limited(scene)
    return scene.settle()


async def _retries(scene: Scene) -> Act:
    await _limited(scene)
    return scene.settle(RETRIED, after=1.0)


async def _settles_keyed(scene: Scene) -> Act:
    await _keyed(scene)
    return scene.settle()


async def _retries_keyed(scene: Scene) -> Act:
    """They are overtaken by the jobs that wait for them; others are parked."""
    await _keyed(scene)
    return scene.settle(RETRIED, after=1.0)


async def _settles_some_keyed(scene: Scene) -> Act:
    """Some succeed, others are overtaken."""
    await _keyed(scene)
    done, again = scene.claims[:2], scene.claims[2:]
    both = [*map(ended, done), *(ended(claim, RETRIED, after=1.0) for claim in again)]
    return lambda: scene.store.settle(scene.worker, both, now=NOW)


async def _settles_steps(scene: Scene) -> Act:
    await _graphs(scene)
    return scene.settle(linked=True)


async def _settles_redriven_step(scene: Scene) -> Act:
    """Its id is greater than those of the steps that wait for it."""
    await _graphs(scene)
    await scene.store.settle(scene.worker, [ended(c, DEAD, linked=True) for c in scene.claims])
    await scene.store.redrive(JobFilter())
    await scene.store.limits.put(replace(RULE, most=9), now=NOW)
    claims = await take(scene.store, scene.worker, now=FAR_AHEAD)
    scene.claims = [claim for claim in claims if claim.redrive_of]
    return scene.settle(linked=True)


async def _settles_failed_steps(scene: Scene) -> Act:
    """Their graphs are compensated."""
    await _graphs(scene, OnDead.COMPENSATE)
    return scene.settle(DEAD, linked=True)


async def _settles_and_stops(scene: Scene) -> Act:
    """A handler wants the schedules paused that made the jobs."""
    for name in "stu":
        await plan(scene.store, scheduled(name))
    await put(scene.store, *(due(metadata={"schedule": name}) for name in "stu"))
    scene.worker = await join(scene.store)
    scene.claims = await take(scene.store, scene.worker)
    stop = Outcome(DEAD, error_type="E", error="e", stops=True)
    done = [Settlement(claim.id, claim.run, stop) for claim in scene.claims]
    return lambda: scene.store.settle(scene.worker, done, now=NOW)


async def _releases(scene: Scene) -> Act:
    await _limited(scene)
    return lambda: scene.store.release([(c.id, c.run) for c in reversed(scene.claims)])


async def _loses(scene: Scene) -> Act:
    await _limited(scene)
    return lambda: scene.store.lose([(c.id, c.run) for c in reversed(scene.claims)], now=NOW)


async def _retires(scene: Scene) -> Act:
    await _limited(scene)
    return lambda: scene.store.retire(scene.worker)


async def _rescues(scene: Scene) -> Act:
    await _limited(scene)
    return lambda: scene.store.rescue(now=at(100))


async def _cancels(scene: Scene) -> Act:
    await _everything(scene)
    return lambda: scene.store.cancel(JobFilter(), now=NOW)


async def _runs_now(scene: Scene) -> Act:
    await _everything(scene)
    return lambda: scene.store.run_now(JobFilter(), now=NOW)


async def _changes(scene: Scene) -> Act:
    await _everything(scene)
    new = Change(priority=3)
    return lambda: scene.store.change(JobFilter(), new, now=NOW)


async def _redrives(scene: Scene) -> Act:
    await _graphs(scene)
    await finish(scene.store, scene.worker, scene.claims, DEAD)
    return lambda: scene.store.redrive(JobFilter())


async def _prunes(scene: Scene) -> Act:
    """Keys, supersede rules and graphs, whose last jobs are old; all of it is added up."""
    store = scene.store
    await put(store, *(of(key, key=key, unique=RERUN) for key in TENANTS))
    await put(store, *(of(key, key=key, unique=NEWER) for key in TENANTS))
    await write_graph(store, group(due(), due()))
    scene.worker = await join(store)
    await finish(store, scene.worker, await take(store, scene.worker))
    while await store.roll_up(None, now=at(1_000)):
        pass
    return lambda: store.prune(OutcomeKind.SUCCEEDED, 0, 100, now=FAR_AHEAD)


async def _limits(scene: Scene) -> Act:
    """One more, of what runs."""
    await _limited(scene)
    return lambda: scene.store.limits.put(Limit(9).on(task="greet"), now=NOW)


async def _limits_less(scene: Scene) -> Act:
    await _limited(scene)
    return lambda: scene.store.limits.put(replace(RULE, most=2), now=NOW)


async def _limits_otherwise(scene: Scene) -> Act:
    """By another argument, with steps that wait at gates."""
    await _everything(scene)
    return lambda: scene.store.limits.put(replace(RULE, by="kind"), now=NOW)


async def _limits_no_more(scene: Scene) -> Act:
    await _limited(scene)
    return lambda: scene.store.limits.remove(RULE.name, now=NOW)


async def _pauses(scene: Scene) -> Act:
    await _limited(scene)
    return lambda: scene.store.limits.put(pause_of("default", None), now=NOW)


async def _resumes(scene: Scene) -> Act:
    await _limited(scene)
    pause = pause_of("default", None)
    await scene.store.limits.put(pause, now=NOW)
    return lambda: scene.store.limits.remove(pause.name, now=NOW)


async def _pauses_schedule(scene: Scene) -> Act:
    await plan(scene.store, scheduled())
    return lambda: order(scene.store, schedule_rules.pause)


async def _ticks(scene: Scene) -> Act:
    await plan(scene.store, scheduled())
    return lambda: order(scene.store, schedule_rules.run_now)


async def _mends(scene: Scene) -> Act:
    """Somebody has deleted a job that was parked."""
    await _limited(scene)

    def forget(conn: Connection) -> None:
        conn.execute(
            text("DELETE FROM mutirao_live WHERE id = (SELECT min(job) FROM mutirao_parked)")
        )

    await scene.store._sender.runner.run(forget)
    return lambda: scene.store.mend(now=NOW)


async def _enqueues_keyed(scene: Scene) -> Act:
    """Jobs whose keys are of jobs that wait, and of such that run."""
    await put(scene.store, *(of("a", key=key, unique=RERUN) for key in TENANTS))
    scene.worker = await join(scene.store)
    await take(scene.store, scene.worker, 2)
    return scene.called(*(of("a", key=key, unique=RERUN) for key in reversed(TENANTS)))


async def _enqueues_with_supersede(scene: Scene) -> Act:
    await put(scene.store, *(of("a", key=key, unique=NEWER) for key in TENANTS))
    scene.worker = await join(scene.store)
    await take(scene.store, scene.worker, 2)
    return scene.called(*(of("a", key=key, unique=NEWER) for key in reversed(TENANTS)))


async def _rolls_up(scene: Scene) -> Act:
    await _prunes(scene)
    return lambda: scene.store.roll_up(None, now=at(2_000))


@dataclass(frozen=True)
class Operation:
    """Something that locks rows: how a scene for it is made, and for which kinds it waits."""

    prepare: Callable[[Scene], Awaitable[Act]]
    waits: tuple[str, ...] = ()


OPERATIONS = {
    "claim": Operation(_claims, (ADVISORY, COUNTER)),
    "claim too many": Operation(_claims_too_many, (ADVISORY, COUNTER)),
    "claim in turn": Operation(_claims_in_turn, (ADVISORY, COUNTER)),
    "settle": Operation(_settles, (LIVE, COUNTER)),
    "retry": Operation(_retries, (LIVE, COUNTER)),
    "settle keyed": Operation(_settles_keyed, (LIVE, COUNTER)),
    "retry keyed": Operation(_retries_keyed, (LIVE, COUNTER)),
    "settle some keyed": Operation(_settles_some_keyed, (LIVE, COUNTER)),
    "settle steps": Operation(_settles_steps, (GRAPH, LIVE, COUNTER)),
    "settle redriven steps": Operation(_settles_redriven_step, (GRAPH, LIVE, COUNTER)),
    "settle failed steps": Operation(_settles_failed_steps, (GRAPH, LIVE, COUNTER)),
    "settle and stop": Operation(_settles_and_stops, (SCHEDULE, LIVE)),
    "release": Operation(_releases, (LIVE, COUNTER)),
    "lose": Operation(_loses, (COUNTER,)),
    "retire": Operation(_retires, (WORKER, LIVE, COUNTER)),
    "rescue": Operation(_rescues, (COUNTER,)),
    "cancel": Operation(_cancels, (GRAPH, LIVE, COUNTER)),
    "run now": Operation(_runs_now, (GRAPH, LIVE)),
    "change": Operation(_changes, (GRAPH, LIVE, COUNTER)),
    "redrive": Operation(_redrives, (ADVISORY, GRAPH)),
    "prune": Operation(_prunes, (ROLLED,)),
    "limit": Operation(_limits, (ADVISORY, LIVE)),
    "limit less": Operation(_limits_less, (ADVISORY, COUNTER)),
    "limit otherwise": Operation(_limits_otherwise, (ADVISORY, LIVE, COUNTER)),
    "limit no more": Operation(_limits_no_more, (ADVISORY, LIVE, COUNTER)),
    "pause": Operation(_pauses, (ADVISORY,)),
    "resume": Operation(_resumes, (ADVISORY,)),
    "pause a schedule": Operation(_pauses_schedule, (SCHEDULE,)),
    "tick": Operation(_ticks, (SCHEDULE,)),
    "mend": Operation(_mends, (COUNTER,)),
    "enqueue keyed": Operation(_enqueues_keyed, (KEY, LIVE)),
    "enqueue with supersede": Operation(_enqueues_with_supersede, (SUPERSEDE, LIVE)),
    "roll up": Operation(_rolls_up),
}
