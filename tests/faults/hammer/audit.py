"""What the tables must not show: jobs that are lost, that wait for nothing, and miscounted places.

Each function reads in the snapshot it is given, and yields sentences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlalchemy import ColumnElement, Connection, and_, exists, func, or_, select

from mutirao.model.keys.uniqueness import PARKED
from mutirao.sql.schema.tables import (
    attempt,
    counter,
    gate,
    job,
    key,
    live,
    parked,
    slot,
    step as steps,
    supersede_wait,
)
from tests.faults.kit.promises import finished_twice, lost
from tests.faults.kit.reading import count_of

SHOWN = 10  # jobs of a kind

_DATABASES_WORDS = re.compile(
    r"deadlock detected|Deadlock found|could not \w+[^\n]*|database is locked"
)

_waits = and_(live.c.worker.is_(None), live.c.run_at == PARKED)
_ahead = live.alias("ahead")


def _behind_key() -> ColumnElement[bool]:
    alive = exists().where(_ahead.c.id == key.c.after).correlate(key)
    return exists().where(key.c.job == live.c.id, alive).correlate(live)


def _behind_turn() -> ColumnElement[bool]:
    alive = exists().where(_ahead.c.id == supersede_wait.c.after).correlate(supersede_wait)
    return exists().where(supersede_wait.c.job == live.c.id, alive).correlate(live)


def _behind_limit() -> ColumnElement[bool]:
    known = exists().where(counter.c.id == parked.c.counter).correlate(parked)
    return exists().where(parked.c.job == live.c.id, known).correlate(live)


def _behind_steps() -> ColumnElement[bool]:
    closed = exists().where(gate.c.id == steps.c.gate, gate.c.unfinished > 0).correlate(steps)
    return exists().where(steps.c.job == live.c.id, closed).correlate(live)


def whole(connection: Connection) -> Iterator[str]:
    """Yield what must not be at any moment, whatever goes on."""
    for _, sentence in (*lost(connection), *finished_twice(connection)):
        yield sentence
    yield from _without_cause(connection)
    yield from _miscounted(connection)


def unfinished(connection: Connection) -> int:
    """Return how many jobs are live, but for steps that wait for one that died or was cancelled."""
    left = select(func.count()).select_from(live).where(~and_(_waits, _behind_steps()))
    return connection.execute(left).scalar_one()


def left_over(connection: Connection) -> Iterator[str]:
    """Yield which jobs have not ended, and what is known of each."""
    rows = connection.execute(
        select(live.c.id, job.c.task, live.c.run_at, live.c.worker, live.c.attempt)
        .join(job, job.c.id == live.c.id)
        .where(~and_(_waits, _behind_steps()))
        .order_by(live.c.id)
    ).all()
    for id, task, run_at, worker, attempts in rows[:SHOWN]:
        state = f"held by worker {worker}" if worker else f"due at {run_at}"
        why = f", behind {', '.join(_causes(connection, id))}" if run_at == PARKED else ""
        yield f"job {id} ({task}) has not ended: {state}{why}, {attempts} attempts"
    if len(rows) > SHOWN:
        yield f"{len(rows) - SHOWN} more jobs have not ended"


def places_taken(connection: Connection) -> Iterator[str]:
    """Yield what limits still hold although nothing runs."""
    for table in (slot, parked):
        if count := count_of(connection, table):
            yield f"{count} rows are left in {table.name}, and nothing runs"


def errors_of_databases(connection: Connection) -> dict[tuple[int, int], str]:
    """Return which attempts (job, run) ended with an error of a database, and how."""
    names = (
        "psycopg%",
        "asyncpg%",
        "sqlalchemy%",
        "sqlite3%",
        "aiosqlite%",
        "pymysql%",
        "mutirao.errors.Store%",
    )
    kind = or_(*(attempt.c.error_type.like(name) for name in names))
    rows = connection.execute(
        select(*attempt.c["job", "run", "outcome", "error_type", "error"]).where(kind)
    )
    return {(id, run): f"{outcome}, {name}{_what(text)}" for id, run, outcome, name, text in rows}


def _what(error: str | None) -> str:
    found = _DATABASES_WORDS.search(error or "")
    return f": {found[0]}" if found else ""


def _without_cause(connection: Connection) -> Iterator[str]:
    causes = (_behind_key(), _behind_turn(), _behind_limit(), _behind_steps())
    found = select(live.c.id, job.c.task, job.c.key).join(job, job.c.id == live.c.id)
    rows = connection.execute(found.where(_waits, ~or_(*causes)).order_by(live.c.id)).all()
    for id, task, its_key in rows[:SHOWN]:
        named = f", key {its_key!r}" if its_key else ""
        yield f"job {id} ({task}{named}) waits for nothing, and for ever"
    if len(rows) > SHOWN:
        yield f"{len(rows) - SHOWN} more jobs wait for nothing"


def _causes(connection: Connection, id: int) -> Iterator[str]:
    named = {
        "a job of its key": _behind_key(),
        "those before it": _behind_turn(),
        "a limit": _behind_limit(),
        "earlier steps": _behind_steps(),
    }
    for name, cause in named.items():
        if connection.execute(select(live.c.id).where(live.c.id == id, cause)).first():
            yield name


def _miscounted(connection: Connection) -> Iterator[str]:
    taken = select(func.count()).where(slot.c.counter == counter.c.id).scalar_subquery()
    rows = connection.execute(
        select(counter.c.name, counter.c.key, counter.c.running, taken).where(
            counter.c.running != taken
        )
    )
    for name, its_key, running, slots in rows:
        limit = f"limit {name} (key {its_key!r})"
        yield f"{limit} counts {running} that run, and has {slots} places taken"
    nobodys = select(slot.c.job).where(
        ~exists().where(live.c.id == slot.c.job, live.c.worker.is_not(None))
    )
    for id in connection.scalars(nobodys.limit(SHOWN)):
        yield f"job {id} holds a place of a limit, and does not run"
