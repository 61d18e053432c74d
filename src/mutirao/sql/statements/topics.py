"""Publications and their deliveries in the tables; the same on every database.

Synchronous functions of a SQLAlchemy `Connection`; their contracts are in `mutirao.ports`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Select,
    Text,
    bindparam,
    cast,
    exists,
    func,
    insert,
    literal,
    select,
)

from mutirao.errors import InvalidArguments, StaleRun
from mutirao.model.jobs.claim import UnfitClaim
from mutirao.model.jobs.job import Claim, Job, NewJob
from mutirao.model.jobs.outcome import Settlement
from mutirao.model.jobs.records import Progress
from mutirao.model.row_json import UnreadableRow
from mutirao.model.topics.topics import (
    PUBLICATION,
    SUBSCRIPTION,
    patterns_of,
    topic_of,
)
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.enqueue.intake import Enqueue
from mutirao.sql.registry import dialect_of
from mutirao.sql.schema.tables import attempt, delivery, job, live
from mutirao.sql.schema.types import read_raw
from mutirao.sql.statements import ordering, results, subscriptions
from mutirao.sql.statements.bulk_fan_out import ANY_FURTHER, BulkFanOut
from mutirao.sql.statements.ordering import InOrder
from mutirao.sql.statements.subscriptions import ANY_WITH_ORDER, whose

Finish = Callable[[Connection, Settlement], set[int]]
NO_SUBSCRIPTION = "no subscription matches it"

# Fan-out


def is_plain(publication: Job, done: Settlement) -> bool:
    """Return whether nothing but its row has to be known of a publication, nor follows its end."""
    return publication.redrive_of is None and not (done.keyed or done.linked)


@dataclass(frozen=True, slots=True)
class FanOut:
    """The fan-out of a publication, a part at a time, each in a transaction of its own.

    Parameters:
        enqueue: writes jobs through a connection.
        finish: completes a job, and returns it unless its run is stale.
        most: how many subscriptions the first part has, and further parts made by
            Python; `Dialect.fan_out_at_once` is for the others.
    """

    dialect: Dialect
    enqueue: Enqueue
    finish: Finish
    most: int

    def go_on(
        self, conn: Connection, publication: Job, done: Settlement, after: str | None
    ) -> str | None:
        """Make the jobs of the next subscriptions; with the last ones, complete the publication.

        Returns the last subscription; None: it is complete. Nobody else works on the publication
        meanwhile, as its live row is locked.
        """
        made = self._part(conn, publication, after, _hold(conn, publication))
        if made.last is not None:
            return made.last
        if made.none and not _was_delivered(conn, publication):
            results.report(conn, self.dialect, [_without_subscription(publication)], None)
        if not self.finish(conn, done):
            raise _stale(publication)
        return None

    def pass_by(self, conn: Connection, publication: Job, after: str | None) -> str | None:
        """Make the jobs of the next subscriptions, but for those that have an order.

        Used when another transaction locks one of these for long: the others do not wait for it.
        """
        held = _hold(conn, publication)._replace(in_order=False)
        return self._part(conn, publication, after, held).last

    def _part(
        self, conn: Connection, publication: Job, after: str | None, held: "_Locked"
    ) -> "_Made":
        """Make the jobs of the next subscriptions."""
        # The first part is a small one: of many deliveries, some can begin soon.
        most = self.most if after is None else max(self.most, self.dialect.fan_out_at_once)
        if after is None:
            after = self._begin(conn, publication, held)
        part = self._next(conn, publication, held, after, most)
        found = _passing(publication, part.asked)
        if found:
            self._deliver(conn, publication, found)
        return _Made(part.last, not found and not part.made)

    def _begin(self, conn: Connection, publication: Job, held: "_Locked") -> str:
        """Deliver to those with an order; return the last of the others that has its delivery.

        Parts are made in the order of ids. Deliveries of earlier runs are committed, as this one
        was claimed after them.
        """
        same, last = [publication.id], held.last
        if publication.redrive_of is not None:
            same += _dead_before(conn, publication)
            last = conn.scalar(_last_delivered(delivery.c.publication.in_(same)))
        if held.in_order:
            in_order = InOrder(self.dialect, self.enqueue)
            in_order.deliver(conn, publication, _payload(publication), same)
        return last or ""

    def _next(
        self, conn: Connection, publication: Job, held: "_Locked", after: str, most: int
    ) -> "_Part":
        """Find the next subscriptions; make the jobs of the plain ones in the database."""
        if self.dialect.delivers:
            topics = patterns_of(topic_of(publication.task))
            found = self.dialect.deliver_next(conn, publication.id, topics, after, most)
        else:
            bulk = BulkFanOut(self.dialect, self.most, bool(held.further))
            found = bulk.go_on(conn, publication, after, most)
        last, made, asked = found
        return _Part(last, made, subscriptions.named(conn, self.dialect, asked) if asked else ())

    def _deliver(self, conn: Connection, publication: Job, found: Sequence[Any]) -> None:
        if self.dialect.delivers:
            plain = [row.id for row in found if row.key is None]
            if plain:
                self.dialect.deliver(conn, publication.id, plain)
            found = [row for row in found if row.key is not None]
        if found:
            ids = self.enqueue(_deliveries(found, publication), conn)
            _record(conn, self.dialect, publication, subscriptions.written(ids))


class _Made(NamedTuple):
    """The result of a part.

    `last`: its last subscription; None: there are no more. `none`: it has made no job.
    """

    last: str | None
    none: bool


class _Part(NamedTuple):
    """The last subscription of a part, if there may be others, and those without a job yet.

    `made`: whether any has one.
    """

    last: str | None
    made: bool
    asked: Sequence[Any]


class _Locked(NamedTuple):
    """A publication whose live row is locked, with the facts for its first part.

    `last`: the last subscription without an order that has its delivery. `in_order`: whether there
    are any with one. `further`: whether any has the topic besides its first one.
    """

    run: int
    last: str | None
    in_order: bool
    further: bool


def _hold(conn: Connection, publication: Job) -> _Locked:
    """Lock the publication's live row, or raise StaleRun if another run has it."""
    row = conn.execute(_HOLD, {"publication": publication.id} | whose(publication)).first()
    if row is None or row.run != publication.run:
        raise _stale(publication)
    return _Locked(*row)


