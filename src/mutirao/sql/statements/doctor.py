"""The examination of a database: problems with the tables, the jobs in them and the workers.

Reads only. The parts that differ between databases are in their `admin`.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from sqlalchemy import Connection, func, inspect, select

from mutirao.errors import SchemaDiffers, SchemaError, SchemaMissing, SchemaTooNew
from mutirao.model.federation.hosts import BY, DELIVER
from mutirao.model.findings import Finding, Level
from mutirao.model.jobs.job import JobState
from mutirao.model.jobs.records import WorkerRecord
from mutirao.model.limits.limits import LimitRecord
from mutirao.model.schedules.schedule import ScheduleRecord, ScheduleStatus
from mutirao.model.topics.topics import TOPIC_TASK, patterns_of, topic_of
from mutirao.model.webhooks.endpoints import (
    DISABLED_TOPIC,
    PROBE_TASK,
    WEBHOOK_QUEUE,
    WEBHOOK_TASK,
    subscription_of,
)
from mutirao.sql.connections.engines import Engines
from mutirao.sql.connections.runner import Runner, for_people
from mutirao.sql.registry import dialect_of
from mutirao.sql.schema import version, views
from mutirao.sql.statements import (
    endpoints,
    lanes,
    leftovers,
    limits,
    records,
    schedules,
    subscriptions,
)

# Workers use the database's clock; people compare it with theirs.
MAX_CLOCK_SKEW = timedelta(seconds=1)
OVERDUE_AFTER = timedelta(minutes=1)  # schedulers read the agenda every few seconds
ALEMBIC = "alembic_version"  # the table of the application's own Alembic, if it has one
MAX_NAMES_SHOWN = 5  # names listed before "and 3 more"

_PAUSED = (
    ("paused", "jobs wait until `mutirao resume`; `mutirao limits list` shows them"),
    ("webhooks are held", "`mutirao endpoints list` shows why; `mutirao endpoints resume` or"
     " `probe` lets them out"),
    ("activities are held", "`mutirao hosts list` shows why, `mutirao hosts flush` tries the host"),
)  # fmt: skip


async def examine(engines: Engines, known: Collection[str]) -> list[Finding]:
    """Examine a database for an application that has the tasks `known`; return the findings.

    Raises:
        StoreUnavailable: it cannot be reached.
    """
    runner = Runner(engines)
    try:
        return await runner.read(for_people(findings), known, engines.schema)
    except SchemaMissing as error:  # there is no file
        return [_without_schema(error)]
    finally:
        await runner.close()


def findings(conn: Connection, known: Collection[str], schema: str | None = None) -> list[Finding]:
    """Examine everything, or only the schema if that does not fit."""
    try:
        version.check(conn, schema)
    except SchemaError as error:
        return [*dialect_of(conn.dialect).admin.unfit(conn), _without_schema(error)]
    where = "" if schema is None else f" in schema {schema}"
    return [
        Finding(Level.OK, "schema", f"revision {version.head()}{where}, as this version needs"),
        *_migrations(conn),
        *_clock(conn),
        *dialect_of(conn.dialect).admin.health_checks(conn),
        *_queues(conn),
        *lanes.findings(conn),
        *_tasks(conn, known),
        *_schedules(conn, known),
        *_topics(conn, known),
        *_limits(conn),
        *_leftovers(conn),
        *_workers(conn),
    ]


def _migrations(conn: Connection) -> Iterator[Finding]:
    """Return what an application's own Alembic must know; no database shows it."""
    if inspect(conn).has_table(ALEMBIC):
        yield Finding(
            Level.OK,
            "migrations",
            "the application has Alembic migrations of its own in this database: with the hooks of"
            " mutirao.integrations.alembic in its env.py they leave these tables alone",
        )


def _without_schema(error: SchemaError) -> Finding:
    refused = isinstance(error, SchemaDiffers | SchemaTooNew)  # by `mutirao migrate`, too
    todo = "do as this says" if refused else "run `mutirao migrate`"
    return Finding(Level.PROBLEM, "schema", str(error), todo)


