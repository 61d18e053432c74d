"""Enqueueing on PostgreSQL: one statement for a few jobs, COPY for many.

How its facts travel stands in `facts`. What is faster was measured on one machine: the function
for one job (0.26 ms; the statement for several takes 0.5 ms where it is not prepared), that
statement up to about 200 jobs (3.3 ms, as COPY, which needs more round trips), COPY above.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import chain, compress
from operator import ne
from typing import NamedTuple

from mutirao.model.jobs.job import DEFAULT_QUEUE, NewJob
from mutirao.model.keys.supersede import Supersede
from mutirao.model.keys.uniqueness import KeyName, Placed, Unique, duplicate
from mutirao.sql.dialects.postgresql.enqueue_rows import PARAMETERS, job_rows, live_rows
from mutirao.sql.dialects.postgresql.enqueue_statements import (
    EXPIRY_STATEMENT,
    GRAPH_STATEMENTS,
    INBOX_STATEMENTS,
)
from mutirao.sql.dialects.postgresql.supersede import ask, judge
from mutirao.sql.drivers.failures import beneath, short
from mutirao.sql.drivers.steps import (
    ENQUEUE_SAVEPOINT,
    GRAPH_SAVEPOINT,
    Autocommits,
    Bracket,
    Execute,
    Request,
    Row,
    Rows,
    Steps,
    take,
)
from mutirao.sql.enqueue.intake import DialectIntake
from mutirao.sql.enqueue.job_columns import FACTS, as_json, facts
from mutirao.sql.schema.types import from_micros

_NAME = "PostgreSQL"
MAX_JOBS_PER_INSERT = 200  # jobs that one statement still writes as fast as COPY

_LEFT_OUT = {"queue": DEFAULT_QUEUE, "priority": 0}  # the function has them, too
_DEFAULTS = tuple(_LEFT_OUT.get(name) for name in PARAMETERS)

# And what else travels to `mutirao_enqueue_unique`.
_RULE = {
    "on_conflict": "text", "scope": "text", "unique_for": "double precision",
    "debounce_limit": "double precision", "version": "text::numeric", "id": "bigint",
}  # fmt: skip


def _named(more: dict[str, str]) -> str:
    return ", ".join(f"_{name} => %s::{kind}" for name, kind in (PARAMETERS | more).items())


_PLACE = f"SELECT id, how FROM mutirao_enqueue_unique({_named(_RULE)})"  # noqa: S608 (our own constants)

# And what else to `mutirao_enqueue_superseding`, once the last job of the key is locked and known.
_ENQUEUE_SUPERSEDING = {
    "scope": "text", "after": "bigint", "how": "text", "merged": "text::json", "done": "bigint",
    "id": "bigint",
}  # fmt: skip
_PLACE_LAST = f"SELECT mutirao_enqueue_superseding({_named(_ENQUEUE_SUPERSEDING)})"

# Where jobs take turns.
_APPLY_FAIRNESS = "SELECT mutirao_apply_fairness(%s::bigint, %s::text)"

# JSON inside the list is text, so that nothing in it can pass for a field of the job. Ids are
# drawn in the order of the subquery, hence in that of the list.
_DUE = {"run_at": "timestamptz"}
_NAMES = ", ".join(f'"{name}"' for name in FACTS)
_PLACES = ", ".join(f'"{name}"' for name in PARAMETERS)
_TYPES = {name: kind.partition("::")[0] for name, kind in PARAMETERS.items()}
_FIELDS = ", ".join(f'"{name}" {kind}' for name, kind in (_TYPES | _DUE).items())
_CONVERTED = ", ".join(
    f"{name}::json" if PARAMETERS[name].endswith("::json") else f'"{name}"' for name in FACTS
)
_SEVERAL = f"""WITH asked AS (
    SELECT * FROM ROWS FROM (json_to_recordset(%s::text::json) AS ({_FIELDS}))
    WITH ORDINALITY AS asked ({_PLACES}, place)
), job AS (
    INSERT INTO mutirao_job ({_NAMES}, run_at)
    SELECT
        {_CONVERTED},
        coalesce(run_at, statement_timestamp() + coalesce(delay, 0) * interval '1 second')
    FROM asked ORDER BY place
    RETURNING id, queue, priority, run_at
), live AS (
    INSERT INTO mutirao_live (id, queue, priority, run_at)
    SELECT id, queue, priority, run_at FROM job
)
SELECT id, (
    SELECT CASE
        WHEN count(DISTINCT (queue, priority)) > 1 THEN mutirao_wake()
        ELSE mutirao_wake(
            min(queue), min(priority), min(run_at), min(id), count(*),
            (SELECT min(task) FROM asked HAVING count(DISTINCT task) = 1)
        )
    END FROM job
) FROM job ORDER BY id"""  # noqa: S608 (our own constants)

_NOW = """SELECT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint,
    current_setting('client_encoding')"""
_ENCODING = "SELECT set_config('client_encoding', %s::text, true)"
# The function is inlined: the sequence is looked up once. As one text the numbers
# take a fifth of the time that as many rows take to read.
_RESERVE = """SELECT string_agg(id::text, ',') FROM (
    SELECT mutirao_next_id() AS id
    FROM generate_series(1, %s::integer)
) reserved"""
_WAKE_LANE = """SELECT mutirao_wake(
    %s::text, %s::integer, %s::text::timestamptz, %s::bigint, %s::bigint
)"""
_WAKE_ALL = "SELECT mutirao_wake()"

_TRANSACTION = Bracket("BEGIN", "COMMIT", ("ROLLBACK",))
_UNDEFINED = {"42P01", "42883"}  # a table, a function
_NO_SCHEMA = "3F000"


def enqueue(jobs: Iterable[NewJob]) -> Steps:
    """Write `jobs` and return their ids, in order; all or none, with one wake-up for all."""
    rest = iter(jobs)
    first = take(rest, MAX_JOBS_PER_INSERT)
    following = next(rest, None)
    if following is not None:
        return (yield from _stream(chain(first, (following,), rest)))
    if not first:
        return []
    if len(first) == 1:
        return (yield from _single(first[0]))
    if any(job.unique is not None or job.fair_by is not None for job in first):
        return (yield from _stream(iter(first)))
    rows = yield _several(first)
    return [int(row[0]) for row in rows]


def lacks_tables(error: Exception) -> bool:
    """Return whether `error`, a driver's or of a layer above, says that our tables are missing."""
    cause = beneath(error)
    code = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    # The lines after the first name our tables also where a trigger of the application misses one.
    return code == _NO_SCHEMA or (code in _UNDEFINED and "mutirao_" in short(cause))