def _stale(publication: Job) -> StaleRun:
    return StaleRun(
        f"publication {publication.id} ({publication.task}) was taken from this attempt (run"
        f" {publication.run}), so it makes no more deliveries; whoever holds it now goes on"
    )


def _was_delivered(conn: Connection, publication: Job) -> bool:
    """Return whether a publication has a delivery, or continues where one has died."""
    mine = exists().where(delivery.c.publication == publication.id)
    return publication.redrive_of is not None or bool(conn.scalar(select(mine)))


def _without_subscription(publication: Job) -> Progress:
    return Progress(publication.id, publication.run, 0.0, None, NO_SUBSCRIPTION)


def _last_delivered(which: ColumnElement[bool]) -> Select[Any]:
    """Return the last subscription without an order that has a delivery of some publications."""
    first = select(delivery.c.subscription).where(which, delivery.c.nth == 0)
    others = first.where(~ordering.is_in_line(delivery.c.job))
    return others.order_by(delivery.c.subscription.desc()).limit(1)


_THIS: BindParameter[int] = bindparam("publication")
_HOLD = (
    select(
        live.c.run,
        _last_delivered(delivery.c.publication == _THIS).scalar_subquery().label("told"),
        ANY_WITH_ORDER.label("in_order"),
        ANY_FURTHER.label("further"),
    )
    .where(live.c.id == _THIS, live.c.worker.is_not(None))
    .with_for_update()
)


def _dead_before(conn: Connection, publication: Job) -> Iterator[int]:
    """Yield the dead publications that this one redrives: it continues where they ended."""
    before: int | None = publication.id
    while before := conn.scalar(
        select(job.c.redrive_of)
        .join(attempt, attempt.c.job == job.c.redrive_of)
        .where(job.c.id == before, attempt.c.outcome == "dead")
    ):
        yield before


