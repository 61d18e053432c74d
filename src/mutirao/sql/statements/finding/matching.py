"""The condition of a filter on the view of jobs.

What an index knows is asked first; values are bound, and what has a meaning in a pattern of the
database is escaped. A negated term matches what has no value, too: `-tenant:5` is also all jobs of
no tenant.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import partial, reduce
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Select,
    and_,
    false,
    func,
    literal,
    or_,
    select,
)

from mutirao.model.filters.conditions import Aspect, Between, Exactly, Like, Scalar, Term, Value
from mutirao.model.jobs.job import JobState
from mutirao.model.jobs.records import JobFilter
from mutirao.sql.dialects.base import Dialect
from mutirao.sql.registry import dialect_of
from mutirao.sql.schema import tables, views

_VIEW = views.jobs.c
_TEXTS = {
    Aspect.TASK: _VIEW.task,
    Aspect.QUEUE: _VIEW.queue,
    Aspect.TENANT: _VIEW.tenant,
    Aspect.GROUP: _VIEW.group,
}
_NUMBERS = {
    Aspect.ID: _VIEW.id,
    Aspect.WORKER: _VIEW.worker,
    Aspect.PRIORITY: _VIEW.priority,
    Aspect.ATTEMPT: _VIEW.attempt,
}


def matching(conn: Connection, which: JobFilter) -> ColumnElement[bool]:
    """Return the condition of a filter on the view of jobs, without its limit."""
    view, admin = views.jobs.c, dialect_of(conn.dialect)
    conditions: list[ColumnElement[bool]] = [
        column == value
        for column, value in (
            (view.queue, which.queue),
            (view.task, which.task),
            (view.tenant, which.tenant),
            (view.group, which.group),
        )
        if value is not None
    ]
    conditions += [
        _is_error(view.error_type, name) for name in (which.error_type,) if name is not None
    ]
    if (states := which.any_state) is not None:
        conditions.append(is_in(states))
    if which.queues is not None:
        conditions.append(is_one_of(view.queue, which.queues))
    if which.ids is not None:
        conditions.append(admin.among(view.id, which.ids))
    if which.among is not None:
        conditions.append(admin.among(view.id, which.among))
    if which.tag is not None:
        conditions.append(admin.has_tag(view.tags, which.tag))
    conditions += [view.id.in_(ids) for ids in _found_by_index(which)]
    for name, value in (which.args or {}).items():
        conditions.append(_has_argument(admin, view.args, name, value))
    if which.before is not None:
        conditions.append(view.enqueued_at < which.before)
    if which.after is not None:
        conditions.append(view.enqueued_at >= which.after)
    # States are distinguished above, by options and terms together.
    said = (each for each in which.terms or () if each.aspect is not Aspect.STATE)
    return and_(True, *conditions, *(_fits(admin, each) for each in said))


def _fits(dialect: Dialect, term: Term) -> ColumnElement[bool]:
    """Return whether a job fits a term: one of its values, or none."""
    found = or_(*_each(dialect, term))
    return func.coalesce(found, false()) == false() if term.negated else found


def _each(dialect: Dialect, term: Term) -> Iterator[ColumnElement[bool]]:
    """Yield conditions, of which one has to hold."""
    exact = [each.value for each in term.values if isinstance(each, Exactly)]
    others = [each for each in term.values if not isinstance(each, Exactly)]
    match term.aspect:
        case Aspect.ARG:
            for value in exact:
                yield _has_argument(dialect, _VIEW.args, term.name, value)
        case Aspect.KEY | Aspect.GRAPH:
            yield _VIEW.id.in_(ids_by(dialect, term))
        case Aspect.TAG:
            yield from (dialect.has_tag(_VIEW.tags, str(each)) for each in exact)
            yield from (dialect.has_tag_like(_VIEW.tags, _pattern(each)) for each in others)
        case Aspect.ERROR:
            yield from (_is_error(_VIEW.error_type, str(each)) for each in exact)
            for each in map(_pattern, others):
                yield dialect.is_like(_VIEW.error_type, each)
                yield dialect.is_like(_VIEW.error_type, f"*.{each}")
        case Aspect.MESSAGE:
            yield from (_begins(str(each)) for each in exact)
            yield from (dialect.is_like(_VIEW.error, f"{_pattern(each)}*") for each in others)
        case Aspect.ENQUEUED:
            yield from (_within(each) for each in others)
        case aspect if aspect in _TEXTS:
            yield from _texts(dialect, _TEXTS[aspect], term)
        case aspect:
            yield from _numbers(_NUMBERS[aspect], term)


def ids_by(dialect: Dialect, term: Term) -> Select[int]:
    """Return a query of the ids of jobs with what an index of another table knows."""
    if term.aspect is Aspect.GRAPH:
        step = tables.step.c
        return select(step.job).where(or_(*_numbers(step.graph, term)))
    asked = tables.job.c
    return select(asked.id).where(or_(*_texts(dialect, asked.key, term)))


def _texts(
    dialect: Dialect, column: ColumnElement[str], term: Term
) -> Iterator[ColumnElement[bool]]:
    exact = [str(each.value) for each in term.values if isinstance(each, Exactly)]
    if exact:
        yield is_one_of(column, exact)
    yield from (
        dialect.is_like(column, each.pattern) for each in term.values if isinstance(each, Like)
    )


def _numbers(column: ColumnElement[int], term: Term) -> Iterator[ColumnElement[bool]]:
    # As large as they are: some drivers would refuse what is too large for the column's type.
    number = partial(literal, type_=BigInteger)
    for each in term.values:
        match each:
            case Exactly(value):
                yield column == number(value)
            case Between(None, high):
                yield column <= number(high)
            case Between(low, None):
                yield column >= number(low)
            case Between(low, high):
                yield and_(column >= number(low), column <= number(high))


def _within(value: Value) -> ColumnElement[bool]:
    """Return whether a job was enqueued in a time."""
    low, high = (value.low, value.high) if isinstance(value, Between) else (None, None)
    bounds = [] if low is None else [_VIEW.enqueued_at >= low]
    return and_(True, *bounds, *([] if high is None else [_VIEW.enqueued_at < high]))


def _pattern(value: Value) -> str:
    return value.pattern if isinstance(value, Like) else ""


def _begins(text: str) -> ColumnElement[bool]:
    """Return whether the text of the last error begins so."""
    return func.substr(_VIEW.error, 1, len(text)) == text


def _is_error(column: ColumnElement[Any], name: str) -> ColumnElement[bool]:
    """Return the condition that an error is of a class, named with its module or without it."""
    end = func.substr(column, func.char_length(column) - len(name))
    return or_(column == name, end == f".{name}")


def _found_by_index(which: JobFilter) -> Iterator[Select[int]]:
    """Yield queries of the ids of jobs with what an index knows."""
    asked, step = tables.job.c, tables.step.c
    if which.graph is not None:
        yield select(step.job).where(step.graph == which.graph)
    if which.fingerprint is not None:
        yield select(asked.id).where(asked.fingerprint == which.fingerprint)
    if which.key is not None:
        yield select(asked.id).where(asked.key == which.key)


def _has_argument(
    dialect: Dialect, args: ColumnElement[Any], name: str, value: Scalar
) -> ColumnElement[bool]:
    """Return the condition that there is such an argument, or part of one: dots lead into objects.

    A name may have dots itself, that of an argument: so it is looked for as it is, too.
    """
    whole = dialect.has_argument(args, name, value)
    *ways, last = name.split(".")
    if not ways or "" in (*ways, last):
        return whole
    inner = reduce(dialect.argument, ways, args)
    return or_(whole, dialect.has_argument(inner, last, value))


def is_in(states: Collection[JobState]) -> ColumnElement[bool]:
    """Return the condition that a job is in one of some states."""
    of_view = is_one_of(views.jobs.c.state, sorted(states))
    if set(states) != {JobState.RUNNING}:
        return of_view
    # One look at all live rows for the few that run takes half as long as the way through the view
    # from the newest job on, past all that wait.
    runs = select(tables.live.c.id).where(tables.live.c.worker.is_not(None))
    return and_(of_view, views.jobs.c.id.in_(runs))


def is_one_of(column: ColumnElement[str], values: Sequence[str]) -> ColumnElement[bool]:
    """Return whether a column is one of a few values, in the planner's best words."""
    return column == values[0] if len(values) == 1 else column.in_(values)