def atomically(steps: Steps) -> Steps:
    """Do all of these steps or none, in the open transaction or one of their own."""
    yield Execute("SELECT 1")  # a lazy transaction begins with it
    ((autocommits,),) = yield Autocommits()
    return (yield from (_TRANSACTION if autocommits else GRAPH_SAVEPOINT).around(steps))


INTAKE = DialectIntake(
    _NAME, enqueue, lacks_tables, atomically, GRAPH_STATEMENTS, INBOX_STATEMENTS, EXPIRY_STATEMENT
)


def _single(job: NewJob) -> Steps:
    if job.unique is None:
        ((id,),) = yield _one(job)
        return [int(id)]
    if _superseding(job):
        return (yield from _stream(iter((job,))))
    return [(yield from _place(job))]


def _one(job: NewJob) -> Execute:
    """Return the call for a job: but for its arguments the same for all that share its options."""
    known = job.checked.written
    if (written := known.get(_NAME)) is None:
        written = known[_NAME] = _written(job)
    sql, before, after = written
    return Execute(sql, (*before, job.args, *after))


def _written(job: NewJob) -> tuple[str, Row, Row]:
    """Return the statement for a job, and what is bound before its arguments and after them.

    Values other than the function's defaults are passed by name: most jobs have three of fourteen.
    """
    row = _asked(job)
    given = tuple(map(ne, row, _DEFAULTS))
    task, _, *others = compress(row, given)
    if job.fair_by is not None:
        others.append(job.fair_by)
    return _call(given, job.fair_by is not None), (task,), tuple(others)


@lru_cache(maxsize=256)
def _call(given: tuple[bool, ...], fair: bool) -> str:
    facts = [f'"{name}" => %s::{kind}' for name, kind in compress(PARAMETERS.items(), given)]
    if fair:
        facts.append("fair_by => %s::text")
    return f"SELECT mutirao_enqueue({', '.join(facts)})"


class _Drawn(NamedTuple):
    """The facts of a job before its turn to be placed has come."""

    id: int
    due: datetime


def _place(job: NewJob, drawn: _Drawn | None = None) -> Generator[Request, Rows, int]:
    """Write a job with a unique key, or find the one that has it."""
    placed = yield from _place_as_asked(job, drawn)
    if job.fair_by is not None and isinstance(placed, Placed) and placed.written:
        yield Execute(_APPLY_FAIRNESS, (int(placed), job.fair_by))
    return placed


def _place_as_asked(job: NewJob, drawn: _Drawn | None) -> Generator[Request, Rows, int]:
    unique = job.unique or Unique()
    if unique.supersede is not None:
        return (yield from _place_last(job, unique, unique.supersede, drawn))
    version = None if unique.version is None else str(unique.version)
    rule = (str(unique.on_conflict), unique.scope, unique.unique_for, unique.debounce_limit)
    which = (*rule, version, drawn and drawn.id)
    ((id, how),) = yield Execute(_PLACE, (*_asked(job, drawn), *which))
    if how == "refused":
        raise duplicate(job.task, job.key, int(id))
    return Placed(id, how)


