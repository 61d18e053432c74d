"""Disables subscriptions of which no delivery can be made: their rows were changed by hand.

So the others get their deliveries. Nothing is queried unless a fan-out has failed. Synchronous
functions of a SQLAlchemy `Connection` in a transaction.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, exists, or_, select, true, update

from mutirao.errors import SchemaError, StoreGone, StoreUnavailable
from mutirao.model.jobs.job import Job
from mutirao.model.topics.topics import patterns_of, topic_of
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.drivers.failures import translated
from mutirao.sql.enqueue.intake import Enqueue
from mutirao.sql.schema.tables import further_topic, subscription
from mutirao.sql.statements import subscriptions

_AT_ONCE = 1_000  # rows of one query


@dataclass(frozen=True, slots=True)
class DisableUnfit:
    """The search for subscriptions that make the fan-out of a publication fail.

    Parameters:
        enqueue: writes jobs through a connection.
    """

    dialect: Dialect
    enqueue: Enqueue
    publication: Job
    now: datetime | None

    def write(self, conn: Connection) -> Mapping[str, str]:
        """Disable them; return the error of each, by id."""
        found: dict[str, str] = {}
        refused: dict[str, str] = {}
        made = 0
        for rows in self._parts(conn):
            reasons = {row.id: reason for row in rows if (reason := subscriptions.unfit(row))}
            fit = [row for row in rows if row.id not in reasons]
            found |= reasons
            refused |= (those := self._refused(conn, fit))
            made += len(fit) - len(those)
        if made:  # if none can be made, the reason is elsewhere
            found |= refused
        if found:
            its = subscription.c
            changed = {"active": False, "changed_at": self.dialect.moment(self.now)}
            mine = self.dialect.among(its.id, [*found])
            conn.execute(update(subscription).where(mine).values(**changed))
        return found

    def _parts(self, conn: Connection) -> Iterator[Sequence[Any]]:
        """Yield the active subscriptions that may match, some at a time, by id."""
        its, further = subscription.c, further_topic.c
        topics = patterns_of(topic_of(self.publication.task))
        more = exists().where(further.subscription == its.id, further.topic.in_(topics))
        query = select(subscription).where(
            or_(its.topic.in_(topics), more),
            its.active == true(),
            or_(its.tenant.is_(None), its.tenant == self.publication.tenant),
        )
        after = ""
        while True:
            part = query.where(its.id > after).order_by(its.id).limit(_AT_ONCE)
            rows = conn.execute(part).all()
            yield rows
            if len(rows) < _AT_ONCE:
                return
            after = rows[-1].id

    def _refused(self, conn: Connection, rows: Sequence[Any]) -> dict[str, str]:
        """Return those whose jobs the database refuses; each trial is rolled back.

        The rows are halved until one is left.
        """
        if not rows:
            return {}
        savepoint = conn.begin_nested()
        try:
            publication = self.publication
            each = ((subscriptions.job_in(row), row.id) for row in rows)
            self.enqueue(
                (subscriptions.delivery_of(job, id, publication) for job, id in each), conn
            )
        except Exception as error:
            refusal = translated(error) or error
            if conn.invalidated or isinstance(refusal, StoreUnavailable | StoreGone | SchemaError):
                raise  # the savepoint may be gone with the transaction
            savepoint.rollback()
            if len(rows) == 1:
                return {
                    rows[0].id: f"a delivery to subscription {rows[0].id!r} is refused: {refusal}"
                }
        else:
            savepoint.rollback()
            return {}
        half = len(rows) // 2
        return self._refused(conn, rows[:half]) | self._refused(conn, rows[half:])