def _clock(conn: Connection) -> Iterator[Finding]:
    before = datetime.now(UTC)
    theirs = dialect_of(conn.dialect).admin.clock(conn)
    after = datetime.now(UTC)
    skew = max(theirs - after, before - theirs, timedelta())
    if skew <= MAX_CLOCK_SKEW:
        yield Finding(Level.OK, "clock", "this machine and the database agree within a second")
        return
    ahead = "ahead of" if theirs > after else "behind"
    yield Finding(
        Level.WARNING,
        "clock",
        f"the database's clock is {skew.total_seconds():.1f} s {ahead} this machine's",
        "jobs are due by the database's clock; synchronise both machines (NTP)",
    )


def _queues(conn: Connection) -> Iterator[Finding]:
    alive = _alive(conn)
    waiting = _waiting(conn)
    served = {queue for queue in waiting if any(worker.serves(queue) for worker in alive)}
    orphans = {queue: jobs for queue, jobs in waiting.items() if queue not in served}
    if not orphans:
        yield Finding(Level.OK, "queues", "every queue with waiting jobs has a worker")
        return
    yield Finding(
        Level.WARNING,
        "queues",
        f"no live worker serves {_listed(orphans)}",
        "start a worker with these queues (`mutirao worker module:app -q …`), or without -q and"
        " --exclude-queues",
    )


def _alive(conn: Connection) -> list[WorkerRecord]:
    return [worker for worker in records.workers(conn) if worker.alive]


def _waiting(conn: Connection) -> Mapping[str, int]:
    view = views.queues.c
    waiting = view.state.in_([JobState.SCHEDULED, JobState.READY, JobState.BLOCKED])
    rows = conn.execute(select(view.queue, func.sum(view.jobs)).where(waiting).group_by(view.queue))
    return {row[0]: int(row[1]) for row in rows}


def _tasks(conn: Connection, known: Collection[str]) -> Iterator[Finding]:
    unknown = dict(records.unserved_tasks(conn, known))
    left = _left_to_nobody(conn, known)
    webhooks = {task: unknown.pop(task) for task in (WEBHOOK_TASK, PROBE_TASK) if task in unknown}
    if webhooks and not any(WEBHOOK_QUEUE in (w.queues or ()) for w in _alive(conn)):
        yield Finding(
            Level.WARNING,
            "tasks",
            f"webhooks wait: {_listed(webhooks)}; no live worker has their queue by its name",
            "if none delivers them, start one: `mutirao worker module:app --webhooks`, or `mutirao"
            " webhooks --database URL`",
        )
    if unknown:
        yield Finding(
            Level.WARNING,
            "tasks",
            f"this application has no task {_listed(unknown)}",
            "the jobs wait for a worker that knows them: deploy the version that does, or"
            " `mutirao cancel --task …`",
        )
    if left:
        yield Finding(
            Level.WARNING,
            "tasks",
            f"no live worker of its queue serves task {_listed(left)}",
            "start a worker with these tasks (`mutirao worker module:app --tasks …`), or without"
            " --tasks",
        )
    if not unknown and not left:
        yield Finding(Level.OK, "tasks", "this application knows the task of every waiting job")


def _left_to_nobody(conn: Connection, known: Collection[str]) -> Mapping[str, int]:
    """Count the waiting jobs of known tasks by task, where their queue has workers, for others."""
    alive = _alive(conn)
    if all(worker.tasks is None for worker in alive):
        return {}
    found = Counter[str]()
    for (queue, task), jobs in records.waiting(conn).items():
        of_queue = [worker for worker in alive if worker.serves(queue)]
        if of_queue and task in known and not any(w.serves(queue, task) for w in of_queue):
            found[task] += jobs
    return found


