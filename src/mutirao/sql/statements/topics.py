"""Publications and their deliveries in the tables; the same on every database.

Synchronous functions of a SQLAlchemy `Connection`; their contracts are in `mutirao.ports`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from typing import Any

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Text,
    cast,
    exists,
    func,
    insert,
    literal,
    select,
)

from mutirao.errors import InvalidArguments, StaleRun
from mutirao.model.job import Claim, Job, NewJob
from mutirao.model.outcome import Settlement
from mutirao.model.topics import (
    PUBLICATION,
    SUBSCRIPTION,
    topic_of,
)
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.enqueue.intake import Enqueue
from mutirao.sql.registry import dialect_of
from mutirao.sql.schema.tables import attempt, delivery, job, live
from mutirao.sql.statements import subscriptions

Finish = Callable[[Connection, Settlement], set[int]]

# Fan-out


@dataclass(frozen=True, slots=True)
class FanOut:
    """The fan-out of a publication, a part at a time, each in a transaction of its own.

    Parameters:
        enqueue: writes jobs through a connection.
        finish: completes a job, and returns it unless its run is stale.
        most: how many subscriptions a part has.
    """

    dialect: Dialect
    enqueue: Enqueue
    finish: Finish
    most: int

    def go_on(
        self, conn: Connection, publication: Job, done: Settlement, after: str | None
    ) -> str | None:
        """Make the jobs of the next subscriptions; with the last ones, complete the publication.

        Returns the last subscription; None: it is complete. Whoever holds the run is alone with the
        publication, as its live row is locked.
        """
        _hold(conn, publication)
        if after is None:
            after = _reached(conn, publication)
        whole = not self.dialect.delivers
        found = subscriptions.matching(conn, publication, after, self.most, whole=whole)
        told = _told_of(publication, [*{row.id: row for row in found}.values()])
        if told:
            self._deliver(conn, publication, told)
        if len(found) == self.most:
            return str(found[-1].id)
        if not self.finish(conn, done):
            raise _stale(publication)
        return None

    def _deliver(self, conn: Connection, publication: Job, told: Sequence[Any]) -> None:
        if self.dialect.delivers:
            self.dialect.deliver(conn, publication.id, [row.id for row in told])
        else:
            ids = self.enqueue(_deliveries(publication, told), conn)
            _record(conn, self.dialect, publication, ids)


def _hold(conn: Connection, publication: Job) -> None:
    """Lock the publication's live row, or raise StaleRun if another run has it."""
    mine = select(live.c.run).where(live.c.id == publication.id, live.c.worker.is_not(None))
    if conn.scalar(mine.with_for_update()) != publication.run:
        raise _stale(publication)


def _stale(publication: Job) -> StaleRun:
    return StaleRun(
        f"publication {publication.id} ({publication.task}) was taken from this attempt (run"
        f" {publication.run}), so it makes no more deliveries; whoever holds it now goes on"
    )


def _reached(conn: Connection, publication: Job) -> str:
    """Return the last subscription that was told of it: parts are made in the order of ids.

    A publication that died on the way and was redriven goes on where it had ended.
    """
    these: list[int] = []
    before: int | None = publication.id
    while before is not None:
        these.append(before)
        before = conn.scalar(
            select(job.c.redrive_of)
            .join(attempt, attempt.c.job == job.c.redrive_of)
            .where(job.c.id == before, attempt.c.outcome == "dead")
        )
    told = select(func.max(delivery.c.subscription)).where(
        delivery.c.publication.in_(these), delivery.c.nth == 0
    )
    return conn.scalar(told) or ""


def _told_of(publication: Job, found: Sequence[Any]) -> Sequence[Any]:
    """Return those of some subscriptions whose filters what was published passes."""
    if all(row.filter is None for row in found):
        return found
    payload = _payload(publication)
    return [row for row in found if subscriptions.passes(row, payload)]


def _payload(publication: Job) -> Any:
    """Return what was published; raise InvalidArguments if Python cannot read it."""
    try:
        return publication.args
    except (ValueError, RecursionError) as error:
        raise InvalidArguments(
            f"publication {publication.id} ({publication.task}) cannot be read, so that no filter"
            f" can be asked: {error}"
        ) from None


