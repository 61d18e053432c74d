"""Ordered deliveries: those of one subscription and key run one after another, in a line.

A line is the rows of `mutirao_ordered` of a subscription and a key, in the order of `turn`. The
worker that fans out a publication first delivers all earlier ones that a subscription with an order
still lacks, so lines grow in the order of publications, whichever worker comes first. A delivery
that is claimed while one before it has not ended is put back, and parked until that ends: it is
claimed once for nothing, and costs no scan and no slot then. If that one has died and stops the
line, it stays parked: a redriven one takes the turn of the dead.

Synchronous functions of a SQLAlchemy `Connection` in a transaction, the same on every database.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    Text,
    and_,
    bindparam,
    cast,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from mutirao.model.jobs.job import Claim, Job
from mutirao.model.keys.uniqueness import PARKED
from mutirao.model.row_json import UnreadableRow, read
from mutirao.model.topics.payload_filter import value_at
from mutirao.model.topics.subscriptions import WhenDead
from mutirao.model.topics.topics import ANY, TOPIC_TASK, task_of
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.drivers.kinds import through
from mutirao.sql.enqueue.intake import Enqueue
from mutirao.sql.schema.tables import attempt, delivery, job, live, ordered, subscription
from mutirao.sql.statements import subscriptions
from mutirao.sql.statements.carried import own_lane

_before = ordered.alias("before")
_still = live.alias("still")
_how = attempt.alias("how")
_again = job.alias("again")

# Delivering


@dataclass(frozen=True, slots=True)
class InOrder:
    """The deliveries of a publication, and of those before it, for subscriptions with an order.

    Parameters:
        enqueue: writes jobs through a connection.
    """

    dialect: Dialect
    enqueue: Enqueue

    def deliver(
        self, conn: Connection, publication: Job, payload: Any, same: Sequence[int]
    ) -> None:
        """Make the missing deliveries; `same` are the ids under which this was published before.

        As many statements for a hundred subscriptions as for one, since others wait for the locks:
        the rows of the subscriptions, so that one worker at a time delivers to each of them.
        Deliveries of another worker are committed, so nothing is locked if none is missing.
        """
        asked = subscriptions.with_order(conn, publication)
        asked = sorted({*asked} - self._delivered(conn, same, asked))
        if not asked:
            return
        self.dialect.admin.bound_locks(conn)
        held = self._held(conn, asked)
        already = self._delivered(conn, same, asked)
        new = list(self._earlier(conn, held, publication.id))
        new += [_New(row, publication, payload) for row in held if row.id not in already]
        self._deliver(conn, [each for each in new if subscriptions.passes(each.whom, each.says)])
        its = subscription.c
        mine = self.dialect.among(its.id, asked)
        before = or_(its.reached.is_(None), its.reached < publication.id)
        conn.execute(update(subscription).where(mine, before).values(reached=publication.id))

    def _delivered(self, conn: Connection, same: Sequence[int], asked: Sequence[str]) -> set[str]:
        """Return those of some subscriptions that have a delivery of this."""
        return {whom for _, whom in _made(conn, self.dialect, same, asked)}

    def _held(self, conn: Connection, asked: Sequence[str]) -> Sequence[Any]:
        """Lock these subscriptions, and return those that have an order still."""
        mine = self.dialect.among(subscription.c.id, asked)
        locked = select(subscription).where(mine).order_by(subscription.c.id).with_for_update()
        return [row for row in conn.execute(locked) if row.order_by is not None]

    def _earlier(self, conn: Connection, held: Sequence[Any], until: int) -> Iterator["_New"]:
        """Yield publications before one that are due, with the subscriptions that lack them.

        One that cannot be read is left to the worker that fans it out, which logs it.
        """
        alike: dict[Any, dict[str, Any]] = {}
        for row in held:
            alike.setdefault((row.topic, row.tenant, row.group, row.reached), {})[row.id] = row
        for whom in alike.values():
            rows = conn.execute(self._before(conn, next(iter(whom.values())), until)).all()
            made = _made(conn, self.dialect, [row.id for row in rows], [*whom])
            for row in rows:
                try:
                    says = read(row.payload)
                except UnreadableRow:
                    continue
                missing = (its for id, its in whom.items() if (row.id, id) not in made)
                yield from (_New(its, row, says) for its in missing)

    def _before(self, conn: Connection, whom: Any, until: int) -> Select[Any]:
        """Select the earlier publications for a subscription, whatever its filter."""
        reached = whom.reached
        if reached is None:
            reached = (conn.scalar(select(func.min(live.c.id))) or until) - 1
        due = or_(live.c.run > 0, live.c.run_at <= self.dialect.moment(None))
        return (
            select(*_PUBLICATION)
            .join(live, live.c.id == job.c.id)
            .where(job.c.id > reached, job.c.id < until, is_on(whom.topic), due, *is_for(whom))
            .order_by(job.c.id)
        )

    def _deliver(self, conn: Connection, wanted: Sequence["_New"]) -> None:
        """Make first deliveries, in this order."""
        if not wanted:
            return
        asked = {each.whom.id: subscriptions.job_in(each.whom) for each in wanted}
        keys = [value_at(each.says, each.whom.order_by) for each in wanted]
        made = (
            subscriptions.delivery_of(asked[each.whom.id], each.whom.id, each.publication, key)
            for each, key in zip(wanted, keys, strict=True)
        )
        ids = self.enqueue(made, conn)
        rows = [
            {"job": new, "publication": each.publication.id, "subscription": each.whom.id, "nth": 0}
            for new, each in zip(ids, wanted, strict=True)
        ]
        conn.execute(insert(delivery), rows)
        line_up(conn, zip(ids, (each.whom.id for each in wanted), keys, strict=True))


@dataclass(frozen=True, slots=True)
class _New:
    """A delivery to be made: the subscription's row, the publication, and its payload."""

    whom: Any
    publication: Any
    says: Any