def _topics(conn: Connection, known: Collection[str]) -> Iterator[Finding]:
    """Name the subscriptions with unreadable rows, and those to topics that do not exist here.

    The latter if the application has topics at all.
    """
    found = subscriptions.listed(conn)
    if unfit := [each for each in found if each.unfit]:
        yield Finding(
            Level.PROBLEM,
            "topics",
            f"no delivery can be made to {_quoted([each.id for each in unfit])}: {unfit[0].unfit}",
            "put it again (`mutirao subscriptions put`), and enable it, where it was disabled for"
            " that; `mutirao replay --missing` delivers what it has missed",
        )
    topics = {topic_of(task) for task in known if task.startswith(TOPIC_TASK)}
    if not topics:
        return
    matched = {each for topic in (*topics, DISABLED_TOPIC) for each in patterns_of(topic)}
    asked = [(each.id, each.topic) for each in found]
    for endpoint in endpoints.listed(conn):  # of its topics a subscription shows the first
        asked += [(subscription_of(endpoint.id), topic) for topic in endpoint.topics[1:]]
    deaf = [f"{id} to {topic}" for id, topic in asked if topic not in matched]
    if deaf:
        yield Finding(
            Level.WARNING,
            "topics",
            f"no topic of this application is what is subscribed to: {_quoted(deaf)}",
            "correct what is misspelt (`mutirao subscriptions put`, or `mutirao endpoints put`), or"
            " leave it, if others publish on it",
        )
    else:
        yield Finding(
            Level.OK, "topics", f"{len(found)} subscriptions, all to topics of this application"
        )


def _limits(conn: Connection) -> Iterator[Finding]:
    found = {each.name: each for each in limits.listed(conn)}
    lost = [name for name, each in found.items() if each.is_left]
    if lost:
        yield Finding(
            Level.WARNING,
            "limits",
            f"{_quoted(lost)} were declared in code and are in no live worker's",
            "they are still in force: put them back, or `mutirao limits remove`",
        )
    if gone := leftovers.limits_of_no_subscription(conn, found.values()):
        yield Finding(
            Level.WARNING,
            "limits",
            f"{_quoted(gone)} are of subscriptions that were deleted by hand",
            "they hold deliveries that are left: `mutirao limits remove`",
        )
    of_endpoints = leftovers.endpoints(conn, found.values())
    yield from _endpoints(of_endpoints)
    held = [each for each in found.values() if not each.key or each.key not in of_endpoints.gone]
    paused = {each.name: each for each in held if each.paused}
    for what, advice in _PAUSED:
        if names := [name for name, each in paused.items() if _held(each) == what]:
            said = [name.removeprefix("pause ") for name in names]
            yield Finding(Level.WARNING, "limits", f"{what}: {_quoted(said)}", advice)
    if not (lost or gone or paused or of_endpoints.gone):
        yield Finding(Level.OK, "limits", f"{len(found)} in force, nothing is paused")


def _endpoints(found: leftovers.LeftEndpoints) -> Iterator[Finding]:
    """Name the endpoints of which something was deleted by hand."""
    if found.gone:
        yield Finding(
            Level.WARNING,
            "endpoints",
            f"{_quoted(found.gone)} were deleted by hand; their subscriptions or limits are left",
            "what is published is still delivered to them, and held or cancelled: `mutirao"
            " endpoints remove` removes the rest",
        )
    if found.unsubscribed:
        yield Finding(
            Level.WARNING,
            "endpoints",
            f"the subscriptions of {_quoted(found.unsubscribed)} were deleted by hand",
            "nothing is sent to them: `mutirao endpoints put` them again, or remove them",
        )


def _held(limit: LimitRecord) -> str:
    """Return which kind of jobs a pause holds, as `_PAUSED` has it."""
    if limit.task == WEBHOOK_TASK:
        return "webhooks are held"
    return "activities are held" if (limit.task, limit.by) == (DELIVER, BY) else "paused"


def _leftovers(conn: Connection) -> Iterator[Finding]:
    found = leftovers.count(conn)
    for what, number in found.items():
        yield Finding(
            Level.WARNING, "leftovers", f"{number} {what}", "a worker mends them within ten minutes"
        )
    if not found:
        yield Finding(Level.OK, "leftovers", "nothing was left behind")


