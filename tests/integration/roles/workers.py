"""What a worker does: it lives, runs jobs, keeps limits, gives turns, lets tick, cleans up."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

from sqlalchemy import delete, select, text

from mutirao.model.audit.actions import ActionKind, NewAction
from mutirao.model.federation.hosts import answers
from mutirao.model.graphs.graph import chain, group, step
from mutirao.model.jobs.job import OutcomeKind
from mutirao.model.jobs.records import JobFilter, Progress
from mutirao.model.keys.supersede import Supersede
from mutirao.model.keys.uniqueness import Unique
from mutirao.model.limits.limits import Limit, LimitOrigin
from mutirao.model.schedules import schedule_rules
from mutirao.model.schedules.schedule import TICKS_KEPT_PER_SCHEDULE, CatchUp
from mutirao.sql.schema import tables
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.endpoints import (
    ERP,
    TERMS,
    attempt,
    claimed,
    delivered,
    endpoint,
    fail,
)
from mutirao_conformance.expiring import until as wanted_until
from mutirao_conformance.fairness import of
from mutirao_conformance.federation import HOST, SAID, fail_host
from mutirao_conformance.graphs import DEAD, a, returned, taking, write_graph
from mutirao_conformance.kit import (
    FAR_AHEAD,
    NOW,
    at,
    due,
    ended,
    finish,
    join,
    put,
    take,
    take_one,
)
from mutirao_conformance.limits import of as of_tenant
from mutirao_conformance.ordering import dies_in_order
from mutirao_conformance.schedules import scheduled
from mutirao_conformance.supersede import activity
from mutirao_conformance.topics import fan_out, publish, subscription
from mutirao_conformance.transactions import Watched, run
from mutirao_conformance.uniqueness import keyed
from tests.integration.roles.duties import duty


@duty("worker", "version", "worker", "duty")
async def lives(mine: SqlStore, others: SqlStore) -> None:
    """From its start to its end: beats, leases, what it holds, what it loses."""
    await mine.check()
    [first, *_] = await put(others, *(due() for _ in range(4)))
    worker = await join(mine)
    await mine.listen(worker, False)
    held = await take(mine, worker)
    await others.cancel(JobFilter(ids=(first,)), now=NOW)
    assert (await mine.beat(worker, expiry=60, now=NOW)).cancelled == ((first, 1),)
    assert sorted(await mine.held(worker)) == [(claim.id, 1) for claim in held]
    assert await mine.unlocked([first]) == {first}
    assert await mine.lease("rescue", worker, ttl=1, every=1, now=NOW)
    assert await mine.lease("rescue", worker, ttl=1, every=1, now=at(5))
    assert await mine.release([(held[1].id, 1)]) == {held[1].id}
    assert await mine.lose([(held[2].id, 1)], now=NOW) == {held[2].id}
    await mine.retire(worker)
    await mine.refresh_statistics()


@duty("worker", "expiry")
async def ends_what_has_expired(mine: SqlStore, others: SqlStore) -> None:
    """It ends a job that nobody runs; one that a schedule or a handler enqueues may expire, too."""
    await put(mine, wanted_until(NOW))
    assert await mine.end_expired(10, now=at(1)) == 1
    assert await mine.prune(OutcomeKind.CANCELLED, 0, 100, now=FAR_AHEAD) == 1


@duty("worker", "inbox")
async def forgets_messages(mine: SqlStore, others: SqlStore) -> None:
    """Those that are old."""
    async with others.engines.asynchronous().begin() as conn:
        await others.aremember("books", "m", conn)
    assert await mine.prune_inbox(-60, 10) == 1


@duty("worker", "action")
async def forgets_actions(mine: SqlStore, others: SqlStore) -> None:
    """Those that are old."""
    await others.audit.begin(NewAction(who="ana", action=ActionKind.CANCEL, filter="tag:x"))
    assert await mine.audit.prune(-60, 10) == 1


@duty("worker", "said")
async def forgets_what_was_said(mine: SqlStore, others: SqlStore) -> None:
    """That is old, too."""
    await others.federation.note_said("a" * 64, HOST, SAID)
    assert await mine.federation.prune_said(-60, 10) == 1


@duty("worker", "further_topic", "webhook_attempt")
async def forgets_webhooks(mine: SqlStore, others: SqlStore) -> None:
    """Tells an endpoint with several topics, and prunes what came of it."""
    await others.endpoints.put(endpoint(topics=("invoice.*", "order.*")))
    worker = await join(mine)
    await delivered(mine, worker)
    claims = await claimed(mine, worker)
    await fail(others, worker, claims)
    assert await mine.prune(OutcomeKind.DEAD, 0, 100, now=FAR_AHEAD) == len(claims) == 1


@duty("webhooks", "endpoint", "webhook_attempt", "breaker", "limit")
async def delivers_webhooks(mine: SqlStore, others: SqlStore) -> None:
    """To an endpoint that fails, is tried again, comes back, and is gone."""
    await others.endpoints.put(endpoint())
    worker = await join(mine)
    await delivered(mine, worker, 5)
    assert len(await mine.endpoints.to_send(["erp"])) == 1
    await fail(mine, worker, await claimed(mine, worker, 1))
    await fail(mine, worker, await claimed(mine, worker, 1))
    assert await mine.endpoints.probe(ERP, at_once=True)
    [probe] = await claimed(mine, worker)
    await mine.endpoints.record([attempt(probe)], TERMS)
    await finish(mine, worker, [probe])
    await fail(mine, worker, (await claimed(mine, worker))[:1], 410)


@duty("worker", "attempt")
async def rescues(mine: SqlStore, others: SqlStore) -> None:
    """Jobs of a worker that is gone."""
    ids = await put(others, due())
    await take(others, await join(others, expiry=1))
    assert await mine.rescue(now=at(60)) == [(ids[0], 2)]


@duty("worker", "job", "live", "job_id_seq", "progress")
async def runs_jobs(mine: SqlStore, others: SqlStore) -> None:
    """To every kind of end, with a handler for the death and jobs that a transaction enqueues."""
    await put(others, *(due(max_attempts=1) for _ in range(4)))
    worker = await join(mine)
    one, two, three, four = await take(mine, worker)
    await mine.report([Progress(one.id, 1, 1.0, 4.0, "one")], now=NOW)
    await mine.report([Progress(one.id, 1, 2.0, 4.0, "two")], now=NOW)
    again = ended(one, OutcomeKind.RETRIED, after=1.0, error_type="E", error="why")
    died = ended(two, DEAD, error_type="E", error="why", follow_up=due("dead", on_dead_of=two.id))
    assert await mine.settle(worker, [again, died], now=NOW) == {one.id, two.id}
    await run(mine, three, Watched(), "coroutine", child=True)
    await mine.settle(worker, [ended(four)], now=NOW)
    await mine.aenqueue(due() for _ in range(300))


@duty("worker", "counter", "slot", "parked", "limit", "limits")
async def keeps_limits(mine: SqlStore, others: SqlStore) -> None:
    """Those in its code, which it declares, confirms, takes and gives back."""
    rule = Limit(1, by="tenant").on(task="greet")
    declare = partial(mine.limits.put, origin=LimitOrigin.CODE, worker="w", now=NOW)
    await declare(rule)
    ids = await put(others, *(of_tenant(name) for name in "aab"))
    worker = await join(mine)
    claims = await take(mine, worker)
    assert sorted(claim.id for claim in claims) == [ids[0], ids[2]]
    assert len(await mine.limits.listed()) == 2
    await mine.settle(worker, [ended(claim) for claim in claims], now=NOW)
    await take(mine, worker)
    await declare(Limit(2, by="tenant", name=rule.name).on(task="greet"))
    await declare(Limit(2, name=rule.name).on(task="greet"))
    await mine.limits.confirm_declared([rule.name], "w", every=60, now=at(100))
    await mine.rescue(now=at(10_000))


@duty("worker", "counter", "parked")
async def keeps_rates(mine: SqlStore, others: SqlStore) -> None:
    """So many that start in a time: the first of the others is sent ahead; what idles goes."""
    await mine.limits.put(
        Limit(1, per=10).on(task="greet"), origin=LimitOrigin.CODE, worker="w", now=NOW
    )
    await put(others, *(due() for _ in range(3)))
    worker = await join(mine)
    assert [len(await take(mine, worker, now=at(n))) for n in (0, 5, 11, 22)] == [1, 0, 1, 1]
    await mine.rescue(now=at(100_000))


@duty("worker", "fairness", "fairness_served")
async def gives_turns(mine: SqlStore, others: SqlStore) -> None:
    """To tenants one after the other, those of limited tasks too."""
    await mine.declare_fairness({"fair": "tenant", "other": None})
    await put(others, *(of(name) for name in "aab"))
    worker = await join(mine)
    for _ in range(2):
        assert len(await take(mine, worker, 1)) == 1
    await mine.retire(worker)
    await mine.declare_fairness({"fair": "tenant", "other": "x"})
    await mine.declare_fairness({"other": None})


@duty("worker", "supersede_task")
async def declares_rules(mine: SqlStore, others: SqlStore) -> None:
    """Those of its tasks; others have none, or none any more."""
    for usual in (Unique(supersede=Supersede.activities()), Unique()):
        await mine.declare_supersede({"send": usual, "other": Unique()})


@duty("worker", "unjudged")
async def mends_what_no_rule_is_asked_about(mine: SqlStore, others: SqlStore) -> None:
    """Jobs that SQL enqueued while their task had a rule."""
    await others.declare_supersede({"send": Unique(supersede=Supersede.activities())})
    with others.engines.sync().begin() as conn:
        conn.execute(text("SELECT mutirao_enqueue('send', key => 'k')"))
    await others.declare_supersede({"send": Unique()})
    assert await mine.mend(now=NOW)


@duty("worker", "graph", "step", "gate", "edge", "result")
async def goes_through_graphs(mine: SqlStore, others: SqlStore) -> None:
    """Steps are let go, take results, are given up and undone; what is over is pruned."""
    doing = [step(a(n), compensate=taking(args='{"undo": 1}')) for n in range(3)]
    ids = await write_graph(others, chain(*doing, group(a(), a())), on_dead="compensate")
    await others.await_ends(ids)
    worker = await join(mine)
    for _ in range(2):
        await mine.settle(worker, [returned(await take_one(mine, worker), 1, 1.0)], now=NOW)
    await finish(mine, worker, [await take_one(mine, worker)], DEAD)
    worker = await join(mine, now=None)
    while claims := await take(mine, worker, now=FAR_AHEAD):
        await mine.settle(worker, [ended(claim) for claim in claims])
    for kind in (OutcomeKind.SUCCEEDED, DEAD, OutcomeKind.CANCELLED):
        await mine.prune(kind, 0, 100, now=FAR_AHEAD)
    assert await others.graphs() == []


@duty("worker", "subscription", "delivery", "job", "job_id_seq")
async def delivers(mine: SqlStore, others: SqlStore) -> None:
    """What is published, to those in its code, whom it declares; then it is pruned."""
    for queue in ("default", "default", "other"):
        asked = subscription("mail", queue=queue)
        await mine.subscriptions.put(asked, worker="w", now=NOW)
    await mine.subscriptions.confirm_declared(["mail"], "w", every=60, now=at(100))
    await publish(others)
    worker = await join(mine)
    await fan_out(mine, await take_one(mine, worker))
    await finish(mine, worker, [await take_one(mine, worker, now=FAR_AHEAD)], now=NOW)
    for _ in range(2):
        await mine.prune(OutcomeKind.SUCCEEDED, 0, 100, now=FAR_AHEAD)
    assert await others.jobs(JobFilter()) == []


@duty("worker", "ordered", "subscription")
async def delivers_in_order(mine: SqlStore, others: SqlStore) -> None:
    """Puts back what has to wait for another delivery, and what waits for a dead one."""
    worker = await dies_in_order(mine)
    await others.redrive(JobFilter())
    while claims := await take(mine, worker, now=FAR_AHEAD):
        await finish(mine, worker, claims, now=NOW)
    assert await mine.mend(now=NOW) == {}
    assert await mine.prune(DEAD, 0, 100, now=FAR_AHEAD) == 1


@duty("federation", "host", "said", "limit")
async def federates(mine: SqlStore, others: SqlStore) -> None:
    """It finds hosts down and up again, and notes what they were told."""
    await fail_host(mine)
    known = await mine.federation.host(HOST)
    assert known
    seen = known.changed_at
    up = await mine.federation.change_host(
        HOST, lambda was, now: answers(was, seen), queue="q", now=at(9)
    )
    assert up.failures == 0
    for _ in range(2):
        await mine.federation.note_said("a", HOST, SAID)
    await mine.federation.unsay("a")
    assert await mine.federation.said("a") is None


@duty("worker", "key")
async def lets_keys_go(mine: SqlStore, others: SqlStore) -> None:
    """Who waits for the end of a run is let go by it; keys of pruned jobs are forgotten."""
    await put(others, keyed("rerun"))
    worker = await join(mine)
    [claim] = await take(mine, worker)
    await put(others, keyed("rerun"))
    await finish(mine, worker, [claim])
    [claim] = await take(mine, worker)
    await put(others, keyed("rerun"))
    await mine.settle(worker, [ended(claim, OutcomeKind.RETRIED, after=1e6)], now=NOW)
    await finish(mine, worker, await take(mine, worker))
    for kind in (OutcomeKind.SUCCEEDED, OutcomeKind.CANCELLED):
        await mine.prune(kind, 0, 100, now=FAR_AHEAD)
    assert await others.jobs(JobFilter()) == []


@duty("worker", "supersede_last", "supersede_wait")
async def goes_through_series(mine: SqlStore, others: SqlStore) -> None:
    """Each job of a key after the one before, where some were cancelled too; then it is pruned."""
    ids = await put(others, *(activity("Like") for _ in range(4)))
    await others.cancel(JobFilter(ids=tuple(ids[1:2])), now=NOW)
    worker = await join(mine)
    while claims := await take(mine, worker):
        await finish(mine, worker, claims)
    for kind in (OutcomeKind.SUCCEEDED, OutcomeKind.CANCELLED):
        await mine.prune(kind, 0, 100, now=FAR_AHEAD)


@duty("worker", "supersede_wait")
async def moves_up_in_series(mine: SqlStore, others: SqlStore) -> None:
    """Behind one that somebody cancelled, while the first one runs."""
    await put(others, activity("Like"))
    worker = await join(mine)
    [first] = await take(mine, worker)
    later = await put(others, activity("Like"), activity("Like"))
    assert await others.cancel(JobFilter(ids=tuple(later[:1])), now=NOW)
    await finish(mine, worker, [first])
    assert len(await take(mine, worker)) == 1


@duty("worker", "supersede_wait", "parked", "key", "supersede_last", "live")
async def mends(mine: SqlStore, others: SqlStore) -> None:
    """What jobs have left behind that somebody deleted; to look for it locks nothing."""
    ids = await put(others, *(activity("Like") for _ in range(2)))
    with others.engines.sync().begin() as conn:
        conn.execute(delete(tables.live).where(tables.live.c.id.in_(ids)))
    assert await mine.mend(now=NOW)


@duty("worker", "schedule", "tick", "schedules")
async def lets_schedules_tick(mine: SqlStore, others: SqlStore) -> None:
    """Those in its code; each tick makes its job, and old ones are forgotten."""
    schedule = scheduled(
        seconds=1, catch_up=CatchUp.ALL, catch_up_limit=2 * TICKS_KEPT_PER_SCHEDULE
    )
    declare = partial(schedule_rules.declare, schedule=schedule, worker="w")
    await mine.schedules.amend("s", declare, now=NOW)
    assert (await mine.schedules.agenda(now=at(1))).due == ("s",)
    for moment in (1.0, 2.0 + TICKS_KEPT_PER_SCHEDULE):
        [ticked] = await mine.schedules.tick(10, now=at(moment))
        assert ticked.jobs
    await mine.schedules.confirm_declared(["s"], "w", every=60.0, now=at(100))
    assert [each.name for each in await mine.schedules.listed()] == ["s"]


@duty("worker", "rolled", "hour", "kept", "error", "backlog", "queues", "closing")
async def adds_up(mine: SqlStore, others: SqlStore) -> None:
    """Hours, errors, what came late, what was pruned since; counts live jobs; forgets."""
    await put(others, *(due(max_attempts=1) for _ in range(4)))
    worker = await join(mine)
    one, two, three, _ = await take(mine, worker)
    failed = ended(two, DEAD, error_type="E", error="why")
    await mine.settle(worker, [ended(one), failed], now=NOW)
    await _until(mine, others, at(100))
    await mine.settle(worker, [ended(three)], now=NOW)
    await mine.prune(OutcomeKind.SUCCEEDED, 0, 1, now=FAR_AHEAD)
    await _until(mine, others, at(200))
    await mine._sender.patiently(mine._sender.rules.count_backlog, 0, NOW)
    await mine.roll_up(0.0, now=at(100_000))


async def _until(mine: SqlStore, others: SqlStore, moment: datetime) -> None:
    """Roll up until it was done; other transactions of the server may be under way."""
    rolled = select(tables.rolled.c.until)
    while True:
        await mine.roll_up(None, now=moment)
        until = await others._sender.runner.alone(lambda conn: conn.scalar(rolled))
        if until == moment - timedelta(minutes=1):
            return


@duty("worker", "retries")
async def tries_again(mine: SqlStore, others: SqlStore) -> None:
    """What the database gave up for others, and counts it."""
    await mine._sender.runner.alone(mine.engines.dialect.count_retry)
