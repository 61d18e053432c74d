"""Replays: delivers earlier publications to a subscription, a part at a time.

Synchronous functions of a SQLAlchemy `Connection`; their contracts are in `mutirao.ports`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Text,
    cast,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
)

from mutirao.errors import InvalidArguments, InvalidSubscription, UnknownSubscription
from mutirao.model.row_json import UnreadableRow, read
from mutirao.model.topics.payload_filter import value_at
from mutirao.model.topics.subscriptions import Replay, Replayed
from mutirao.model.topics.topics import (
    PUBLICATION,
    receives,
)
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.enqueue.intake import Enqueue
from mutirao.sql.schema.tables import attempt, delivery, further_topic, job, live, subscription
from mutirao.sql.statements import ordering, subscriptions


@dataclass(frozen=True, slots=True)
class Replaying:
    """A replay, each part in a transaction of its own.

    Parameters:
        enqueue: writes jobs through a connection.
        most: how many publications a part looks at.
    """

    dialect: Dialect
    enqueue: Enqueue
    asked: Replay
    most: int

    def go_on(self, conn: Connection, after: int) -> Replayed:
        """Make deliveries of the next publications after this one, in the order of their ids."""
        whom = self._whom(conn)
        found = conn.execute(
            select(job.c.id, job.c.task, job.c.traceparent, job.c.tenant, job.c.group)
            .where(job.c.id > after, *self._which(whom, self._topics(conn, whom)))
            .order_by(job.c.id)
            .limit(self.most)
        ).all()
        passing = self._fanned_out(conn, whom, found)
        made = self._deliver(conn, whom, passing) if passing else 0
        return Replayed(made, found[-1].id if len(found) == self.most else None)

    def _deliver(self, conn: Connection, whom: Any, found: Sequence[Any]) -> int:
        """Make deliveries of these; return how many, as some may meet others of their key."""
        asked, keys = subscriptions.job_in(whom), self._keys(conn, whom, found)
        made = (
            subscriptions.delivery_of(asked, whom.id, each, keys.get(each.id, "")) for each in found
        )
        ids = subscriptions.written(self.enqueue(made, conn))
        self._record(conn, whom.id, ids)
        if whom.order_by is not None:
            ends = [(new, whom.id, keys[each.id]) for new, each in zip(ids, found, strict=True)]
            ordering.line_up(conn, ends)
        return len(ids)

    def _keys(self, conn: Connection, whom: Any, found: Sequence[Any]) -> dict[int, str]:
        """Return the key by which each of these is ordered, or its own key, if there is one."""
        field = whom.order_by or whom.key
        if field is None:
            return {}
        rows = self._payloads(conn, [each.id for each in found])
        return {row.id: value_at(_read(row), field) for row in rows}

    def _whom(self, conn: Connection) -> Any:
        """Return the subscription's row, locked: replays for one are made one after the other."""
        self.dialect.admin.bound_locks(conn)
        mine = select(subscription).where(subscription.c.id == self.asked.subscription)
        row = conn.execute(mine.with_for_update()).first()
        if row is None:
            raise UnknownSubscription(
                f"there is no subscription {self.asked.subscription!r}; `mutirao subscriptions"
                " list` shows those there are"
            )
        return row

    def _topics(self, conn: Connection, whom: Any) -> list[str]:
        """Return the topics and patterns whose publications are to be delivered."""
        further = select(further_topic.c.topic).where(further_topic.c.subscription == whom.id)
        its = [whom.topic, *conn.scalars(further.order_by(further_topic.c.topic))]
        topic = self.asked.topic
        if topic is None:
            return its
        if not any(receives(each, topic) for each in its):
            raise InvalidSubscription(
                f"subscription {whom.id!r} is to {', '.join(its)}, and not to {topic}; leave the"
                " topic out, or name one that it is subscribed to"
            )
        return [topic]

    def _which(self, whom: Any, topics: Sequence[str]) -> Iterator[ColumnElement[bool]]:
        yield or_(*map(ordering.is_on, topics))
        yield job.c.enqueued_at >= self.asked.since
        if self.asked.until is not None:
            yield job.c.enqueued_at < self.asked.until
        yield from ordering.is_for(whom)
        if self.asked.missing:
            yield ~exists().where(
                delivery.c.publication == job.c.id, delivery.c.subscription == whom.id
            )

    def _fanned_out(self, conn: Connection, whom: Any, found: Sequence[Any]) -> Sequence[Any]:
        """Return those of some publications that were fanned out, and pass the filter.

        One whose fan-out still runs is left out, unless that is past this subscription: the fan-out
        will reach it.
        """
        ids = [row.id for row in found]
        among = self.dialect.among
        held = self.dialect.hold_live(live.c.id, ids=ids)
        busy = list(conn.scalars(held.with_for_update()))
        past = select(delivery.c.publication).where(
            among(delivery.c.publication, busy),
            delivery.c.subscription >= whom.id,
            delivery.c.nth == 0,
            ~ordering.is_in_line(delivery.c.job),
        )
        if whom.order_by is not None:  # these are delivered before the others
            past = select(job.c.id).where(among(job.c.id, busy), job.c.id <= (whom.reached or 0))
        done = select(attempt.c.job).where(
            among(attempt.c.job, [id for id in ids if id not in busy]),
            attempt.c.outcome == "succeeded",
        )
        done_ids = {*(conn.scalars(past) if busy else ()), *conn.scalars(done)}
        if self.asked.missing:  # asked again: a worker may have delivered it until the lock
            done_ids -= self._having(conn, whom, [*done_ids])
        if whom.filter is not None:
            done_ids = set(self._passing(conn, whom, [*done_ids]))
        return [row for row in found if row.id in done_ids]

    def _having(self, conn: Connection, whom: Any, ids: Sequence[int]) -> set[int]:
        have = select(delivery.c.publication).where(
            self.dialect.among(delivery.c.publication, ids), delivery.c.subscription == whom.id
        )
        return set(conn.scalars(have))

    def _passing(self, conn: Connection, whom: Any, ids: Sequence[int]) -> Iterator[int]:
        for row in self._payloads(conn, ids):
            if subscriptions.passes(whom, _read(row)):
                yield row.id

    def _payloads(self, conn: Connection, ids: Sequence[int]) -> Sequence[Any]:
        payload = cast(job.c.args, Text).label("payload")
        rows = select(job.c.id, payload).where(self.dialect.among(job.c.id, ids))
        return conn.execute(rows).all()

    def _record(self, conn: Connection, whom: str, ids: Sequence[int]) -> None:
        """Write of which publication each of these jobs is, after those that there were."""
        which = job.c["metadata"][PUBLICATION].as_integer()
        last = select(func.coalesce(func.max(delivery.c.nth) + 1, 0)).where(
            delivery.c.publication == which, delivery.c.subscription == whom
        )
        rows = select(job.c.id, which, literal(whom), last.scalar_subquery())
        made = rows.where(self.dialect.among(job.c.id, ids))
        conn.execute(insert(delivery).from_select(list(delivery.c.keys()), made))


def _read(row: Any) -> Any:
    try:
        return read(row.payload)
    except UnreadableRow as error:
        raise InvalidArguments(
            f"publication {row.id} cannot be read, so that no filter can be asked: {error}; leave"
            " it out of the time that is replayed"
        ) from None
