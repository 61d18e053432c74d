"""A claim of several statements: what was claimed is never forgotten, nor what was undone told."""

from __future__ import annotations

import pytest
from psycopg import errors

from mutirao.model.jobs.job import Claim, Wake
from mutirao.model.limits.claims_and_wakes import Claimed
from mutirao.sql.dialects.postgresql import limits, statements
from mutirao.sql.dialects.postgresql.limits import ClaimRequest
from mutirao.sql.drivers.steps import Autocommits, Query, Row
from mutirao_conformance.kit import LONG_AGO, NOW, lane

NOBODY = (None,) * 8  # of a claim: what is not asked here
MINE = Claim(7, 1, 1, "t", "{}", "default", 0, NOW, NOW, *NOBODY)
AGAIN = MINE._replace(id=0, task="*")
UNDONE = [errors.DeadlockDetected(), errors.SerializationFailure(), errors.LockNotAvailable()]


def claiming(*rows: Row) -> Query[Claimed]:
    """Return the steps of a claim whose first statement has had these rows."""
    request = ClaimRequest(statements.CLAIM, 1, [lane()], 10, None, None)
    return limits.claim_on(request, list(rows))


@pytest.mark.parametrize("error", UNDONE, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("statement", ["sift", "claim"])
def test_the_database_gives_a_later_one_up(error: Exception, statement: str) -> None:
    """The jobs of the earlier ones are returned; the lanes are to be looked at again."""
    steps = claiming(MINE, AGAIN)
    next(steps)
    if statement == "claim":
        steps.send([("",)])
    assert steps.throw(error) == Autocommits()
    with pytest.raises(StopIteration) as end:
        steps.send([(True,)])
    found = end.value.value
    assert found == [MINE]
    assert found.woken == (Wake("default", 0, LONG_AGO),)


@pytest.mark.parametrize("error", UNDONE, ids=lambda error: type(error).__name__)
def test_all_are_one_transaction(error: Exception) -> None:
    """Then the jobs of the earlier ones are claimed by nobody any more."""
    steps = claiming(MINE, AGAIN)
    next(steps)
    steps.throw(error)
    with pytest.raises(type(error)):
        steps.send([(False,)])


@pytest.mark.parametrize("error", UNDONE, ids=lambda error: type(error).__name__)
def test_nothing_was_claimed(error: Exception) -> None:
    """Whoever asked hears of it, and tries again."""
    steps = claiming(AGAIN)
    next(steps)
    with pytest.raises(type(error)):
        steps.throw(error)


def test_nobody_knows_what_came_of_it() -> None:
    """A lost connection is told: the worker looks what it holds."""
    steps = claiming(MINE, AGAIN)
    next(steps)
    with pytest.raises(errors.ConnectionException):
        steps.throw(errors.ConnectionException())