def _schedules(conn: Connection, known: Collection[str]) -> Iterator[Finding]:
    """Examine the schedules, except finished ones, which make no jobs."""
    going = [s for s in schedules.listed(conn) if s.status is not ScheduleStatus.FINISHED]
    late = dialect_of(conn.dialect).admin.clock(conn) - OVERDUE_AFTER
    unknown = [s for s in going if s.task not in known]
    lost = [s for s in going if s.in_code is False]
    stuck = [s for s in going if s.status is ScheduleStatus.ACTIVE and (s.next_at or late) < late]
    paused = [s for s in going if s.status is ScheduleStatus.PAUSED]
    for found, level, what, advice in (
        (
            stuck,
            Level.PROBLEM,
            "should have ticked a minute ago, and did not",
            "start a worker; where some run, their logs say why",
        ),
        (
            unknown,
            Level.WARNING,
            "make jobs of tasks that this application does not have",
            "deploy the version that has them, or `mutirao schedules remove`",
        ),
        (
            lost,
            Level.WARNING,
            "were declared in code and are in no live worker's",
            "they still tick: put them back, or `mutirao schedules remove` (or pause)",
        ),
        (
            paused,
            Level.WARNING,
            "are paused and make no jobs",
            "`mutirao schedules list` says why; once that is mended: `mutirao schedules resume`",
        ),
    ):
        if found:
            yield Finding(level, "schedules", f"{_names(found)} {what}", advice)
    if not (unknown or lost or stuck or paused):
        yield Finding(Level.OK, "schedules", f"{len(going)} that tick, on time")


def _names(found: Collection[ScheduleRecord]) -> str:
    return _quoted([schedule.name for schedule in found])


def _quoted(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:MAX_NAMES_SHOWN])
    return (
        shown
        if len(names) <= MAX_NAMES_SHOWN
        else f"{shown} and {len(names) - MAX_NAMES_SHOWN} more"
    )


def _workers(conn: Connection) -> Iterator[Finding]:
    workers = records.workers(conn)
    alive = [worker for worker in workers if worker.alive]
    for worker in workers:
        if not worker.alive:
            yield _expired(worker, bool(alive))
        elif worker.stuck:
            yield _stuck(worker)
        if worker.alive and worker.late > _lifetime(worker) / 2:
            yield _late(worker)
    if alive:
        yield Finding(Level.OK, "workers", f"{len(alive)} alive")
    elif not workers:
        level = Level.PROBLEM if _waiting(conn) else Level.OK
        advice = "start one: `mutirao worker module:app`" if level is Level.PROBLEM else None
        yield Finding(level, "workers", "none is registered", advice)


def _expired(worker: WorkerRecord, others: bool) -> Finding:
    return Finding(
        Level.WARNING if others else Level.PROBLEM,
        "workers",
        f"worker {worker.id} ({worker.name}) has not beaten since"
        f" {worker.beat_at.astimezone(UTC):%Y-%m-%d %H:%M:%SZ} and holds {worker.running} jobs",
        "the live workers will take them over within seconds"
        if others
        else "start a worker: it takes the jobs over",
    )


def _lifetime(worker: WorkerRecord) -> float:
    return (worker.expires_at - worker.beat_at).total_seconds()


def _late(worker: WorkerRecord) -> Finding:
    return Finding(
        Level.WARNING,
        "workers",
        f"a heartbeat of worker {worker.id} ({worker.name}) came {worker.late:.1f} s late; beyond"
        f" {_lifetime(worker):.1f} s its jobs run elsewhere as well",
        "look for a handler that keeps the interpreter to itself (a regular expression, a C"
        " extension) and give it process=True; or for a machine that has too much to do",
    )


def _stuck(worker: WorkerRecord) -> Finding:
    return Finding(
        Level.PROBLEM if worker.stuck >= worker.concurrency else Level.WARNING,
        "workers",
        f"worker {worker.id} ({worker.name}) has lost {worker.stuck} of {worker.concurrency} slots"
        " to threads that ran into their timeout",
        "restart it; make those tasks coroutines, or give them process=True, so that they can be"
        " stopped",
    )


def _listed(counts: Mapping[str, int]) -> str:
    named = [f"{name!r} ({count} jobs)" for name, count in list(counts.items())[:MAX_NAMES_SHOWN]]
    more = f" and {len(counts) - MAX_NAMES_SHOWN} more" if len(counts) > MAX_NAMES_SHOWN else ""
    return ", ".join(named) + more