def _made(
    conn: Connection, dialect: Dialect, publications: Sequence[int], asked: Sequence[str]
) -> set[tuple[int, str]]:
    """Return which of these publications some of these subscriptions have a delivery of."""
    if not publications:
        return set()
    its = delivery.c
    found = conn.execute(
        select(its.publication, its.subscription).where(
            dialect.among(its.publication, publications), dialect.among(its.subscription, asked)
        )
    )
    return {(row.publication, row.subscription) for row in found}


_PUBLICATION = (
    job.c.id,
    job.c.task,
    job.c.traceparent,
    job.c.tenant,
    job.c.group,
    cast(job.c.args, Text).label("payload"),
)


def line_up(conn: Connection, made: Iterable[tuple[int, str, str]]) -> None:
    """Put deliveries, given as (job, subscription, key), at the ends of their lines."""
    rows = [
        {"job": new, "subscription": subscription, "key": key, "turn": new, "after": None}
        for new, subscription, key in made
    ]
    if rows:
        conn.execute(insert(ordered), rows)


def redriven(conn: Connection, repeated: Mapping[int, int]) -> None:
    """Give redriven deliveries the turns of those that they repeat, by old: new."""
    which = ordered.c.job.in_(repeated)
    lines = {row.job: row for row in conn.execute(select(ordered).where(which))}
    if not lines:
        return
    dead = select(attempt.c.job).where(attempt.c.job.in_(lines)).order_by(attempt.c.job)
    conn.execute(dead.with_for_update()).all()  # who is about to wait for one waits for us
    for old, row in lines.items():
        turn = {"subscription": row.subscription, "key": row.key, "turn": row.turn}
        conn.execute(insert(ordered).values(job=repeated[old], after=None, **turn))
        conn.execute(update(ordered).where(ordered.c.after == old).values(after=repeated[old]))


# Waiting


class _Ahead(NamedTuple):
    """The delivery before another one in its line, and whether that is live, or stops the line."""

    job: int
    live: bool
    stops: bool


_WAIT = update(ordered).where(ordered.c.job == bindparam("held")).values(after=bindparam("for"))


def hold_back(conn: Connection, dialect: Dialect, claims: Sequence[Claim]) -> set[int]:
    """Return those of some claims that have to wait for another delivery: they are parked."""
    runs = {claim.id: claim.run for claim in claims}
    locked: dict[int, int] = {}
    while ahead := _ahead(conn, dialect, [*runs]):
        about = {*ahead, *(each.job for each in ahead.values())}
        if about <= locked.keys():
            break
        locked = dict.fromkeys(about, 0) | _locked(conn, dialect, about)
    held = {id: each.job for id, each in ahead.items() if locked[id] == runs[id]}
    if held:
        conn.execute(
            dialect.update_live()
            .where(dialect.among(live.c.id, [*held]))
            .values(worker=None, claimed_at=None, attempt=live.c.attempt - 1, run_at=PARKED)
            .values(queue=own_lane())
        )
        conn.execute(_WAIT, [{"held": id, "for": after} for id, after in held.items()])
        through(conn, dialect.rules.let_go([*held], None))
    return {id for id in ahead if id in held or locked[id] != runs[id]}


def _locked(conn: Connection, dialect: Dialect, jobs: Iterable[int]) -> dict[int, int]:
    """Lock how these jobs stand: live rows and ends; return the runs of those that are live."""
    these = sorted(jobs)
    here = dialect.hold_live(live.c.id, live.c.run, ids=these)
    runs = {row.id: row.run for row in conn.execute(here.with_for_update())}
    ended = dialect.among(attempt.c.job, [id for id in these if id not in runs])
    ends = select(attempt.c.job).where(ended).order_by(attempt.c.job, attempt.c.run)
    conn.execute(ends.with_for_update()).all()
    return runs


