"""Steps as one transaction: what answers nothing travels with what is asked next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mutirao.sql.drivers.mysql import say_joined
from mutirao.sql.drivers.steps import Asking, Autocommits, Bracket, Execute, Rows, command, each
from mutirao.sql.drivers.together import MOST_WAITING, together

BRACKET = Bracket("BEGIN", "COMMIT", ("ROLLBACK",))


def heard(steps: Asking[Any], joins: bool = True, failing: str = "") -> tuple[list[list[str]], Any]:
    """Answer each statement with its text; return what travelled together, and the result."""
    said, answer = list[list[str]](), None
    try:
        request = next(steps)
        while True:
            if isinstance(request, Autocommits):
                request = steps.send([(True, True)] if joins else [(True,)])
                continue
            assert isinstance(request, Execute)
            said.append([each.sql for each in (request, *request.then)])
            if failing in said[-1]:
                request = steps.throw(ValueError(failing))
            else:
                request = steps.send([(said[-1][-1],)])
    except StopIteration as end:
        answer = end.value
    except ValueError as error:
        answer = error
    return said, answer


def work() -> Asking[Rows]:
    """Write twice, ask, and write."""
    yield command("a")
    yield each("b", [(1,), (2,)])
    found = yield Execute("asks")
    yield command("c")
    return found


def test_what_waits_travels_with_what_asks() -> None:
    """And with the COMMIT; where that cannot be, each travels by itself."""
    said, found = heard(together(BRACKET, work()))
    assert said == [["BEGIN", "a", "b", "asks"], ["c", "COMMIT"]]
    assert found == [("asks",)]
    said, _ = heard(together(BRACKET, work()), joins=False)
    assert said == [["BEGIN"], ["a"], ["b"], ["asks"], ["c"], ["COMMIT"]]


@pytest.mark.parametrize("failing", ["b", "c"])
def test_what_fails_undoes_all(failing: str) -> None:
    """The steps get the error of whatever travelled with what they said."""
    said, error = heard(together(BRACKET, work()), failing=failing)
    assert said[-1] == ["ROLLBACK"]
    assert isinstance(error, ValueError)


def test_what_is_large_travels_alone() -> None:
    """A packet has an end: what waited is said before, in its order."""

    def large() -> Asking[None]:
        yield command("a")
        yield each("b", [("x" * MOST_WAITING,), ("x",)])
        yield command("c")

    assert heard(together(BRACKET, large()))[0] == [["BEGIN", "a"], ["b"], ["c", "COMMIT"]]


def test_a_transaction_within_one() -> None:
    """Who asks whether statements commit by themselves hears that they do not."""

    def asking() -> Asking[Rows]:
        return (yield Autocommits())

    assert heard(together(BRACKET, asking())) == ([["BEGIN", "COMMIT"]], [(False,)])


class Cursor:
    """A cursor that notes what it is told, and has a result for each statement."""

    def __init__(self) -> None:
        self.said: tuple[str, tuple[Any, ...]] = ("", ())
        self.results = list[list[str]]()

    def execute(self, sql: str, values: tuple[Any, ...]) -> None:
        """Make the results: a SELECT has its own text."""
        self.said = (sql, values)
        self.results = [[each] if each.startswith("SELECT") else [] for each in sql.split(";")]

    def fetchall(self) -> list[str]:
        """Return the current result."""
        return self.results[0]

    def nextset(self) -> None:
        """Go on to the next."""
        self.results = self.results[1:]


def test_many_rows_in_one_text() -> None:
    """An INSERT has them all; what returns are the rows of the last that answers, be it none."""
    insert = each("INSERT INTO t (a, b) VALUES (?, ?) ON DUPLICATE KEY UPDATE a = VALUES(a)", _TWO)
    change = each("UPDATE t SET a = ? WHERE b = ?", _TWO)
    unread = Execute("SELECT 1", answers=False)
    cursor = Cursor()
    native: Callable[[str], str] = str
    rows = say_joined(cursor, native, insert._replace(then=(change, unread, Execute("WITH none"))))
    assert cursor.said == (
        "INSERT INTO t (a, b) VALUES (?, ?), (?, ?) ON DUPLICATE KEY UPDATE a = VALUES(a);"
        "UPDATE t SET a = ? WHERE b = ?;UPDATE t SET a = ? WHERE b = ?;SELECT 1;WITH none",
        (1, 2, 3, 4) * 2,
    )
    assert rows == []


_TWO = [(1, 2), (3, 4)]
