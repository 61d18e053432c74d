"""Enqueueing on SQLite: an INSERT into `mutirao_job`; its trigger makes the job live.

Times come from this process's clock, which is that of every worker on the same file.
"""

from collections.abc import Generator, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from itertools import chain

from mutirao.job import NewJob
from mutirao.sql.callers.steps import (
    SAVEPOINT,
    Autocommits,
    Bracket,
    Execute,
    Load,
    Request,
    Row,
    Rows,
    Steps,
    command,
    placed,
    take,
)
from mutirao.sql.dialects.sqlite.keys import place
from mutirao.sql.dialects.sqlite.planting import PLANTING
from mutirao.sql.instant import from_micros, to_micros
from mutirao.sql.intake import FACTS, DialectIntake, facts

CHUNK = 5_000  # jobs held in memory at a time
CHARACTERS = 4 << 20  # of their arguments, likewise

_COLUMNS = ("run_at", "enqueued_at", *FACTS)
_ONE = (
    f"INSERT INTO mutirao_job ({', '.join(_COLUMNS)}) "  # noqa: S608 (our own constants)
    f"VALUES ({', '.join('?' for _ in _COLUMNS)}) RETURNING id"
)
# The row of an AUTOINCREMENT table appears with its first insert.
_ENSURE_SEQUENCE = """INSERT INTO sqlite_sequence (name, seq)
SELECT 'mutirao_job', 0
WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'mutirao_job')"""
_RESERVE = "UPDATE sqlite_sequence SET seq = seq + ? WHERE name = 'mutirao_job' RETURNING seq"

_IN_TURN = "INSERT INTO mutirao_fair (task, by) VALUES (?, ?) ON CONFLICT DO NOTHING"

_TRANSACTION = Bracket("BEGIN IMMEDIATE", "COMMIT", ("ROLLBACK",))


def enqueue(jobs: Iterable[NewJob]) -> Steps:
    """Write `jobs` and return their ids, in order; all or none."""
    rest = iter(jobs)
    first, second = next(rest, None), next(rest, None)
    if first is None:
        return []
    if second is None and first.unique is None:
        yield from _line_up([first])
        ((id,),) = yield _write(first, _now())
        return [int(id)]
    return (yield from _stream(chain((first,), () if second is None else (second,), rest)))


def lacks_tables(error: Exception) -> bool:
    """Whether `error`, sqlite3's or SQLAlchemy's, says that Mutirão's tables are missing."""
    text = str(getattr(error, "orig", error))
    return text in {f"no such table: {name}" for name in ("mutirao_job", "sqlite_sequence")}


def together(steps: Steps) -> Steps:
    """Do all of these steps or none, in the transaction that there is or one of their own."""
    yield Execute("SELECT 1")  # whoever begins a transaction lazily has begun it now
    ((autocommits,),) = yield Autocommits()
    if autocommits:
        return (yield from _TRANSACTION.around(steps))
    # sqlite3 begins its implicit transaction before a statement that writes, but not before a
    # SAVEPOINT: that would be the outermost, and its RELEASE a commit.
    yield command(_ENSURE_SEQUENCE)
    return (yield from SAVEPOINT.around(steps))


INTAKE = DialectIntake("SQLite", enqueue, lacks_tables, together, PLANTING)


def _stream(jobs: Iterator[NewJob]) -> Steps:
    return together(_insert(jobs))


def _insert(jobs: Iterator[NewJob]) -> Steps:
    now = _now()
    ids: list[int] = []
    yield command(_ENSURE_SEQUENCE)
    while chunk := take(jobs, CHUNK, CHARACTERS):
        yield from _line_up(chunk)
        plain = [job for job in chunk if job.unique is None]
        new = (yield from _load(plain, now)) if plain else []
        if len(plain) == len(chunk):
            ids += new
        else:
            ids += yield from placed(
                chunk,
                iter(new),
                partial(place, now=from_micros(now), write=partial(_write, now=now)),
            )
    return ids


def _line_up(jobs: Iterable[NewJob]) -> Generator[Request, Rows, None]:
    """Say which tasks' jobs take turns, for the trigger."""
    fair = {(job.task, job.fair_by) for job in jobs if job.fair_by is not None}
    for each in sorted(fair):
        yield Execute(_IN_TURN, each, answers=False)


def _load(jobs: list[NewJob], now: int) -> Steps:
    ((last,),) = yield Execute(_RESERVE, (len(jobs),))
    new = range(last - len(jobs) + 1, last + 1)
    rows = [(id, *_row(job, now)) for id, job in zip(new, jobs, strict=True)]
    yield Load("mutirao_job", ("id", *_COLUMNS), rows)
    return list(new)


def _write(job: NewJob, now: int) -> Execute:
    return Execute(_ONE, _row(job, now))


def _row(job: NewJob, now: int) -> Row:
    due = now + round((job.delay or 0) * 1_000_000) if job.run_at is None else to_micros(job.run_at)
    return (due, now, *facts(job))


def _now() -> int:
    return to_micros(datetime.now(UTC))
