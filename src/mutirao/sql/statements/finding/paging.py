"""Pages of jobs, and bounded counts: nothing looks at more than `LOOKED_AT` jobs.

Where few are live, or few have died, a filter of such states looks at these alone. Otherwise only a
window of the newest ids is searched, and the next page goes on below it. A database cannot be told
to stop looking; a window of ids it understands.
"""

from sqlalchemy import Connection, Select, and_, func, select
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.util import ClauseAdapter

from mutirao.model.jobs.job import FINAL_STATES, JobState
from mutirao.model.jobs.records import JobFilter
from mutirao.model.reading.figures import Counted, Page, cursor_of
from mutirao.sql.registry import dialect_of
from mutirao.sql.schema import tables, views
from mutirao.sql.statements.finding.matching import is_in, matching
from mutirao.sql.statements.records import JOB_COLUMNS, to_record

LOOKED_AT = 20_000  # jobs, by each of two statements
PATIENCE = 10.0  # seconds of a statement
_FAILED = frozenset({JobState.DEAD, JobState.CANCELLED})


def page(conn: Connection, which: JobFilter, before: int | None, size: int) -> Page:
    """Return the next jobs that match. Five statements at most, in one transaction."""
    dialect_of(conn.dialect).look_up(conn, PATIENCE)
    low = _window(conn, which, before)
    newest = _newest(conn, which, low, before).limit(size + 1)
    found = conn.scalars(newest).all()
    shown = select(*JOB_COLUMNS).where(dialect_of(conn.dialect).among(views.jobs.c.id, found))
    rows = conn.execute(shown.order_by(views.jobs.c.id.desc())).all() if found else []
    jobs = tuple(to_record(row) for row in rows if len(found) <= size or row.id != found[-1])
    if len(found) > size:
        return Page(jobs=jobs, next=cursor_of(found[-1] + 1), searched_all=True)
    further = None if low is None else cursor_of(low + 1)
    return Page(jobs=jobs, next=further, searched_all=low is None)


def ids(
    conn: Connection, which: JobFilter, before: int | None, size: int
) -> tuple[list[int], int | None]:
    """Return the ids of the next jobs that match, and the id below which more may be."""
    dialect_of(conn.dialect).look_up(conn, PATIENCE)
    low = _window(conn, which, before)
    found = [*conn.scalars(_newest(conn, which, low, before).limit(size))]
    if len(found) == size:
        return found, found[-1]
    return found, None if low is None else low + 1


def how_many(conn: Connection, which: JobFilter, most: int) -> Counted:
    """Count the jobs that match, up to `most`. Five statements at most, in one transaction."""
    dialect_of(conn.dialect).look_up(conn, PATIENCE)
    low = _window(conn, which, None)
    some = _newest(conn, which, low, None).limit(most + 1).subquery()
    found = conn.scalars(select(func.count()).select_from(some)).one()
    return Counted(min(found, most), at_least=found > most or low is not None)


def _newest(conn: Connection, which: JobFilter, low: int | None, before: int | None) -> Select[int]:
    """Return a query of the ids of jobs that match, newest first; `low`: only above this one.

    What is in the window is found first, where the database would rather look for the few that
    match: it expects them anywhere.
    """
    fits, between = matching(conn, which), _between(low, before)
    of_state = [] if which.any_state is None else [is_in(which.any_state)]
    fenced = dialect_of(conn.dialect).fenced(select(views.jobs).where(*between, *of_state))
    if low is None or fenced is None:
        id = views.jobs.c.id
        return select(id).where(fits, *between).order_by(id.desc())
    looked = fenced.subquery("looked")
    return (
        select(looked.c.id).where(ClauseAdapter(looked).traverse(fits)).order_by(looked.c.id.desc())
    )


def _between(low: int | None, before: int | None) -> list[ColumnElement[bool]]:
    id = views.jobs.c.id
    bounds = [] if low is None else [id > low]
    return bounds if before is None else [*bounds, id < before]


def _window(conn: Connection, which: JobFilter, before: int | None) -> int | None:
    """Return the id above which is looked; None: at all, as an index knows the few."""
    if which.named or which.fingerprint is not None or which.key is not None or which.graph:
        return None
    states = which.any_state
    if states and states <= _FAILED:
        ended = tables.attempt
        chosen = [str(each) for each in sorted(states)]
        if _few(conn, select(ended.c.job).where(ended.c.outcome.in_(chosen))):
            return None
    live = states is not None and not states & FINAL_STATES
    column = tables.live.c.id if live else tables.job.c.id
    below = and_(True, *([] if before is None else [column < before]))
    last = select(column).where(below).order_by(column.desc()).offset(LOOKED_AT).limit(1)
    return conn.scalars(last).first()


def _few(conn: Connection, candidates: Select[int]) -> bool:
    some = candidates.limit(LOOKED_AT + 1).subquery()
    return conn.scalars(select(func.count()).select_from(some)).one() <= LOOKED_AT
