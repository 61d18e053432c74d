"""Subscriptions in the tables: put, read and found for a publication; the same everywhere.

Synchronous functions of a SQLAlchemy `Connection`; their contracts are in `mutirao.ports`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import (
    Connection,
    bindparam,
    delete,
    exists,
    or_,
    select,
    true,
    update,
)

from mutirao.errors import InvalidSubscription, MutiraoError
from mutirao.model.jobs.job import Job, NewJob
from mutirao.model.keys.uniqueness import Placed
from mutirao.model.row_json import UnreadableRow, as_texts, only_texts, read, read_object, shown
from mutirao.model.topics.payload_filter import check_filter, matches, value_at
from mutirao.model.topics.subscriptions import (
    Subscription,
    SubscriptionKind,
    SubscriptionOrigin,
    SubscriptionRecord,
    WhenDead,
    job_options,
    limit_names,
    unique_of,
)
from mutirao.model.topics.topics import PUBLICATION, RETRY, SUBSCRIPTION, patterns_of, topic_of
from mutirao.sql import schema
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.schema.tables import limit, subscription
from mutirao.sql.statements import limits
from mutirao.sql.statements.upserts import clock, put_rows, unless_same

_NAMED = ("task", "queue", "priority")  # options of a job that have columns of their own
_SAID = ("topic", "tenant", "group", "kind", "key", "order_by", "when_dead")
_UNFIT = (UnreadableRow, MutiraoError, msgspec.MsgspecError, TypeError, ValueError, LookupError)
_COMPARED = [subscription.c[name] for name in (*_NAMED, *_SAID, "filter", "options", "declared")]


def put(
    conn: Connection,
    dialect: Dialect,
    asked: Sequence[Subscription],
    worker: str | None = None,
    now: datetime | None = None,
) -> None:
    """Write subscriptions: those that a worker has in its code, or those that were asked for.

    Subscriptions in code have no limits of their own; those set at run time stay.
    """
    had = _limits_of(conn, dialect, [each.id for each in asked])
    if worker is None:
        rules = [rule for each in asked for rule in each.rules.items()]
        for name, rule in rules:
            if rule is not None or name in had:
                limits.put_or_remove(conn, dialect, name, rule, now)
        had = set()
    moment, changed = clock(conn, dialect, now), dict[str, dict[str, Any]]()
    for each in asked:
        limited = bool(each.limits or had.intersection(limit_names(each.id)))
        changed[each.id] = _to_row(each, limited) | _declared(each, worker, moment)
    origin = str(SubscriptionOrigin.CALL if worker is None else SubscriptionOrigin.CODE)
    first = {"created_at": moment, "changed_at": moment, "origin": origin, "active": True}
    rows = {id: {"id": id} | row | first for id, row in changed.items()}

    def change(row: Any) -> Mapping[str, Any]:
        return _changed(row, changed[row.id], moment)

    put_rows(conn, dialect, subscription, rows, change, *_COMPARED)


def _declared(asked: Subscription, worker: str | None, moment: datetime) -> dict[str, Any]:
    if worker is None:
        return {}
    return {"declared": asked.fingerprint, "declared_at": moment, "declared_by": worker}


def _changed(row: Any, asked: dict[str, Any], moment: datetime) -> Mapping[str, Any]:
    """Return what changes of a subscription that there is."""
    if "declared" not in asked:
        return unless_same(row, asked | {"changed_at": moment})
    code = {"origin": str(SubscriptionOrigin.CODE)}
    if row.declared != asked["declared"]:
        return asked | {"changed_at": moment} | code
    # A change at run time stays until the code has something else.
    return {name: asked[name] for name in ("declared_at", "declared_by")} | code


def set_active(
    conn: Connection, dialect: Dialect, id: str, active: bool, now: datetime | None = None
) -> bool:
    """Enable or disable a subscription; return whether there is one. A single transaction."""
    mine = subscription.c.id == id
    was = conn.scalar(select(subscription.c.active).where(mine).with_for_update())
    if was is None:
        return False
    if bool(was) is not active:
        changed = {"active": active, "changed_at": dialect.moment(now)}
        conn.execute(update(subscription).where(mine).values(**changed))
    return True


def change(
    conn: Connection,
    dialect: Dialect,
    id: str,
    new: Mapping[str, Any],
    now: datetime | None = None,
) -> bool:
    """Give a subscription new values; return whether there is one. A single transaction."""
    mine = subscription.c.id == id
    if conn.scalar(select(subscription.c.id).where(mine).with_for_update()) is None:
        return False
    values = {**new, "changed_at": dialect.moment(now)}
    if values.get("filter") is not None:
        values["filter"] = msgspec.json.encode(values["filter"]).decode()
    conn.execute(update(subscription).where(mine).values(values))
    return True


def _limits_of(conn: Connection, dialect: Dialect, ids: Sequence[str]) -> set[str]:
    """Return the names of the limits that these subscriptions have of their own."""
    names = [name for id in ids for name in limit_names(id)]
    return {*conn.scalars(select(limit.c.name).where(dialect.among(limit.c.name, names)))}


def remove(conn: Connection, dialect: Dialect, id: str) -> bool:
    """Remove a subscription with its limits; return whether there was one."""
    for name in _limits_of(conn, dialect, [id]):
        limits.remove(conn, dialect, name, None)
    return bool(conn.execute(delete(subscription).where(subscription.c.id == id)).rowcount)


def listed(conn: Connection) -> list[SubscriptionRecord]:
    """List the subscriptions by id. A single statement."""
    view, its = schema.views.subscriptions, subscription.c
    query = select(view, its.options).join(subscription, its.id == view.c.id).order_by(view.c.id)
    return [_to_record(row) for row in conn.execute(query)]


def _to_record(row: Any) -> SubscriptionRecord:
    values = as_texts(row._asdict()) | _as_values(row) | {"unfit": unfit(row)}
    del values["options"]
    return SubscriptionRecord(**values)


def _as_values(row: Any) -> dict[str, Any]:
    return {
        "origin": SubscriptionOrigin(row.origin),
        "kind": SubscriptionKind(row.kind),
        "filter": None if row.filter is None else shown(row.filter),
        "when_dead": None if row.when_dead is None else WhenDead(row.when_dead),
    }


def named(conn: Connection, dialect: Dialect, ids: Sequence[str]) -> Sequence[Any]:
    """Return the subscriptions of these ids, by id."""
    which = select(subscription).where(dialect.among(subscription.c.id, ids))
    return conn.execute(which.order_by(subscription.c.id)).all()


_with_order = select(subscription.c.id).where(
    subscription.c.topic.in_(bindparam("topics", expanding=True)),
    subscription.c.order_by.is_not(None),
    subscription.c.active == true(),
    *(
        or_(its.is_(None), its == bindparam(its.name, type_=its.type))
        for its in (subscription.c.tenant, subscription.c.group)
    ),
)
# Whether there are any: an expression over what `whose` returns. Made once, as that takes 0.3 ms.
ANY_WITH_ORDER = exists(_with_order)
_BY_ID = _with_order.order_by(subscription.c.id)


def with_order(conn: Connection, publication: Job) -> list[str]:
    """Return the active subscriptions to a publication that have an order, by id.

    They are few, and have one topic each; their filters were not asked.
    """
    return only_texts(conn.scalars(_BY_ID, whose(publication)))


def whose(publication: Job) -> dict[str, Any]:
    """Return the topics, the tenant and the group of a publication, by name."""
    topics = patterns_of(topic_of(publication.task))
    return {"topics": topics, "tenant": publication.tenant, "group": publication.group}


def passes(row: Any, payload: object) -> bool:
    """Return whether a payload is as the filter of a subscription's row asks, if it has one."""
    return row.filter is None or matches(_filter_in(row), payload)


