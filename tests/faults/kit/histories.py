"""The histories of jobs, as the tables tell them, and what can be wrong with one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from sqlalchemy import Connection, select

from mutirao.model.jobs.job import UNCOUNTED_OUTCOMES, OutcomeKind
from mutirao.sql.schema.tables import attempt


class Attempt(NamedTuple):
    """One attempt, as history tells it."""

    job: int
    run: int
    number: int
    outcome: OutcomeKind
    worker: int | None
    error_type: str | None


def histories(connection: Connection) -> Mapping[int, list[Attempt]]:
    """Return the attempts of each job, in the order of runs."""
    columns = attempt.c["job", "run", "attempt", "outcome", "worker", "error_type"]
    found: defaultdict[int, list[Attempt]] = defaultdict(list)
    for id, run, number, outcome, *rest in connection.execute(
        select(*columns).order_by(attempt.c.job, attempt.c.run)
    ):
        found[id].append(Attempt(id, run, number, OutcomeKind(outcome), *rest))
    return found


def miscounts(attempts: Sequence[Attempt]) -> Iterator[str]:
    """Yield what is wrong with the numbers and the reasons in the history of one job.

    Of several losses in a row all but the first may have been of workers that had not begun it:
    these are no attempts, which is known once it starts. Being given back between them changes
    nothing.
    """
    least, lost = 1, False
    most = least
    for each in attempts:
        if not least <= each.number <= most:
            yield f"has attempt {each.number} where {least} should be: {each}"
        counts = each.outcome not in UNCOUNTED_OUTCOMES
        again, lost = lost, (each.outcome is OutcomeKind.LOST) if counts else lost
        most = each.number + counts
        least = least if again and lost else most
        if each.worker is None:
            yield f"has an attempt of nobody: {each}"
        if each.error_type is None and each.outcome is not OutcomeKind.SUCCEEDED:
            yield f"does not say why: {each}"
