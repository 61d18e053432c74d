"""Forgets old entries of the inbox; the same on every database."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, delete, select, tuple_

from mutirao.sql.dialects.base import Dialect
from mutirao.sql.schema.tables import inbox


def prune(
    conn: Connection, dialect: Dialect, before: float, limit: int, now: datetime | None = None
) -> int:
    """Forget messages first seen more than `before` seconds ago, oldest first; return how many."""
    found = conn.execute(
        select(inbox.c.consumer, inbox.c.message)
        .where(inbox.c.first_at < dialect.moment(now, -before))
        .order_by(inbox.c.first_at)
        .limit(limit)
    ).all()
    if found:
        forget(conn, [(row.consumer, row.message) for row in found])
    return len(found)


def forget(conn: Connection, messages: Sequence[tuple[str, str]]) -> None:
    """Forget messages, each by its consumer and its id."""
    which = tuple_(inbox.c.consumer, inbox.c.message).in_(messages)
    conn.execute(delete(inbox).where(which))