def _superseding(job: NewJob) -> bool:
    return job.unique is not None and job.unique.supersede is not None


def _place_last(
    job: NewJob, unique: Unique, rule: Supersede, drawn: _Drawn | None
) -> Generator[Request, Rows, int]:
    """Write a job as the last of its key, after the rule was asked. To be done in a transaction."""
    name = unique.name(job.task, job.queue, job.key or "")
    yield from judge(name, job.task, rule)
    older, fate, (how, merged, done) = yield from ask(name, rule, job.task, job.args)
    if how == "repeated" and done is not None:
        return Placed(done, how)
    place = (unique.scope, older, fate, merged, done, drawn and drawn.id)
    ((id,),) = yield Execute(_PLACE_LAST, (*_asked(job, drawn), *place))
    return Placed(id, how)


def _lock(job: NewJob) -> KeyName:
    """Return what a job's key locks, to be sorted by."""
    return (job.unique or Unique()).name(job.task, job.queue, job.key or "")


def _several(jobs: list[NewJob]) -> Execute:
    named = [dict(zip(PARAMETERS, _asked(job), strict=True)) for job in jobs]
    return Execute(_SEVERAL, (as_json(named),))


def _asked(job: NewJob, drawn: _Drawn | None = None) -> Row:
    if drawn is not None:
        return (*facts(job), drawn.due.isoformat(), None)
    return (*facts(job), job.run_at and job.run_at.isoformat(), job.delay)


def _stream(jobs: Iterator[NewJob]) -> Steps:
    ((now, encoding),) = yield Execute(_NOW)
    ((autocommits,),) = yield Autocommits()
    bracket = _TRANSACTION if autocommits else ENQUEUE_SAVEPOINT
    copied = _copy(jobs, from_micros(int(now)))
    return (yield from bracket.around(_in_utf8(copied, encoding)))


def _in_utf8(steps: Steps, encoding: str) -> Steps:
    """Copy in UTF-8, whatever the client has set: COPY in binary has no option for it.

    Like the written rows, the setting is undone with the savepoint or the transaction.
    """
    if encoding == "UTF8":
        return (yield from steps)
    yield Execute(_ENCODING, ("UTF8",))
    ids = yield from steps
    yield Execute(_ENCODING, (encoding,))
    return ids


def _copy(jobs: Iterator[NewJob], now: datetime) -> Steps:
    ids: list[int] = []
    lanes: set[tuple[str, int]] = set()
    earliest = datetime.max.replace(tzinfo=UTC)
    while chunk := take(jobs):
        places = range(len(chunk))
        keyed = [n for n in places if chunk[n].unique is not None]
        ordered = sorted(keyed, key=lambda n: _lock(chunk[n]))
        plain = [n for n in places if chunk[n].unique is None]
        new = yield from _draw(plain if ordered == keyed else places)
        if plain:
            rows = [chunk[n] for n in plain]
            alike = {id(job.checked): job for job in rows}
            due = {kind: _due(job, now) for kind, job in alike.items()}
            mine = [new[n] for n in plain]
            yield job_rows(mine, rows, alike, due, now)
            yield live_rows(mine, rows, alike, due)
            lanes.update((job.lane, job.priority) for job in alike.values())
            earliest = min(earliest, *due.values())
        yield from _place_in_order(chunk, ordered, new, now)
        ids += [new[n] for n in places]
    if lanes:
        yield _wake(lanes, earliest, ids)
    return ids


def _draw(places: Sequence[int]) -> Generator[Request, Rows, dict[int, int]]:
    """Draw ids for the jobs at these places, in their order."""
    if not places:
        return {}
    ((reserved,),) = yield Execute(_RESERVE, (len(places),))
    return dict(zip(places, map(int, reserved.split(",")), strict=True))


def _place_in_order(
    jobs: Sequence[NewJob], ordered: Sequence[int], new: dict[int, int], now: datetime
) -> Generator[Request, Rows, None]:
    """Write those of these jobs that have a key, and note their ids.

    `ordered` are their places in the order of their keys, each of which is a lock: so two that
    enqueue the same keys do not wait for each other. Where that is not the order in which they
    came, ids were drawn, and they and times keep that order.
    """
    for n in ordered:
        drawn = _Drawn(new[n], _due(jobs[n], now)) if n in new else None
        new[n] = yield from _place(jobs[n], drawn)


def _wake(lanes: set[tuple[str, int]], earliest: datetime, ids: Sequence[int]) -> Execute:
    if len(lanes) > 1:
        return Execute(_WAKE_ALL)
    ((queue, priority),) = lanes
    return Execute(_WAKE_LANE, (queue, priority, earliest.isoformat(), ids[0], len(ids)))


def _due(job: NewJob, now: datetime) -> datetime:
    if job.run_at is not None:
        return job.run_at
    return now + timedelta(seconds=job.delay) if job.delay else now
