"""After the chaos: what the tables say, held against what was asked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from mutirao.model.jobs.job import OutcomeKind
from mutirao.sql.schema.tables import job, live
from tests.faults.chaos.app import rows
from tests.faults.kit.histories import Attempt, histories, miscounts


class Row(NamedTuple):
    """What a job wrote, and in which run."""

    number: int
    job: int
    run: int


@dataclass(frozen=True)
class Findings:
    """What is not as promised, in sentences, and how many attempts had which outcome."""

    problems: list[str]
    outcomes: Counter[OutcomeKind]


def audit(connection: Connection, count: int) -> Findings:
    """Look for everything that could be wrong with the jobs 0 to `count` - 1."""
    numbers = _numbers_by_job(connection)
    columns = select(rows.c.number, rows.c.job, rows.c.run)
    written = [Row(*each) for each in connection.execute(columns)]
    history = histories(connection)
    unfinished = connection.execute(select(func.count()).select_from(live)).scalar_one()
    problems = [f"{unfinished} jobs are live or running"] if unfinished else []
    problems += _listed("have no row", set(range(count)) - {row.number for row in written})
    problems += _listed("have several rows", _repeated(row.number for row in written))
    problems += _listed("were never enqueued", set(range(count)) - set(numbers.values()))
    problems += _listed("were enqueued more than once", _repeated(numbers.values()))
    wrong = [f"job {id} {flaw}" for id in numbers for flaw in flaws(history[id])]
    wrong += [f"job {row.job} {flaw}" for row in written for flaw in misfits(row, history, numbers)]
    outcomes = Counter(each.outcome for attempts in history.values() for each in attempts)
    return Findings(problems + wrong, outcomes)


def flaws(attempts: Sequence[Attempt]) -> Iterator[str]:
    """Yield what is wrong with the history of one job, given in the order of runs."""
    finals = [each.outcome for each in attempts if each.outcome.final]
    if finals != [OutcomeKind.SUCCEEDED]:
        yield f"has {len(finals)} final outcomes, not one success: {finals}"
    elif not attempts[-1].outcome.final:
        yield f"went on after it had succeeded: {attempts[-1]}"
    yield from miscounts(attempts)


def misfits(
    row: Row, history: Mapping[int, Sequence[Attempt]], numbers: Mapping[int, int]
) -> Iterator[str]:
    """Yield what does not fit between a row and the history of the job that wrote it."""
    if numbers.get(row.job) != row.number:
        yield f"wrote the row of number {row.number}, and has {numbers.get(row.job)}"
    runs = [each.run for each in history[row.job] if each.outcome is OutcomeKind.SUCCEEDED]
    if runs != [row.run]:
        yield f"wrote its row in run {row.run}, and succeeded in {runs}"


def _numbers_by_job(connection: Connection) -> dict[int, int]:
    found = connection.execute(select(job.c.id, job.c.args).where(job.c.task.like("%insert_%")))
    return {id: args["number"] for id, args in found}


def _repeated(values: Iterable[int]) -> set[int]:
    return {value for value, times in Counter(values).items() if times > 1}


def _listed(what: str, numbers: set[int]) -> list[str]:
    return [f"{len(numbers)} numbers {what}: {sorted(numbers)[:10]}"] if numbers else []