def _ahead(conn: Connection, dialect: Dialect, jobs: Sequence[int]) -> dict[int, _Ahead]:
    """Return what these deliveries have to wait for, if they have to.

    That is the one before it in its line, but for those that were cancelled, or redriven.
    """
    nearest = _nearest().label("nearest")
    lines = (
        select(ordered.c.job, nearest, subscription.c.when_dead)
        .outerjoin(subscription, subscription.c.id == ordered.c.subscription)
        .where(dialect.among(ordered.c.job, jobs), ordered.c.key != "")
    )
    found = [row for row in conn.execute(lines) if row.nearest is not None]
    near = [row.nearest for row in found]
    stand = select(live.c.id).where(dialect.among(live.c.id, near))
    alive = set(conn.scalars(stand)) if near else set[int]()
    died = attempt.c.outcome == "dead"
    dead = select(attempt.c.job).where(dialect.among(attempt.c.job, near), died)
    gone = set(conn.scalars(dead)) if near else set[int]()
    all_ = {
        row.job: _Ahead(
            row.nearest,
            row.nearest in alive,
            row.nearest in gone and row.when_dead == str(WhenDead.STOP),
        )
        for row in found
    }
    return {id: each for id, each in all_.items() if each.live or each.stops}


def _nearest() -> ColumnElement[Any]:
    earlier = or_(
        _before.c.turn < ordered.c.turn,
        and_(_before.c.turn == ordered.c.turn, _before.c.job < ordered.c.job),
    )
    counts = or_(
        _still.c.id.is_not(None),
        _how.c.outcome == "succeeded",
        and_(_how.c.outcome == "dead", ~exists().where(_again.c.redrive_of == _before.c.job)),
    )
    ended = and_(_how.c.job == _before.c.job, _how.c.outcome.in_(("succeeded", "dead")))
    line: Select[Any] = (
        select(_before.c.job)
        .outerjoin(_still, _still.c.id == _before.c.job)
        .outerjoin(_how, ended)
        .where(_before.c.subscription == ordered.c.subscription)
        .where(_before.c.key == ordered.c.key, earlier, counts)
        .order_by(_before.c.turn.desc(), _before.c.job.desc())
        .limit(1)
    )
    return line.correlate(ordered).scalar_subquery()


def let_go(conn: Connection, dialect: Dialect, jobs: Sequence[int]) -> None:
    """Record that these deliveries wait for none any more."""
    conn.execute(update(ordered).where(dialect.among(ordered.c.job, jobs)).values(after=None))


def waits_for_its_turn(job_id: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that a live job waits for a delivery that is live, or stops its line."""
    alive = exists().where(_still.c.id == ordered.c.after).correlate(ordered)
    dead = exists().where(_how.c.job == ordered.c.after, _how.c.outcome == "dead")
    stops = exists().where(
        subscription.c.id == ordered.c.subscription,
        subscription.c.when_dead == str(WhenDead.STOP),
    )
    redriven = exists().where(_again.c.redrive_of == ordered.c.after).correlate(ordered)
    stopped = and_(dead.correlate(ordered), stops.correlate(ordered), ~redriven)
    return exists().where(ordered.c.job == job_id, or_(alive, stopped)).correlate_except(ordered)


def is_in_line(delivered: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that a delivery was made for a subscription with an order."""
    return exists().where(ordered.c.job == delivered).correlate_except(ordered)


def is_waited_for(ended: ColumnElement[Any]) -> ColumnElement[bool]:
    """Return the condition that a delivery waits for a job that has ended."""
    return exists().where(ordered.c.after == ended).correlate_except(ordered)


def forget(conn: Connection, dialect: Dialect, pruned: Sequence[int]) -> None:
    """Forget the turns of pruned jobs."""
    dialect.delete_rows(conn, ordered.c.job, pruned)


# Which publications


def is_on(topic: str) -> ColumnElement[bool]:
    """Return the condition that a job is a publication on a topic, or on one of a pattern."""
    if topic.endswith(ANY):
        begins = TOPIC_TASK + topic.removesuffix(ANY)
        # LIKE is for the index: on SQLite it takes A for a.
        exactly = func.substr(job.c.task, 1, len(begins)) == begins
        return and_(job.c.task.startswith(begins, autoescape=True), exactly)
    return job.c.task == task_of(topic)


def is_for(whom: Any) -> Iterator[ColumnElement[bool]]:
    """Yield the conditions that a job is for the tenant and the group of a subscription."""
    for whose in ("tenant", "group"):
        if (value := getattr(whom, whose)) is not None:
            yield job.c[whose] == value
