"""Finds running jobs where they are likely to be: no index of PostgreSQL contains them.

Such an index would be written to at each claim, and cost a third of one. A claimed job was at
the front of its lane, and stays there, as the index of the lanes has running jobs, too. Where the
front has jobs that no worker takes, running jobs are mostly among the newest.
"""

from sqlalchemy import (
    CTE,
    ColumnElement,
    FromClause,
    Select,
    and_,
    literal_column,
    select,
    true,
    tuple_,
    union,
)

from mutirao.sql.dialects.postgresql.moments import CONSTANTS
from mutirao.sql.schema.tables import live
from mutirao.sql.schema.types import Timestamp

OF_A_LANE, OF_LANES, NEWEST = 5_000, 30_000, 10_000  # rows that are looked at


def running_near() -> Select[int]:
    """Return a query of the ids of jobs that run, among the first of each lane and the newest.

    It is all of them where no lane has more jobs than are looked at.
    """
    lane, its = _lanes(), live.alias("its")
    front = (
        select(its.c.id, its.c.worker)
        .where(_in_lane(its), its.c.queue == lane.c.queue, its.c.priority == lane.c.priority)
        .order_by(its.c.run_at, its.c.id)
        .limit(OF_A_LANE)
        .lateral("front")
    )
    first = select(front.c.id, front.c.worker).select_from(lane.join(front, true()))
    newest = select(live.c.id, live.c.worker).order_by(live.c.id.desc()).limit(NEWEST)
    parts = (first.limit(OF_LANES).subquery("first"), newest.subquery("newest"))
    found = union(*(select(each.c.id).where(each.c.worker.is_not(None)) for each in parts))
    return select(found.subquery("near").c.id)


def _lanes() -> CTE:
    """Return the queues and priorities that there are, by a step of the index for each."""
    first = select(live.c.queue, live.c.priority).where(_in_lane(live))
    first = first.order_by(live.c.queue, live.c.priority).limit(1)
    known = select(first.subquery("first_lane")).cte("lane", recursive=True)
    its = live.alias("beyond")
    behind = tuple_(its.c.queue, its.c.priority) > tuple_(known.c.queue, known.c.priority)
    following = (
        select(its.c.queue, its.c.priority)
        .where(and_(_in_lane(its), behind))
        .order_by(its.c.queue, its.c.priority)
        .limit(1)
        .lateral("following")
    )
    step = select(following.c.queue, following.c.priority)
    return known.union_all(step.select_from(known.join(following, true())))


def _in_lane(table: FromClause) -> ColumnElement[bool]:
    """Return the condition of the index, in its words."""
    beyond = literal_column(f"timestamptz {CONSTANTS['beyond']}", Timestamp())
    its: ColumnElement[bool] = table.c.run_at < beyond
    return its
