"""Endpoints in the tables: put, pause, resume, remove, list, and read them to send; the same
everywhere.

Synchronous functions of a SQLAlchemy `Connection` in a transaction; their contracts are in
`mutirao.ports.endpoints`. Locks are taken in one order: the one that stops claims, then
breakers, endpoints, subscriptions.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from mutirao.errors import InvalidEndpoint, MutiraoError
from mutirao.model import row_json
from mutirao.model.limits.limits import LimitOrigin
from mutirao.model.row_json import shown
from mutirao.model.topics.subscriptions import SubscriptionKind, WhenDead
from mutirao.model.webhooks.endpoints import (
    FAIR_BY,
    WEBHOOK_QUEUE,
    WEBHOOK_TASK,
    Endpoint,
    EndpointRecord,
    UnreadableEndpoint,
    limits_of,
    stop_of,
    subscription_of,
    without_secret,
)
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.registry import dialect_of
from mutirao.sql.schema import views
from mutirao.sql.schema.tables import breaker, endpoint, further_topic, limit, subscription
from mutirao.sql.statements import held_deliveries, limits
from mutirao.sql.statements.upserts import clock, hold as hold_rows, put_rows, unless_same

_JSON = ("headers", "topics", "filter", "retry")
_SECRETS = ("secret", "previous_secret", "previous_until")
_SUBSCRIBED = (
    "topic", "tenant", "group", "filter", "kind", "order_by", "when_dead", "task", "queue",
    "priority", "options",
)  # fmt: skip
_FIELDS = [each.name for each in fields(Endpoint)]


def put(
    conn: Connection,
    dialect: Dialect,
    asked: Sequence[Endpoint],
    keep_secrets: Collection[str] = (),
    now: datetime | None = None,
) -> None:
    """Create endpoints, or change those of their ids, which stay paused or disabled."""
    limits.keep_claims_out(conn)
    moment, kept = clock(conn, dialect, now), {*keep_secrets}
    _check_kept(hold_rows(conn, dialect, endpoint, [each.id for each in asked]), kept)
    rows = {each.id: _to_row(each) | {"host": each.host, "changed_at": moment} for each in asked}
    first = {"active": True, "paused": False, "created_at": moment}

    def change(row: Any) -> Mapping[str, Any]:
        without = {"id", *_SECRETS} if row.id in kept else {"id"}
        new = {name: value for name, value in rows[row.id].items() if name not in without}
        return unless_same(row, new)

    needs = [endpoint.c[name] for name in (*_FIELDS, "host") if name != "id"]
    put_rows(conn, dialect, endpoint, {id: row | first for id, row in rows.items()}, change, *needs)
    _put_limits(conn, dialect, asked, now)
    _subscribe(conn, dialect, asked, moment)


def rotate(
    conn: Connection,
    dialect: Dialect,
    id: str,
    secret: str,
    keep: float,
    now: datetime | None = None,
) -> bool:
    """Give an endpoint another secret, beside the one it had; return whether it exists."""
    mine = endpoint.c.id == id
    asked = select(endpoint.c.secret, endpoint.c.signer).where(mine)
    found = conn.execute(asked.with_for_update()).first()
    if found is None:
        return False
    if found.signer is not None:
        raise InvalidEndpoint(
            f"endpoint {id!r} is signed by {found.signer!r}, which uses no secret of it; put it"
            " with secret=… in place of the signer"
        )
    # What is not kept is not left to the clocks of those who sign.
    previous = found.secret if keep else None
    until = None if previous is None else dialect.moment(now, keep)
    before = {"previous_secret": previous, "previous_until": until}
    return _change(conn, dialect, id, now, secret=secret, **before)


def remove(conn: Connection, dialect: Dialect, id: str, now: datetime | None = None) -> bool:
    """Remove an endpoint, or its remains; return whether there was anything."""
    limits.keep_claims_out(conn)
    conn.execute(delete(breaker).where(breaker.c.kind == "endpoint", breaker.c.key == id))
    limited = [limits.remove(conn, dialect, name, now) for name in limits_of(id)]
    subscribed = _unsubscribe(conn, id)
    gone = conn.execute(delete(endpoint).where(endpoint.c.id == id)).rowcount
    return any(limited) or subscribed or bool(gone)


def pause(conn: Connection, dialect: Dialect, id: str, now: datetime | None = None) -> bool:
    """Hold the deliveries to an endpoint; return whether it exists."""
    limits.keep_claims_out(conn)
    if not _change(conn, dialect, id, now, paused=True):
        return False
    hold(conn, dialect, id, now)
    return True


def resume(conn: Connection, dialect: Dialect, id: str, now: datetime | None) -> bool:
    """Release the deliveries held for an endpoint; return whether it exists.

    They were held by a pause, by its own breaker, or as it was disabled. The lock that stops claims
    is held.
    """
    held_deliveries.sort(conn, dialect, "endpoint", id)
    close(conn, dialect, "endpoint", id, now)
    enabled = {"active": True, "paused": False, "disabled_reason": None, "disabled_at": None}
    found = _change(conn, dialect, id, now, **enabled)
    _set_active(conn, id, True)
    limits.remove(conn, dialect, stop_of("endpoint", id, "pause").name, now)
    return found


def disable(
    conn: Connection, dialect: Dialect, id: str, reason: str, now: datetime | None
) -> Any | None:
    """Disable an endpoint: it gets no more deliveries, and those that exist wait.

    Returns its row, None if it was disabled before or is gone. The lock that stops claims is held.
    """
    found = conn.execute(select(endpoint).where(endpoint.c.id == id).with_for_update()).first()
    if found is None or not found.active:
        return None
    values = {"active": False, "disabled_reason": reason, "disabled_at": dialect.moment(now)}
    _change(conn, dialect, id, now, **values)
    _set_active(conn, id, False)
    hold(conn, dialect, id, now)
    return found


def note_failures(
    conn: Connection, failures: Mapping[str, str], moment: ColumnElement[Any]
) -> None:
    """Record the last failures, given by endpoint, in the order of their ids."""
    for id in sorted(failures):
        failed = {"last_failure": failures[id], "failed_at": moment}
        conn.execute(update(endpoint).where(endpoint.c.id == id).values(**failed))


def hold(conn: Connection, dialect: Dialect, id: str, now: datetime | None) -> None:
    """Hold the deliveries to an endpoint, until it is resumed."""
    rule = stop_of("endpoint", id, "pause")
    limits.put(conn, dialect, rule, LimitOrigin.PAUSE, None, now)


def close(conn: Connection, dialect: Dialect, kind: str, key: str, now: datetime | None) -> None:
    """Close a breaker, and release its held deliveries."""
    conn.execute(delete(breaker).where(breaker.c.kind == kind, breaker.c.key == key))
    limits.remove(conn, dialect, stop_of(kind, key, "breaker").name, now)


def listed(conn: Connection) -> list[EndpointRecord]:
    """List the endpoints by id. A single statement."""
    view = views.endpoints
    rows = conn.execute(select(view).order_by(view.c.id))
    return [EndpointRecord(**row._asdict() | _as_values(row)) for row in rows]


def _as_values(row: Any) -> dict[str, Any]:
    return {
        "topics": _listed(row.topics),
        "filter": None if row.filter is None else shown(row.filter),
        "when_dead": None if row.when_dead is None else WhenDead(row.when_dead),
        "retry": None if row.retry is None else _listed(row.retry),
    }


def _listed(text: str) -> tuple[Any, ...]:
    """Return a list for people; another value becomes a list of one."""
    found = shown(text)
    return tuple(found) if isinstance(found, list) else (found,)


def read(conn: Connection, ids: Collection[str]) -> list[Endpoint | UnreadableEndpoint]:
    """Return these endpoints with their secrets, for the worker that sends. A single statement."""
    among = dialect_of(conn.dialect).among(endpoint.c.id, list(ids))
    rows = conn.execute(select(*(endpoint.c[name] for name in _FIELDS)).where(among))
    return [_from_row(row._asdict()) for row in rows]


def _to_row(asked: Endpoint) -> dict[str, Any]:
    row = {name: getattr(asked, name) for name in _FIELDS}
    return row | {name: _json(row[name]) for name in _JSON}


# Errors of a row that was changed by hand.
_BY_HAND = (MutiraoError, row_json.UnreadableRow, TypeError, ValueError, AttributeError)


def _from_row(row: dict[str, Any]) -> Endpoint | UnreadableEndpoint:
    try:
        values = {name: row[name] and row_json.read(row[name]) for name in _JSON}
        return Endpoint(**row | values)
    except _BY_HAND as wrong:
        return UnreadableEndpoint(row["id"], str(wrong))


def _json(value: Any) -> str | None:
    return None if value is None else msgspec.json.encode(value).decode()


def _check_kept(there: Collection[str], kept: Collection[str]) -> None:
    """Refuse to keep the secret of an endpoint that is not there."""
    if unknown := sorted({*kept} - {*there}):
        raise without_secret(unknown)


def _put_limits(
    conn: Connection, dialect: Dialect, asked: Sequence[Endpoint], now: datetime | None
) -> None:
    """Write the limits that endpoints have of their own, and remove those they no longer have."""
    rules = {name: rule for each in asked for name, rule in each.rules.items()}
    there = select(limit.c.name).where(dialect.among(limit.c.name, list(rules)))
    had = {*conn.scalars(there)}
    for name, rule in rules.items():
        if rule is not None or name in had:
            limits.put_or_remove(conn, dialect, name, rule, now)


def _change(
    conn: Connection, dialect: Dialect, id: str, now: datetime | None, **values: Any
) -> bool:
    change = update(endpoint).where(endpoint.c.id == id)
    values["changed_at"] = dialect.moment(now)
    return dialect.update_returning(conn, change.values(**values), endpoint.c.id) is not None


def _subscribe(
    conn: Connection, dialect: Dialect, asked: Sequence[Endpoint], moment: datetime
) -> None:
    """Write the subscriptions by which the fan-out makes jobs for endpoints."""
    rows = {subscription_of(each.id): _subscription_row(each, moment) for each in asked}
    first = {"created_at": moment, "active": True, "origin": "call"}
    new = {name: {"id": name} | row | first for name, row in rows.items()}
    needs = [subscription.c[name] for name in _SUBSCRIBED]
    put_rows(conn, dialect, subscription, new, lambda row: unless_same(row, rows[row.id]), *needs)
    mine = dialect.among(further_topic.c.subscription, list(rows))
    conn.execute(delete(further_topic).where(mine))
    more = [
        {"topic": topic, "subscription": subscription_of(each.id)}
        for each in asked
        for topic in each.topics[1:]
    ]
    if more:
        conn.execute(insert(further_topic), more)


def _subscription_row(asked: Endpoint, moment: datetime) -> dict[str, Any]:
    args = msgspec.json.encode({"endpoint": asked.id, "host": asked.host}).decode()
    attempts = {} if asked.max_attempts is None else {"max_attempts": asked.max_attempts}
    return {
        "topic": asked.topics[0], "tenant": asked.tenant, "group": asked.group,
        "filter": _json(asked.filter), "kind": str(SubscriptionKind.ENDPOINT),
        "order_by": asked.order_by, "when_dead": asked.when_dead,
        "task": WEBHOOK_TASK, "queue": WEBHOOK_QUEUE, "priority": 0,
        "options": _json({"args": args, "fair_by": FAIR_BY} | attempts), "changed_at": moment,
    }  # fmt: skip


def _unsubscribe(conn: Connection, id: str) -> bool:
    """Delete the subscription of an endpoint; return whether there was one."""
    name = subscription_of(id)
    conn.execute(delete(further_topic).where(further_topic.c.subscription == name))
    return bool(conn.execute(delete(subscription).where(subscription.c.id == name)).rowcount)


def _set_active(conn: Connection, id: str, active: bool) -> None:
    mine = subscription.c.id == subscription_of(id)
    conn.execute(update(subscription).where(mine).values(active=active))
