"""What an operator does by the command line or a dashboard, and a reader with a BI tool."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

from sqlalchemy import Connection, text

from mutirao.model.audit.actions import ActionKind, ActionState, Came, NewAction
from mutirao.model.graphs.graph import chain, step
from mutirao.model.jobs.change import Change
from mutirao.model.jobs.job import OutcomeKind
from mutirao.model.jobs.records import JobFilter
from mutirao.model.limits.limits import Limit, pause_of
from mutirao.model.schedules import schedule_rules
from mutirao.model.schedules.schedule import TICKS_KEPT_PER_SCHEDULE, CatchUp
from mutirao.model.topics.subscriptions import Replay
from mutirao.sql.schema import views
from mutirao.sql.statements import doctor
from mutirao.sql.store.jobs import SqlStore
from mutirao_conformance.endpoints import (
    ERP,
    OTHER,
    claimed,
    delivered as delivered_to,
    endpoint,
    fail,
)
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
    ids_of,
    join,
    put,
    put_finished,
    take,
    take_one,
)
from mutirao_conformance.limits import of as of_tenant
from mutirao_conformance.ordering import dies_in_order
from mutirao_conformance.schedules import order, plan, scheduled
from mutirao_conformance.supersede import activity
from mutirao_conformance.topics import delivered, subscription
from mutirao_conformance.uniqueness import keyed
from tests.integration.roles.duties import duty


@duty("operator", "version", "jobs", "queues", "workers", "graphs", "worker", "schedules", "limits")
async def looks(mine: SqlStore, others: SqlStore) -> None:
    """At everything there is."""
    await mine.check()
    first, *_ = await write_graph(others, chain(a(), a(tags=("t",), fingerprint="f")))
    which = JobFilter(tag="t", graph=first, fingerprint="f", limit=5)
    assert len(await mine.jobs(which)) == 1
    assert (await mine.job(first)).attempts == ()
    assert (await mine.graph(first)).jobs == len((await mine.graph(first)).steps) == 2
    assert len(await mine.graphs()) == 1
    assert await mine.counts()
    for listed in (mine.workers, mine.schedules.listed, mine.limits.listed):
        assert await listed() == []
    assert await mine.unserved_tasks(["b"]) == {"a": 2}


@duty("operator", "live")
async def examines(mine: SqlStore, others: SqlStore) -> None:
    """What `mutirao doctor` finds."""
    found = await mine._sender.runner.alone(doctor.findings, ["a"])
    assert {finding.about for finding in found} >= {"schema", "claims", "horizon", "workers"}


@duty("operator", "attempt", "supersede_wait", "waiter")
async def cancels(mine: SqlStore, others: SqlStore) -> None:
    """What waits and what runs, with those that waited for it."""
    [waits] = await put(others, due(run_at=FAR_AHEAD))
    await others.await_ends([waits])
    worker = await join(others)
    await put(others, keyed("rerun"))
    await take(others, worker)
    await put(others, keyed("rerun"), *(activity("Like") for _ in range(4)))
    ids = ids_of(await mine.jobs(JobFilter()))
    assert len(await mine.cancel(JobFilter(ids=tuple(ids[-4:])), now=NOW)) == 4
    assert await mine.cancel(JobFilter(), now=NOW)


@duty("operator", "supersede_wait")
async def cancels_the_first_of_a_series(mine: SqlStore, others: SqlStore) -> None:
    """Whoever is next moves up, also behind one that was cancelled before."""
    await put(others, activity("Like"))
    [first] = await take(others, await join(others))
    second, third, fourth = await put(others, *(activity("Like") for _ in range(3)))
    await mine.cancel(JobFilter(ids=(third,)), now=NOW)
    await mine.cancel(JobFilter(ids=(second,)), now=NOW)
    assert first.id < fourth


@duty("operator", "graph", "step", "gate", "edge", "job_id_seq", "fairness", "job")
async def cancels_steps(mine: SqlStore, others: SqlStore) -> None:
    """What a graph does then is done: those behind go, or all before is undone."""
    await write_graph(others, chain(a(), a(), a()), on_dead="continue")
    await mine.cancel(JobFilter(), now=NOW)
    doing = [step(a(n), compensate=taking()) for n in range(3)]
    ids = await write_graph(others, chain(*doing, a()), on_dead="compensate")
    worker = await join(others)
    for _ in range(2):
        await others.settle(worker, [returned(await take_one(others, worker), 1)], now=NOW)
    assert await mine.cancel(JobFilter(ids=(ids[2],)), now=NOW)
    assert (await mine.graph(ids[0])).jobs == 6


@duty("operator", "parked")
async def runs_now(mine: SqlStore, others: SqlStore) -> None:
    """What is scheduled, and does not wait for others."""
    ids = await put(others, due(run_at=FAR_AHEAD), keyed(run_at=FAR_AHEAD))
    assert await mine.run_now(JobFilter(), now=NOW) == ids


@duty("operator", "job", "parked")
async def changes(mine: SqlStore, others: SqlStore) -> None:
    """What waits, for its time or for a limit."""
    await others.limits.put(Limit(1).on(task="greet"), now=NOW)
    ids = await put(others, due(), due(), due(), due("other", run_at=FAR_AHEAD))
    await take(others, await join(others))
    new = Change(priority=-1, run_at=NOW, max_attempts=2)
    assert await mine.change(JobFilter(), new, now=NOW) == ids[1:]
    assert await mine.change(JobFilter(), Change(queue="q"), now=NOW) == ids[1:]


@duty("operator", "job", "fairness", "job_id_seq")
async def redrives(mine: SqlStore, others: SqlStore) -> None:
    """One dead job, a step of a graph, and many at once of which some take turns."""
    worker = await join(others)
    await put_finished(others, worker, due(), kind=DEAD)
    assert len(await mine.redrive(JobFilter())) == 1
    await write_graph(others, chain(a(), a()))
    await finish(others, worker, await take(others, worker), DEAD)
    assert len(await mine.redrive(JobFilter(task="a"))) == 1
    await others.declare_fairness({"fair": "tenant"})
    await put_finished(others, worker, of("a"), of("b"), kind=DEAD)
    assert len(await mine.redrive(JobFilter(task="fair"))) == 2


@duty("operator", "delivery")
async def redrives_deliveries(mine: SqlStore, others: SqlStore) -> None:
    """Which are deliveries again; then they are pruned, and what was published after them."""
    worker = await join(others)
    _, claims = await delivered(others, worker, "mail")
    await finish(others, worker, claims, DEAD)
    assert len(await mine.redrive(JobFilter())) == 1
    await finish(others, worker, await take(others, worker, now=FAR_AHEAD), now=NOW)
    for kind in (DEAD, OutcomeKind.SUCCEEDED, OutcomeKind.SUCCEEDED):
        assert await mine.prune(kind, 0, 100, now=FAR_AHEAD) == 1


@duty("operator", "ordered")
async def redrives_in_order(mine: SqlStore, others: SqlStore) -> None:
    """A dead delivery that another one waits for; its turn is pruned with it."""
    worker = await dies_in_order(others)
    assert len(await mine.redrive(JobFilter())) == 1
    while claims := await take(others, worker, now=FAR_AHEAD):
        await finish(others, worker, claims, now=NOW)
    assert await mine.prune(DEAD, 0, 100, now=FAR_AHEAD) == 1


@duty("operator", "subscription", "subscriptions")
async def subscribes(mine: SqlStore, others: SqlStore) -> None:
    """At run time: who is told, for how long, and no more."""
    for queue in ("default", "other"):
        await mine.subscriptions.put(subscription("mail", queue=queue), now=NOW)
    assert await mine.subscriptions.set_active("mail", False)
    assert [each.active for each in await mine.subscriptions.listed()] == [False]
    assert await mine.subscriptions.replay(Replay(subscription="mail", since=NOW), 0) == (0, None)
    assert await mine.subscriptions.remove("mail")


@duty("operator", "endpoint", "endpoints", "further_topic", "breaker")
async def manages_endpoints(mine: SqlStore, others: SqlStore) -> None:
    """Puts one, changes it, holds what is for it, tries it again, and removes it."""
    for _ in range(2):
        await mine.endpoints.put(endpoint(topics=("*", "order.*"), rate=1_000.0))
    assert await mine.endpoints.rotate_secret("erp", OTHER, keep=60)
    worker = await join(others)
    await delivered_to(others, worker, 3)
    await fail(others, worker, await claimed(others, worker, 2))
    assert await mine.endpoints.probe(ERP, at_once=True)
    assert await mine.endpoints.pause("erp")
    assert await mine.endpoints.resume("erp")
    assert [each.id for each in await mine.endpoints.listed()] == ["erp"]
    assert await mine.endpoints.remove("erp")


@duty("operator", "webhook_attempt")
async def prunes_webhooks(mine: SqlStore, others: SqlStore) -> None:
    """With their attempts."""
    await others.endpoints.put(endpoint())
    worker = await join(others)
    await delivered_to(others, worker)
    await fail(others, worker, await claimed(others, worker))
    assert await mine.prune(OutcomeKind.DEAD, 0, 100, now=FAR_AHEAD) == 1


@duty("operator", "limit", "counter", "slot", "parked")
async def limits(mine: SqlStore, others: SqlStore) -> None:
    """Makes one, changes what it counts and how much, cancels what waits for it, removes it."""
    worker = await join(others)
    await put(others, *(of_tenant(name) for name in "aab"))
    await take(others, worker, 1)
    rule = Limit(1, by="tenant").on(task="greet")
    await mine.limits.put(rule, now=NOW)
    await take(others, worker)
    await mine.limits.put(Limit(1, name=rule.name).on(task="greet"), now=NOW)
    await put(others, *(due() for _ in range(3)))
    await take(others, worker)
    await mine.limits.put(Limit(4, name=rule.name).on(task="greet"), now=NOW)
    await put(others, *(due() for _ in range(3)))
    await take(others, worker)
    blocked = ids_of(await mine.jobs(JobFilter(task="greet")))[0]
    await mine.cancel(JobFilter(ids=(blocked,)), now=NOW)
    assert await mine.limits.remove(rule.name, now=NOW)


@duty("operator", "counter", "parked", "slot")
async def mends_limits(mine: SqlStore, others: SqlStore) -> None:
    """What was changed by hand, and what nobody counts any more."""
    await others.limits.put(Limit(1, per=10).on(task="greet"), now=NOW)
    await others.limits.put(Limit(1).on(task="other"), now=NOW)
    ids = await put(others, *(due() for _ in range(3)), due("other"), due("other"))
    worker = await join(others)
    await take(others, worker)
    await others._sender.runner.run(_forget_a_run, ids[3])
    await mine.cancel(JobFilter(ids=(ids[1],)), now=at(1))
    await mine.cancel(JobFilter(), now=at(100_000))


def _forget_a_run(conn: Connection, id: int) -> None:
    conn.execute(text("DELETE FROM mutirao_live WHERE id = :id"), {"id": id})


@duty("operator", "host", "said", "limit", "job", "job_id_seq")
async def sees_to_hosts(mine: SqlStore, others: SqlStore) -> None:
    """Lists them, lets them fail, and forgets them."""
    await fail_host(mine)
    assert [each.failures for each in await mine.federation.hosts()] == [1]
    await others.federation.note_said("a", HOST, SAID)
    assert await mine.federation.forget_host(HOST)
    assert await others.federation.said("a") is None


@duty("operator", "limit")
async def pauses(mine: SqlStore, others: SqlStore) -> None:
    """A queue."""
    pause = pause_of("default", None)
    await mine.limits.put(pause, now=NOW)
    assert await mine.limits.remove(pause.name, now=NOW)


@duty("operator", "schedule", "tick")
async def changes_schedules(mine: SqlStore, others: SqlStore) -> None:
    """Puts one, changes and pauses it, runs it, often, and removes it."""
    await plan(mine, scheduled(catch_up=CatchUp.ALL, catch_up_limit=2 * TICKS_KEPT_PER_SCHEDULE))
    await order(mine, partial(schedule_rules.change, terms={"every": timedelta(seconds=1)}))
    await order(mine, schedule_rules.pause)
    await order(mine, schedule_rules.resume)
    assert (await order(mine, schedule_rules.run_now)).jobs
    assert (await order(mine, schedule_rules.remove)).state is None


@duty(
    "operator", "job", "attempt", "key", "supersede_last", "result", "progress", "waiter",
    "graph", "step", "gate", "edge", "kept",
)  # fmt: skip
async def prunes(mine: SqlStore, others: SqlStore) -> None:
    """History, with keys, supersede rules, graphs and results."""
    await put(others, keyed(), activity("Like"), due())
    await write_graph(others, chain(a(), a()))
    worker = await join(others)
    while claims := await take(others, worker):
        await others.settle(worker, [ended(claim) for claim in claims], now=NOW)
    assert await mine.prune(OutcomeKind.SUCCEEDED, 0, 100, now=FAR_AHEAD) == 5


@duty("operator", "retries")
async def tries_again(mine: SqlStore, others: SqlStore) -> None:
    """What the database gave up for others, and counts it."""
    await mine._sender.runner.alone(mine.engines.dialect.count_retry)


@duty("operator", "backlog", "kept", "throughput", "errors", "rolled")
async def looks_at_pages(mine: SqlStore, others: SqlStore) -> None:
    """Lists by a filter, figures, and why a job does not run."""
    [id] = await put(others, due())
    assert ids_of((await mine.reading.page(JobFilter())).jobs) == [id]
    assert (await mine.reading.how_many(JobFilter())).jobs == 1
    assert await mine.reading.figures()
    assert await mine.reading.hours(NOW) == []
    assert await mine.reading.errors() == []
    assert await mine.reading.standing(id) is not None


@duty("operator", "action", "audit")
async def acts_on_many(mine: SqlStore, others: SqlStore) -> None:
    """In batches, which are written down; and deletes what has finished."""
    id = await mine.audit.begin(NewAction(who="ana", action=ActionKind.DELETE, filter="tag:x"))
    assert await mine.audit.advance(id, Came(1, 1))
    assert await mine.audit.stop(id)
    await mine.audit.end(id, ActionState.STOPPED)
    assert [each.id for each in await mine.audit.actions()] == [id]


@duty("reader")
async def reads(mine: SqlStore, others: SqlStore) -> None:
    """Each view."""
    await put(others, due())
    for view in views.metadata.tables.values():
        await mine._sender.runner.alone(_selected(view.name))


def _selected(view: str) -> Callable[[Connection], None]:
    return lambda conn: conn.execute(text(f"SELECT * FROM {view}")).close()  # noqa: S608