def key_in(row: Any, payload: object) -> str:
    """Return the key of a delivery to a subscription, of what was published; empty: none."""
    return "" if row.key is None else value_at(payload, row.key)


def _filter_in(row: Any) -> dict[str, Any]:
    try:
        return check_filter(read(row.filter))
    except (UnreadableRow, InvalidSubscription) as unfit:
        raise InvalidSubscription(
            f"the filter of subscription {row.id!r} in the database is {row.filter!s:.200}:"
            f" {unfit}; put it again, or remove it"
        ) from None


def unfit(row: Any) -> str | None:
    """Return why no delivery can be made of a subscription's row; None: one can."""
    try:
        if row.filter is not None:
            _filter_in(row)
        job_in(row)
    except InvalidSubscription as error:
        return str(error)
    return None


def job_in(row: Any) -> NewJob:
    """Return the job that a subscription's row asks for."""
    try:
        options = read_object(row.options, "what it asks for")
        msgspec.convert(options, _Options)
        options["tags"] = tuple(options.get("tags", ()))
        options["unique"] = unique_of(said) if (said := options.get("unique")) else None
        return NewJob(**{name: getattr(row, name) for name in _NAMED}, **options)
    except _UNFIT as unfit:
        raise InvalidSubscription(
            f"the options of subscription {row.id!r} in the database are {row.options!s:.200}:"
            f" {unfit}; put it again, or remove it"
        ) from None


class _Options(msgspec.Struct):
    """The options that a subscription may have, and their types."""

    delay: float = 0.0
    max_attempts: int | None = None
    timeout: float | None = None
    tags: list[str] = []
    fair_by: str | None = None
    args: str = "{}"


def delivery_of(asked: NewJob, id: str, publication: Any, key: str = "") -> NewJob:
    """Return the job of a delivery: what a subscription asks for, of a publication, with a key.

    The key is unique if the subscription asks for that.
    """
    return replace(
        asked,
        metadata={PUBLICATION: publication.id, SUBSCRIPTION: id},
        traceparent=publication.traceparent,
        tenant=publication.tenant,
        group=publication.group,
        key=key or None,
        unique=asked.unique if key else None,
    )


def written(ids: Sequence[int]) -> list[int]:
    """Return those of the ids of an enqueue that are new jobs: others had the key."""
    return [id for id in ids if not isinstance(id, Placed) or id.written]


def _to_row(asked: Subscription, limited: bool) -> dict[str, Any]:
    options = {k: v for k, v in job_options(asked.job).items() if k not in (*_NAMED, "args")}
    waits = {} if asked.retry is None else {RETRY: asked.retry}
    if limited or waits:  # limits count by this argument, and attempts wait by that one
        options["args"] = msgspec.json.encode({SUBSCRIPTION: asked.id, **waits}).decode()
    filter = asked.filter and msgspec.json.encode(asked.filter).decode()
    row: dict[str, Any] = {name: getattr(asked.job, name) for name in _NAMED}
    row |= {name: getattr(asked, name) for name in _SAID}
    return row | {"filter": filter, "options": msgspec.json.encode(options).decode()}