def _passing(publication: Job, found: Sequence[Any]) -> Sequence[Any]:
    """Return those of some subscriptions whose filters the publication passes."""
    if all(row.filter is None for row in found):
        return found
    payload = _payload(publication)
    return [row for row in found if subscriptions.passes(row, payload)]


def _payload(publication: Job) -> Any:
    """Return the payload; raise InvalidArguments if Python cannot read it."""
    try:
        return publication.args
    except (ValueError, RecursionError) as error:
        raise InvalidArguments(
            f"publication {publication.id} ({publication.task}) cannot be read, so that no filter"
            f" can be asked, and no order made: {error}"
        ) from None


def _deliveries(found: Sequence[Any], publication: Job) -> Iterator[NewJob]:
    has_keys = any(row.key is not None for row in found)
    payload = _payload(publication) if has_keys else None
    for row in found:
        asked, key = subscriptions.job_in(row), subscriptions.key_in(row, payload)
        yield subscriptions.delivery_of(asked, row.id, publication, key)


def _record(conn: Connection, dialect: Dialect, publication: Job, ids: Sequence[int]) -> None:
    """Write which subscription each of these jobs is for."""
    whose = job.c["metadata"][SUBSCRIPTION].as_string()
    rows = select(job.c.id, literal(publication.id), whose, literal(0))
    which = dialect.among(job.c.id, ids)
    conn.execute(insert(delivery).from_select(list(delivery.c.keys()), rows.where(which)))


# Deliveries


def with_events(conn: Connection, claims: Sequence[Claim]) -> list[Claim]:
    """Give deliveries their events as arguments; two statements."""
    asked = [claim.id for claim in claims if may_be_delivery(claim)]
    among = dialect_of(conn.dialect).among
    which = select(delivery).where(among(delivery.c.job, asked))
    whose = {row.job: row for row in conn.execute(which)}
    published = _published(conn, sorted({row.publication for row in whose.values()}))
    return [
        _with_event(claim, its, published.get(its.publication))
        if (its := whose.get(claim.id))
        else claim
        for claim in claims
    ]


def _with_event(claim: Claim, its: Any, publication: Any) -> Claim:
    """Return a delivery with its event; or as one that cannot run, if that is unreadable."""
    try:
        return claim._replace(args=_arguments(claim, its, publication))
    except UnreadableRow as unfit:
        return UnfitClaim.of(claim, str(unfit))


def may_be_delivery(claim: Claim) -> bool:
    """Return whether a claim's metadata looks like that of a delivery."""
    return claim.metadata is not None and f'"{PUBLICATION}"' in claim.metadata


def _published(conn: Connection, ids: Sequence[int]) -> dict[int, Any]:
    payload = cast(job.c.args, Text).label("payload")
    which = dialect_of(conn.dialect).among(job.c.id, ids)
    rows = conn.execute(select(job.c.id, job.c.task, job.c.enqueued_at, payload).where(which))
    return {row.id: row for row in rows}


def _arguments(claim: Claim, its: Any, publication: Any) -> str:
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
    own = read_raw(claim.args, "its arguments") if claim.args != "{}" else {}
    args = {**own, "event": event, "payload": msgspec.Raw(publication.payload.encode())}
    return msgspec.json.encode(args).decode()


def redriven(conn: Connection, again: Sequence[NewJob], ids: Sequence[int]) -> None:
    """Record that new jobs repeat deliveries, where they do."""
    which = [id for new, id in zip(again, ids, strict=True) if PUBLICATION in new.metadata]
    if not which:
        return
    ordering.redriven(conn, {new.redrive_of or 0: id for new, id in zip(again, ids, strict=True)})
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
    dialect = dialect_of(conn.dialect)
    dialect.delete_rows(conn, delivery.c.job, pruned)
    ordering.forget(conn, dialect, pruned)