def _deliveries(publication: Job, found: Iterable[Any]) -> Iterator[NewJob]:
    for row in found:
        yield replace(
            subscriptions.job_in(row),
            metadata={PUBLICATION: publication.id, SUBSCRIPTION: row.id},
            traceparent=publication.traceparent,
            tenant=publication.tenant,
            group=publication.group,
        )


def _record(conn: Connection, dialect: Dialect, publication: Job, ids: Sequence[int]) -> None:
    """Write which subscription each of these jobs is for."""
    whose = job.c["metadata"][SUBSCRIPTION].as_string()
    rows = select(job.c.id, literal(publication.id), whose, literal(0))
    which = dialect.among(job.c.id, ids)
    conn.execute(insert(delivery).from_select(list(delivery.c.keys()), rows.where(which)))


# Deliveries


def with_events(conn: Connection, claims: Sequence[Claim]) -> list[Claim]:
    """Give deliveries what was published, and where, as arguments; two statements."""
    asked = [claim.id for claim in claims if may_be_delivery(claim)]
    among = dialect_of(conn.dialect).among
    which = select(delivery).where(among(delivery.c.job, asked))
    whose = {row.job: row for row in conn.execute(which)}
    published = _published(conn, sorted({row.publication for row in whose.values()}))
    return [
        claim._replace(args=_told(claim, its, published.get(its.publication)))
        if (its := whose.get(claim.id))
        else claim
        for claim in claims
    ]


def may_be_delivery(claim: Claim) -> bool:
    """Return whether a claim's metadata looks like that of a delivery."""
    return claim.metadata is not None and f'"{PUBLICATION}"' in claim.metadata


def _published(conn: Connection, ids: Sequence[int]) -> dict[int, Any]:
    payload = cast(job.c.args, Text).label("payload")
    which = dialect_of(conn.dialect).among(job.c.id, ids)
    rows = conn.execute(select(job.c.id, job.c.task, job.c.enqueued_at, payload).where(which))
    return {row.id: row for row in rows}


def _told(claim: Claim, its: Any, publication: Any) -> str:
    if publication is None:  # it was deleted by hand
        return claim.args
    event = {
        "id": publication.id,
        "topic": topic_of(publication.task),
        "subscription": its.subscription,
        "published_at": publication.enqueued_at.astimezone(UTC),
        "attempt": claim.attempt,
        "tenant": claim.tenant,
        "group": claim.group,
    }
    own = msgspec.json.decode(claim.args) if claim.args != "{}" else {}
    told = own | {"event": event, "payload": msgspec.Raw(publication.payload.encode())}
    return msgspec.json.encode(told).decode()


def redriven(conn: Connection, again: Sequence[NewJob], ids: Sequence[int]) -> None:
    """Record that new jobs repeat deliveries, where they do."""
    which = [id for new, id in zip(again, ids, strict=True) if PUBLICATION in new.metadata]
    if not which:
        return
    before, others = delivery.alias("before"), delivery.alias("others")
    nth = (
        select(func.max(others.c.nth) + 1)
        .where(others.c.publication == before.c.publication)
        .where(others.c.subscription == before.c.subscription)
        .scalar_subquery()
    )
    for id in which:  # one by one: the same delivery may be named twice
        rows = (
            select(job.c.id, before.c.publication, before.c.subscription, nth)
            .join(before, before.c.job == job.c.redrive_of)
            .where(job.c.id == id)
        )
        conn.execute(insert(delivery).from_select(list(delivery.c.keys()), rows))


def has_deliveries(publication: Any) -> ColumnElement[bool]:
    """Return the condition that a job is a publication some of whose deliveries are kept."""
    return exists().where(delivery.c.publication == publication)


def forget(conn: Connection, pruned: Sequence[int]) -> None:
    """Forget that pruned jobs were deliveries."""
    dialect_of(conn.dialect).delete_rows(conn, delivery.c.job, pruned)
