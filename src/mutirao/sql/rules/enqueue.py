"""Enqueueing: a row of `mutirao_job`, and with it one of `mutirao_live`.

A few keyed jobs among many are placed one by one, each after what those before it have done.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

from mutirao.model.jobs.job import NewJob
from mutirao.sql.drivers.steps import (
    ENQUEUE_SAVEPOINT,
    GRAPH_SAVEPOINT,
    Autocommits,
    Bracket,
    Execute,
    Query,
    Row,
    Steps,
    placed,
    take,
)
from mutirao.sql.enqueue.job_columns import FACTS, facts
from mutirao.sql.rules.uniqueness import hold_keys, place
from mutirao.sql.rules.words import TIMES, Due, Words
from mutirao.sql.schema.types import MICROS_PER_SECOND, from_micros, to_micros

COLUMNS = (*TIMES, *FACTS)

_HAS_FAIRNESS = "SELECT 1 FROM mutirao_fairness WHERE task = ?"


def enqueue(words: Words, jobs: Iterable[NewJob]) -> Steps:
    """Write `jobs` and return their ids, in order; all or none."""
    rest = iter(jobs)
    first, second = next(rest, None), next(rest, None)
    if first is None:
        return []
    if second is None and first.unique is None:
        yield from _declare_fairness(words, [first])
        return [(yield from words.write_alone(FACTS, facts(first), _due(first)))]
    every = chain((first,), () if second is None else (second,), rest)
    return (yield from atomically(words, _insert(words, every), ENQUEUE_SAVEPOINT))


def atomically(words: Words, steps: Steps, savepoint: Bracket = GRAPH_SAVEPOINT) -> Steps:
    """Do all of these steps or none, in the open transaction or one of their own."""
    yield Execute("SELECT 1")  # a lazy transaction begins with it
    [(autocommits, *_)] = yield Autocommits()
    if autocommits:
        return (yield from words.transaction.around(steps))
    yield from words.before_savepoint()
    return (yield from savepoint.around(steps))


def _insert(words: Words, jobs: Iterator[NewJob]) -> Steps:
    ids: list[int] = []
    yield from words.before_savepoint()
    now = yield from words.moment(None)

    def write(job: NewJob) -> Query[int]:
        row = _row(job, now)
        if job.unique is None or job.unique.version is None:
            return words.write_job(COLUMNS, row)
        return words.write_job((*COLUMNS, "version"), (*row, job.unique.version))

    while chunk := take(jobs):
        yield from _declare_fairness(words, chunk)
        plain = [job for job in chunk if job.unique is None]
        rows = [_row(job, now) for job in plain]
        new = (yield from words.write_jobs(COLUMNS, rows)) if plain else []
        if len(plain) == len(chunk):
            ids += new
        else:
            yield from hold_keys(words, chunk)
            at = from_micros(now)
            ids += yield from placed(chunk, iter(new), lambda job: place(words, job, at, write))  # noqa: B023
    return ids


def _declare_fairness(words: Words, jobs: Iterable[NewJob]) -> Query[None]:
    """Record the `fair_by` of tasks, which is read where jobs are made live.

    Where rows are locked, that is done once: each enqueue would wait for the others' commits.
    """
    fair = {(job.task, job.fair_by) for job in jobs if job.fair_by is not None}
    for rule in sorted(fair):
        if words.locks and (yield Execute(_HAS_FAIRNESS, rule[:1])):
            continue
        sql = words.upsert("mutirao_fairness", ("task", "by"), ("task",))
        yield Execute(sql, rule, answers=False)


def _row(job: NewJob, now: int) -> Row:
    return (_due(job).reckoned(now), now, *facts(job))


def _due(job: NewJob) -> Due:
    if job.run_at is not None:
        return Due(to_micros(job.run_at))
    return Due(None, round((job.delay or 0) * MICROS_PER_SECOND))
