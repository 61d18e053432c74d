"""Pages of jobs, and bounded counts: no query reads more than `LOOKED_AT` jobs.

Where few are live, or few have a key or are of a graph, a filter of these looks at them alone; one
of dead or cancelled jobs looks at the newest of these. Otherwise only a window of the newest ids is
searched, within the ids that the filter says, and the next page starts below it. A database has
no way to stop looking; a window of ids it understands.

Most pages are full after a few hundred jobs. So these are looked at first, and the rest only if
they were not enough: where a database makes all of a view before it chooses, as MariaDB does, that
is what a page costs. To it the few that an index knows are named one by one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from sqlalchemy import Connection, Select, and_, func, select
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.util import ClauseAdapter

from mutirao.model.filters.conditions import Aspect, Between, Exactly, Term
from mutirao.model.jobs.job import FINAL_STATES, JobState
from mutirao.model.jobs.records import MAX_INTEGER, JobFilter
from mutirao.model.reading.figures import Counted, Page, cursor_of
from mutirao.sql.registry import dialect_of
from mutirao.sql.schema import tables, views
from mutirao.sql.statements.finding.matching import ids_by, is_in, matching
from mutirao.sql.statements.records import JOB_COLUMNS, to_record

LOOKED_AT = 20_000  # jobs, by each of two statements
UNFENCED = 10_000  # of them, where each costs more
NEAR = 400  # of them, which are looked at first
NAMED = 5_000  # jobs that are looked at by their ids
PATIENCE = 10.0  # seconds of a statement
_RUNNING = frozenset({JobState.RUNNING})
_FAILED = frozenset({JobState.DEAD, JobState.CANCELLED})


class _Window(NamedTuple):
    """Between which ids is looked, without these two; `more`: there are jobs below it.

    `few`: asks for the few jobs that an index knows, among which are all that match; `among`: only
    at these is looked.
    """

    low: int | None = None
    before: int | None = None
    more: bool = False
    few: Select[int] | None = None
    among: Sequence[int] | None = None

    @property
    def next(self) -> int | None:
        """The id below which the next window begins; None: there is none."""
        return self.low + 1 if self.more and self.low is not None else None


def page(conn: Connection, which: JobFilter, before: int | None = None, size: int = 50) -> Page:
    """Return the next jobs that match. Seven statements at most, in one transaction."""
    dialect_of(conn.dialect).look_up(conn, PATIENCE)
    window = _window(conn, which, before)
    found = _first(conn, which, window, size + 1)
    shown = select(*JOB_COLUMNS).where(dialect_of(conn.dialect).among(views.jobs.c.id, found))
    rows = conn.execute(shown.order_by(views.jobs.c.id.desc())).all() if found else []
    jobs = tuple(to_record(row) for row in rows if len(found) <= size or row.id != found[-1])
    if len(found) > size:
        return Page(jobs=jobs, next=cursor_of(found[-1] + 1), searched_all=True)
    further = None if window.next is None else cursor_of(window.next)
    return Page(jobs=jobs, next=further, searched_all=not window.more)


def ids(
    conn: Connection, which: JobFilter, before: int | None = None, size: int = 1_000
) -> tuple[list[int], int | None]:
    """Return the ids of the next jobs that match, and the id below which more may be.

    A caller that continues to the end has met all of them.
    """
    dialect_of(conn.dialect).look_up(conn, PATIENCE)
    window = _window(conn, which, before, whole=True)
    found = _first(conn, which, window, size)
    return found, found[-1] if len(found) == size else window.next


def how_many(conn: Connection, which: JobFilter, most: int = 10_000) -> Counted:
    """Count the jobs that match, up to `most`. Five statements at most, in one transaction."""
    dialect_of(conn.dialect).look_up(conn, PATIENCE)
    if _says_only_failed(which):
        some = _failed(which.any_state or frozenset()).limit(most + 1).subquery()
        found = conn.scalars(select(func.count()).select_from(some)).one()
        return Counted(min(found, most), at_least=found > most)
    window = _window(conn, which, None)
    [whole] = _looks(conn, window, near=False)
    some = _newest(conn, which, whole).limit(most + 1).subquery()
    found = conn.scalars(select(func.count()).select_from(some)).one()
    return Counted(min(found, most), at_least=found > most or window.more)


def _first(conn: Connection, which: JobFilter, window: _Window, most: int) -> list[int]:
    """Return the ids of the newest jobs that match in a window, at most so many."""
    found: list[int] = []
    for look in _looks(conn, window):
        found += conn.scalars(_newest(conn, which, look).limit(most - len(found)))
        if len(found) >= most:
            break
    return found


def _looks(conn: Connection, window: _Window, *, near: bool = True) -> Iterator[_Window]:
    """Yield the parts of a window, the newest first: a near one, and the rest; or all at once."""
    ids = window.among
    if window.few is not None and dialect_of(conn.dialect).fenced(select(1)) is None:
        ids = _ids_of(conn, window.few, window.before)
    if ids is not None:
        cut = NEAR if near else len(ids)
        if ids or not near:
            yield window._replace(among=ids[:cut])
        if cut < len(ids):
            yield window._replace(among=ids[cut:])
        return
    if not near or window.low is None:
        yield window
        return
    below = [] if window.before is None else [tables.job.c.id < window.before]
    newest = select(tables.job.c.id).where(and_(True, *below)).order_by(tables.job.c.id.desc())
    split = conn.scalars(newest.offset(NEAR).limit(1)).first()
    if split is None or split <= window.low:
        yield window
    else:
        yield window._replace(low=split)
        yield window._replace(before=split + 1)


def _ids_of(
    conn: Connection, few: Select[int], before: int | None, most: int | None = None
) -> list[int]:
    """Return the ids of the few jobs that an index knows, below one, the newest first."""
    [id] = few.selected_columns
    wanted = few if before is None else few.where(id < before)
    return [*conn.scalars(wanted.distinct().order_by(id.desc()).limit(most))]


def _newest(conn: Connection, which: JobFilter, window: _Window) -> Select[int]:
    """Return a query of the ids of jobs that match in a window, newest first.

    What is in the window is found first, where the database would rather look for the few that
    match: it expects them anywhere.
    """
    fits, between = matching(conn, which), _between(window)
    if window.among is not None:
        id = views.jobs.c.id
        named = dialect_of(conn.dialect).among(id, window.among)
        return select(id).where(named, fits).order_by(id.desc())
    of_state = [] if which.any_state is None else [is_in(which.any_state)]
    fenced = dialect_of(conn.dialect).fenced(select(views.jobs).where(*between, *of_state))
    if window.low is None or fenced is None:
        id = views.jobs.c.id
        return select(id).where(fits, *between).order_by(id.desc())
    looked = fenced.subquery("looked")
    return (
        select(looked.c.id).where(ClauseAdapter(looked).traverse(fits)).order_by(looked.c.id.desc())
    )


def _between(window: _Window) -> list[ColumnElement[bool]]:
    id = views.jobs.c.id
    bounds = [] if window.low is None else [id > window.low]
    return bounds if window.before is None else [*bounds, id < window.before]


def _window(
    conn: Connection, which: JobFilter, before: int | None, *, whole: bool = False
) -> _Window:
    """Return where is looked: everywhere, as an index knows the few, or at the newest ids.

    `whole`: windows one below the other have all jobs, not those alone that are near.
    """
    if which.named:
        return _Window(before=before)
    for each in _known_by_index(conn, which):
        if _few(conn, each):
            return _Window(before=before, few=each)
    low, before = _said(which, before)
    if which.any_state and which.any_state <= _FAILED:
        return _some(conn, _failed(which.any_state), low, before)
    live = which.any_state is not None and not which.any_state & FINAL_STATES
    column = tables.live.c.id if live else tables.job.c.id
    below = [] if before is None else [column < before]
    above = [] if low is None else [column > low]
    newest = select(column).where(and_(True, *below, *above)).order_by(column.desc())
    last = conn.scalars(newest.offset(_looked_at(conn)).limit(1)).first()
    if last is None:
        return _Window(low, before)
    near = dialect_of(conn.dialect).running_near()
    if which.any_state != _RUNNING or near is None:
        return _Window(last, before, more=True)
    if not whole and low is None:
        # Among the newest ids alone none may run: the oldest are claimed first.
        return _some(conn, near, None, before)._replace(more=True)
    held = select(column).where(tables.live.c.worker.is_not(None), column > last)
    return _Window(last, before, more=True, among=_ids_of(conn, held, before))


def _looked_at(conn: Connection) -> int:
    """Return how many jobs are looked at: half of them where all of the view is made for each."""
    fences = dialect_of(conn.dialect).fenced(select(1)) is not None
    return LOOKED_AT if fences else min(LOOKED_AT, UNFENCED)


def _some(conn: Connection, known: Select[int], low: int | None, before: int | None) -> _Window:
    """Return a window of the newest of the jobs that are known, wherever their ids are."""
    [id] = known.selected_columns
    ids = _ids_of(conn, known if low is None else known.where(id > low), before, NAMED + 1)
    if len(ids) <= NAMED:
        return _Window(before=before, among=ids)
    return _Window(ids[NAMED - 1] - 1, before, more=True, among=ids[:NAMED])


def _says_only_failed(which: JobFilter) -> bool:
    """Return whether a filter means all jobs that died or were cancelled, which an index counts."""
    terms = which.terms or ()
    rest = replace(which, state=None, states=None, terms=None, limit=None)
    return (
        bool(which.any_state and which.any_state <= _FAILED)
        and rest == JobFilter(limit=None)
        and all(each.aspect is Aspect.STATE for each in terms)
    )


def _failed(states: frozenset[JobState]) -> Select[int]:
    """Return a query of the jobs that died or were cancelled."""
    ended = tables.attempt.c
    chosen = [str(each) for each in sorted(states)]
    return select(ended.job).where(ended.outcome.in_(chosen))


def _said(which: JobFilter, before: int | None) -> tuple[int | None, int | None]:
    """Return the ids between which a filter says that its jobs are, below `before`."""
    low: int | None = None
    for each in which.terms or ():
        if each.aspect is not Aspect.ID or each.negated:
            continue
        lows, highs = zip(*map(_bounds, each.values), strict=True)
        if None not in lows:
            low = min(max(min(lows) - 1, low or 0), MAX_INTEGER)
        if None not in highs and max(highs) < MAX_INTEGER:
            before = max(highs) + 1 if before is None else min(before, max(highs) + 1)
    return low, before


def _bounds(value: object) -> tuple[int | None, int | None]:
    match value:
        case Exactly(int(id)):
            return id, id
        case Between(int() | None as low, int() | None as high):
            return low, high
    raise AssertionError(f"{value!r} is no id")


def _known_by_index(conn: Connection, which: JobFilter) -> Iterator[Select[int]]:
    """Yield queries of jobs that an index knows, among which are all that match."""
    job, step = tables.job.c, tables.step.c
    if which.fingerprint is not None:
        yield select(job.id).where(job.fingerprint == which.fingerprint)
    if which.key is not None:
        yield select(job.id).where(job.key == which.key)
    if which.graph is not None:
        yield select(step.job).where(step.graph == which.graph)
    yield from (
        ids_by(dialect_of(conn.dialect), each) for each in which.terms or () if _is_exact(each)
    )
    states = which.any_state
    if states == _RUNNING and dialect_of(conn.dialect).fenced(select(1)) is None:
        live = tables.live.c
        yield select(live.id).where(live.worker.is_not(None))


def _is_exact(term: Term) -> bool:
    """Return whether a term names keys or graphs, as an index has them."""
    by_index = term.aspect in (Aspect.KEY, Aspect.GRAPH) and not term.negated
    return by_index and all(isinstance(each, Exactly) for each in term.values)


def _few(conn: Connection, candidates: Select[int]) -> bool:
    some = candidates.limit(LOOKED_AT + 1).subquery()
    return conn.scalars(select(func.count()).select_from(some)).one() <= LOOKED_AT
