"""The results of webhooks, in the tables: attempts, and the breakers that they open and close.

Synchronous functions of a SQLAlchemy `Connection` in a transaction; their contracts are in
`mutirao.ports.endpoints`.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, and_, delete, insert, or_, select

from mutirao.model.jobs.job import NewJob
from mutirao.model.topics.topics import task_of
from mutirao.model.webhooks.breakers import (
    Breaker,
    BreakerName,
    BreakerState,
    BreakerTerms,
    BreakerVerdict,
    Tally,
    half_open,
    judge,
)
from mutirao.model.webhooks.endpoints import (
    DISABLED_TOPIC,
    FIRST,
    PROBE_TASK,
    USUAL_LIMIT,
    WEBHOOK_QUEUE,
    stop_of,
)
from mutirao.model.webhooks.webhook_attempts import GONE, WebhookAttempt
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.enqueue.intake import Enqueue
from mutirao.sql.registry import dialect_of
from mutirao.sql.rules.webhooks import values_of
from mutirao.sql.schema.tables import breaker, endpoint, webhook_attempt
from mutirao.sql.statements import endpoints, held_deliveries, limits

Tallies = Mapping[BreakerName, Tally]


class Judged(NamedTuple):
    """The work left for `act`: tallies whose breakers open or close, endpoints gone."""

    tallies: Tallies
    gone: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.tallies or self.gone)


def record(
    conn: Connection,
    dialect: Dialect,
    attempts: Sequence[WebhookAttempt],
    terms: BreakerTerms,
    now: datetime | None,
) -> Judged:
    """Write attempts, and count failures. Return the work that needs the lock that stops claims."""
    moment = dialect.moment(now)
    rows = [values_of(each) for each in attempts]
    conn.execute(insert(webhook_attempt).values(finished_at=moment), rows)
    gone = frozenset(each.endpoint for each in attempts if each.status == GONE)
    tallies = tallied(attempts)
    failing = {name: each for name, each in tallies.items() if each.failed}
    verdicts = _judged(conn, dialect, tallies, failing, terms, now)
    acting = {name: tallies[name] for name, verdict in verdicts.items() if verdict.acts}
    for name, verdict in verdicts.items():
        if not verdict.acts:
            _write(conn, name, verdict.row)
    endpoints.note_failures(conn, {e.endpoint: e.summary for e in attempts if not e.ok}, moment)
    return Judged(acting, gone)


def act(
    conn: Connection,
    dialect: Dialect,
    enqueue: Enqueue,
    judged: Judged,
    terms: BreakerTerms,
    now: datetime | None,
) -> None:
    """Open and close breakers, and disable endpoints; judged again, under the lock."""
    limits.keep_claims_out(conn)
    verdicts = _judged(conn, dialect, judged.tallies, judged.tallies, terms, now)
    for name, verdict in verdicts.items():
        _write(conn, name, verdict.row)
        rule = stop_of(*name, "breaker")
        if verdict.wait is not None:
            limits.put_or_remove(conn, dialect, rule.name, rule, now)
            enqueue([_probe(name, verdict.wait)], conn)
        elif verdict.closes:
            held_deliveries.sort(conn, dialect, *name)
            limits.put_or_remove(conn, dialect, rule.name, None, now)
    reasons = {
        name.key: f"it has only failed for {timedelta(seconds=terms.disable_after)}"
        for name, verdict in verdicts.items()
        if verdict.disable
    }
    reasons |= dict.fromkeys(sorted(judged.gone), "it answered 410 Gone")
    for id, reason in reasons.items():
        _disable(conn, dialect, enqueue, id, reason, now)
    opened = [name.key for name, each in verdicts.items() if each.wait and name.kind == "endpoint"]
    if opened:
        limits.doubt(conn, USUAL_LIMIT.name, opened)


def doubt(conn: Connection, id: str) -> None:
    """Limit an endpoint to few at once, as one that has not answered yet."""
    limits.doubt_one(conn, USUAL_LIMIT.name, id)


def probe(
    conn: Connection,
    dialect: Dialect,
    name: BreakerName,
    at_once: bool = False,
    now: datetime | None = None,
) -> bool:
    """Let one delivery through, if it is time (or `at_once`); return whether one is let through."""
    limits.keep_claims_out(conn)
    moment = conn.scalar(select(dialect.moment(now)))
    row = _rows(conn, dialect, [name]).get(name)
    if row is None or moment is None:
        return False
    due = half_open(row, max(moment, row.probe_at or moment) if at_once else moment)
    if due is None:
        return False
    _write(conn, name, due)
    held_deliveries.sort(conn, dialect, *name)
    rule = stop_of(*name, "breaker", most=1)
    limits.put_or_remove(conn, dialect, rule.name, rule, now)
    return True


def resume(conn: Connection, dialect: Dialect, id: str, now: datetime | None = None) -> bool:
    """Release the deliveries held for an endpoint; one first, if its host does not answer.

    Returns whether there is one of that id.
    """
    limits.keep_claims_out(conn)
    host = conn.scalar(select(endpoint.c.host).where(endpoint.c.id == id))
    if host is None:
        return False
    mine = BreakerName("endpoint", id), BreakerName("host", host)
    _rows(conn, dialect, mine)  # before the endpoint: locks have one order
    probe(conn, dialect, mine[1], True, now)
    return endpoints.resume(conn, dialect, id, now)


def open_to(conn: Connection, id: str) -> list[BreakerName]:
    """Return which breakers hold deliveries to an endpoint. A single statement."""
    host = select(endpoint.c.host).where(endpoint.c.id == id).scalar_subquery()
    mine = or_(
        and_(breaker.c.kind == "endpoint", breaker.c.key == id),
        and_(breaker.c.kind == "host", breaker.c.key == host),
    )
    opened = select(breaker.c.kind, breaker.c.key).where(breaker.c.state == BreakerState.OPEN, mine)
    return [BreakerName(*row) for row in conn.execute(opened)]


def tallied(attempts: Iterable[WebhookAttempt]) -> dict[BreakerName, Tally]:
    """Count attempts by endpoint and by host.

    An answer, whatever it says, is a success of the host.
    """
    tallies: dict[BreakerName, Tally] = {}
    for each in attempts:
        mine = tallies.setdefault(BreakerName("endpoint", each.endpoint), Tally())
        if each.hold is not None:
            mine.hold = max(each.hold, mine.hold or 0.0)
        elif each.ok:
            mine.succeeded += 1
        else:
            mine.failed += 1
        host = tallies.setdefault(BreakerName("host", each.host), Tally())
        if each.answered:
            host.succeeded += each.failure is None
        else:
            host.failed += 1
    return tallies


def _judged(
    conn: Connection,
    dialect: Dialect,
    tallies: Tallies,
    wanted: Tallies,
    terms: BreakerTerms,
    now: datetime | None,
) -> dict[BreakerName, BreakerVerdict]:
    """Judge the breakers that are there, and those that are wanted, in the order of their names."""
    rows = _rows(conn, dialect, sorted(tallies)) if tallies else {}
    asked = {name for name, each in tallies.items() if each.hold is not None}
    names = sorted({*rows, *wanted} | asked)
    if not names:
        return {}
    moment = conn.scalar(select(dialect.moment(now)))
    if moment is None:
        raise AssertionError("a database that does not know the time")
    return {name: judge(rows.get(name), name, tallies[name], terms, moment) for name in names}


def _rows(
    conn: Connection, dialect: Dialect, names: Sequence[BreakerName]
) -> dict[BreakerName, Breaker]:
    """Return breakers, locked."""
    by_kind: dict[str, list[str]] = {}
    for name in names:
        by_kind.setdefault(name.kind, []).append(name.key)
    wanted = or_(
        *(
            and_(breaker.c.kind == kind, dialect.among(breaker.c.key, keys))
            for kind, keys in by_kind.items()
        )
    )
    ordered = select(breaker).where(wanted).order_by(breaker.c.kind, breaker.c.key)
    found = [
        Breaker(**row._asdict() | {"state": BreakerState(row.state)})
        for row in conn.execute(ordered.with_for_update())
    ]
    return {BreakerName(row.kind, row.key): row for row in found}


def _write(conn: Connection, name: BreakerName, row: Breaker | None) -> None:
    if row is None:
        conn.execute(delete(breaker).where(breaker.c.kind == name.kind, breaker.c.key == name.key))
        return
    values = {each.name: getattr(row, each.name) for each in breaker.c} | {"state": str(row.state)}
    dialect_of(conn.dialect).put_row(conn, breaker, values)


def _probe(name: BreakerName, wait: float) -> NewJob:
    """Return the job that lets one delivery through when it is time."""
    args = msgspec.json.encode({"kind": name.kind, "key": name.key}).decode()
    return NewJob(task=PROBE_TASK, args=args, queue=WEBHOOK_QUEUE, priority=FIRST, delay=wait)


def _disable(
    conn: Connection,
    dialect: Dialect,
    enqueue: Enqueue,
    id: str,
    reason: str,
    now: datetime | None,
) -> None:
    endpoints.close(conn, dialect, "endpoint", id, now)
    row: Any = endpoints.disable(conn, dialect, id, reason, now)
    if row is None:
        return
    event = {"endpoint": id, "host": row.host, "reason": reason}
    args = msgspec.json.encode(event).decode()
    whose = {"tenant": row.tenant, "group": row.group}
    publication = NewJob(task=task_of(DISABLED_TOPIC), args=args, queue=WEBHOOK_QUEUE, **whose)
    enqueue([publication], conn)
