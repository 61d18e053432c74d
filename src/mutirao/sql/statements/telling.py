"""Bulk fan-out: INSERT … SELECT for subscriptions without filter, key or order.

A plain subscription asks for a job of its task, and for nothing else. Synchronous functions of a
SQLAlchemy `Connection`, for databases that do not make deliveries by themselves: those that do, do
the same in a function of theirs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial, reduce
from operator import add
from typing import Any, NamedTuple

from sqlalchemy import (
    BindParameter,
    Column,
    ColumnElement,
    CompoundSelect,
    Connection,
    Insert,
    Integer,
    Select,
    Text,
    and_,
    bindparam,
    column,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    table,
    true,
    union,
    union_all,
)

from mutirao.model.jobs.job import Job
from mutirao.model.topics.topics import PUBLICATION, SUBSCRIPTION, patterns_of, topic_of
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.schema.tables import delivery, further_topic, job, subscription

# Whether any subscription has one of several topics besides its first one.
ANY_FURTHER = exists().where(further_topic.c.topic.in_(bindparam("topics", expanding=True)))

_its = subscription.c
_PLAIN = and_(_its.filter.is_(None), _its.key.is_(None), _its.options == "{}")
_BEFORE: BindParameter[int] = bindparam("before", type_=Integer)
_OWN = ("traceparent", "tenant", "group")  # what a delivery has of its publication


@dataclass(frozen=True, slots=True)
class Telling:
    """The next deliveries of a publication.

    Parameters:
        few: how many a part has at most that are not plain, about: each takes 20 times as long.
        further: whether any subscription may have one of its topics besides its first one.
    """

    dialect: Dialect
    few: int
    further: bool

    def go_on(
        self, conn: Connection, publication: Job, after: str, most: int
    ) -> tuple[str | None, bool, list[str]]:
        """Make the deliveries for the next subscriptions, by id; see `Dialect.deliver_next`.

        Not for those with an order. There may be a few more than `most`, or fewer.
        """
        topics = patterns_of(topic_of(publication.task))
        number, tenant = len(topics), publication.tenant is not None
        last_of = partial(_last, self.dialect, number, tenant, self.further)
        said_of = partial(_said, self.dialect, number, tenant, self.further)
        values: dict[str, Any] = {f"topic_{n}": topic for n, topic in enumerate(topics)}
        values |= {name: getattr(publication, name) for name in _OWN}
        values |= {"publication": publication.id, "after": after, "before": most - 1}
        values["last"] = last = conn.scalar(last_of(), values)
        if most > self.few:
            sooner = said_of(last is None).sooner
            values["last"] = last = conn.scalar(sooner, values | {"before": self.few - 1}) or last
        said = said_of(last is None)
        if not (met := conn.scalar(said.met, values)):
            return last, False, []
        values["beginning"] = beginning = f'{{"{PUBLICATION}": {publication.id}, '
        values |= self.dialect.before_writing(conn)
        if made := conn.execute(said.write, values).rowcount:
            self.dialect.make_live(conn, beginning)
            conn.execute(said.record, values)
        # Those that are not plain, and those that were not when the others were told.
        rest = [] if made == met else list(conn.scalars(said.rest, values))
        return last, bool(made), rest


@cache
def _last(dialect: Dialect, topics: int, tenant: bool, further: bool) -> Select[str | None]:
    """Return what finds the last subscription of a part; NULL: there is no other part.

    It is where one topic or pattern has reached so many.
    """
    each = [
        found.add_columns(id).order_by(id).limit(1).offset(_BEFORE)
        for name in _names(topics)
        for id, found in _indexed(dialect, [name], tenant, further)
    ]
    reached = union_all(*(select(one.scalar_subquery().label("id")) for one in each)).subquery()
    return select(func.min(reached.c.id))


def _indexed(
    dialect: Dialect, names: Sequence[BindParameter[str]], tenant: bool, further: bool
) -> Iterator[tuple[Column[str], Select[Any]]]:
    """Yield ids of the next subscriptions, with queries that indexes answer without the rows."""
    after = bindparam("after", type_=Text)
    for whose in _tenants(tenant):
        found = select().where(_its.topic.in_(names), whose, _its.id > after)
        yield _its.id, dialect.by_topic(found)
    if further:
        its = further_topic.c
        yield its.subscription, select().where(its.topic.in_(names), its.subscription > after)


class _Said(NamedTuple):
    """The statements of a part: to make them takes longer than a small one."""

    sooner: Select[str]
    met: Select[int]
    write: Insert
    record: Insert
    rest: CompoundSelect[Any]


@cache
def _said(dialect: Dialect, topics: int, tenant: bool, further: bool, ends: bool) -> _Said:
    names, last = _names(topics), bindparam("last", type_=Text)
    places = [*_places(dialect, names, tenant, further)]
    counts = [
        (found if ends else found.where(id <= last)).add_columns(func.count(id))
        for id, found in _indexed(dialect, names, tenant, further)
    ]
    if not ends:
        places = [place.where(_its.id <= last) for place in places]
    asked = _jobs(dialect)
    rows = [place.where(_PLAIN).add_columns(*asked.values()) for place in places]
    target = table(job.name, *map(column, asked))  # `job` has no column of one database only
    told = exists().where(
        delivery.c.publication == bindparam("publication"),
        delivery.c.subscription == _its.id,
        delivery.c.nth == 0,
    )
    others = union_all(*(place.where(~_PLAIN).add_columns(_its.id) for place in places))
    each = others.subquery()
    return _Said(
        sooner=select(each.c.id).order_by(each.c.id).limit(1).offset(_BEFORE),
        met=select(reduce(add, (count.scalar_subquery() for count in counts))),
        write=insert(target).from_select(list(asked), (union if further else union_all)(*rows)),
        record=_record(dialect),
        rest=union(*(place.where(~told).add_columns(_its.id) for place in places)),
    )


def _names(topics: int) -> list[BindParameter[str]]:
    return [bindparam(f"topic_{n}", type_=Text) for n in range(topics)]


def _tenants(tenant: bool) -> list[ColumnElement[bool]]:
    """Return whose subscriptions are told: those of any, and of the publication's, if it has one.

    One by one, as each is a range of an index.
    """
    return [_its.tenant.is_(None), _its.tenant == bindparam("tenant", type_=Text)][: 1 + tenant]


def _places(
    dialect: Dialect, names: Sequence[BindParameter[str]], tenant: bool, further: bool
) -> Iterator[Select[Any]]:
    """Yield queries of the subscriptions to tell, without columns: each is for a few ranges."""
    group = or_(_its.group.is_(None), _its.group == bindparam("group", type_=Text))
    after, active = _its.id > bindparam("after", type_=Text), _its.active == true()
    each = select().where(after, group, active, _its.order_by.is_(None))
    more = each.join_from(further_topic, subscription, further_topic.c.subscription == _its.id)
    for whose in _tenants(tenant):
        yield dialect.by_topic(each.where(_its.topic.in_(names), whose))
        if further:
            yield more.where(further_topic.c.topic.in_(names), whose)


def _jobs(dialect: Dialect) -> dict[str, Any]:
    metadata = bindparam("beginning", type_=Text).concat(f'"{SUBSCRIPTION}": ')
    asked: dict[str, Any] = {
        "run_at": dialect.clock, "enqueued_at": dialect.clock, "task": _its.task,
        "args": literal("{}"), "queue": _its.queue, "priority": _its.priority,
        "metadata": metadata.concat(func.json_quote(_its.id)).concat("}"),
    }  # fmt: skip
    return {**asked, **{name: bindparam(name, type_=Text) for name in _OWN}, **dialect.placed}


def _record(dialect: Dialect) -> Insert:
    """Return the statement that records for which subscriptions the new jobs are."""
    whose = job.c["metadata"][SUBSCRIPTION].as_string()
    rows = select(job.c.id, bindparam("publication", type_=Integer), whose, literal(0))
    mine = dialect.written(bindparam("beginning", type_=Text))
    return insert(delivery).from_select(list(delivery.c.keys()), rows.where(mine))
