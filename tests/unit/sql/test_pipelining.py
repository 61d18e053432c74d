"""Steps as one transaction: statements without results travel with the next query."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from mutirao.sql.drivers.mysql import send_joined
from mutirao.sql.drivers.pipelining import MOST_WAITING, in_one_transaction
from mutirao.sql.drivers.steps import (
    Autocommits,
    Bracket,
    Execute,
    Query,
    Reply,
    Row,
    Rows,
    all_of,
    command,
    execute_many,
    pipelined,
)

BRACKET = Bracket("BEGIN", "COMMIT", ("ROLLBACK",))


def heard(steps: Query[Any], joins: bool = True, failing: str = "") -> tuple[list[list[str]], Any]:
    """Reply each statement with its text; return which travelled in one message, and the result."""
    said, answer = list[list[str]](), None
    try:
        request = next(steps)
        while True:
            if isinstance(request, Autocommits):
                request = steps.send([(True, True)] if joins else [(True,)])
                continue
            assert isinstance(request, Execute)
            said.append([each.sql for each in (request, *request.then)])
            for each in (request, *request.then):
                if each.into is not None:
                    each.into.found = [(each.sql,)]
            if failing in said[-1]:
                request = steps.throw(ValueError(failing))
            else:
                request = steps.send([(said[-1][-1],)])
    except StopIteration as end:
        answer = end.value
    except ValueError as error:
        answer = error
    return said, answer


def work() -> Query[Rows]:
    """Write twice, ask, and write."""
    yield command("a")
    yield execute_many("b", [(1,), (2,)])
    found = yield Execute("asks")
    yield command("c")
    return found


def test_what_waits_travels_with_what_asks() -> None:
    """And with the COMMIT; where that cannot be, each travels by itself."""
    said, found = heard(in_one_transaction(BRACKET, work()))
    assert said == [["BEGIN", "a", "b", "asks"], ["c", "COMMIT"]]
    assert found == [("asks",)]
    said, _ = heard(in_one_transaction(BRACKET, work()), joins=False)
    assert said == [["BEGIN"], ["a"], ["b"], ["asks"], ["c"], ["COMMIT"]]


@pytest.mark.parametrize("failing", ["b", "c"])
def test_what_fails_undoes_all(failing: str) -> None:
    """The steps get the error of whatever travelled with what they said."""
    said, error = heard(in_one_transaction(BRACKET, work()), failing=failing)
    assert said[-1] == ["ROLLBACK"]
    assert isinstance(error, ValueError)


def test_what_is_large_travels_alone() -> None:
    """A packet has an end: what waited is said before, in its order."""

    def large() -> Query[None]:
        yield command("a")
        yield execute_many("b", [("x" * MOST_WAITING,), ("x",)])
        yield command("c")

    assert heard(in_one_transaction(BRACKET, large()))[0] == [
        ["BEGIN", "a"],
        ["b"],
        ["c", "COMMIT"],
    ]


def test_what_is_asked_soon() -> None:
    """Its rows come with those of the next question; before that there are none."""

    def asking() -> Query[list[Any]]:
        first = yield from pipelined(Execute("a"))
        with suppress(LookupError):
            return first.rows
        second = yield from all_of([Execute("b"), Execute("c"), Execute("d")])
        return [first.rows, *second]

    said, found = heard(in_one_transaction(BRACKET, asking()))
    assert said == [["BEGIN", "a", "b", "c", "d"], ["COMMIT"]]
    assert found == [[(each,)] for each in "abcd"]
    assert heard(asking()) == ([["a"]], [("a",)])


def test_the_last_travels_with_the_commit() -> None:
    """Nothing may be said after it."""

    def last(more: bool) -> Query[Rows]:
        found = yield Execute("a", commits=True)
        return (yield command("b")) if more else found

    assert heard(in_one_transaction(BRACKET, last(False))) == (
        [["BEGIN", "a", "COMMIT"]],
        [("COMMIT",)],
    )
    with pytest.raises(TypeError, match="travel"):
        heard(in_one_transaction(BRACKET, last(True)))


def test_a_transaction_within_one() -> None:
    """Who asks whether statements commit by themselves hears that they do not."""

    def asking() -> Query[Rows]:
        return (yield Autocommits())

    assert heard(in_one_transaction(BRACKET, asking())) == ([["BEGIN", "COMMIT"]], [(False,)])


class Driver:
    """A driver that notes what it is told, and has a result for each statement."""

    def __init__(self) -> None:
        self.said: tuple[str, tuple[Any, ...]] = ("", ())

    def native(self, sql: str) -> str:
        """Return it as it is."""
        return sql

    def say(self, sql: str, params: Row) -> list[Rows]:
        """Return the rows: a SELECT has its own text."""
        self.said = (sql, params)
        return [[(each,)] if each.startswith("SELECT") else [] for each in sql.split(";")]


def test_many_rows_in_one_text() -> None:
    """An INSERT has them all; what returns are the rows of the last that answers, be it none."""
    insert = execute_many(
        "INSERT INTO t (a, b) VALUES (?, ?) ON DUPLICATE KEY UPDATE a = VALUES(a)", _TWO
    )
    change = execute_many("UPDATE t SET a = ? WHERE b = ?", _TWO)
    unread, soon = Execute("SELECT 1", answers=False), Execute("SELECT 2", into=Reply())
    driver = Driver()
    rows = send_joined(driver, insert._replace(then=(change, unread, soon, Execute("WITH none"))))
    assert driver.said == (
        "INSERT INTO t (a, b) VALUES (?, ?), (?, ?) ON DUPLICATE KEY UPDATE a = VALUES(a);"
        "UPDATE t SET a = ? WHERE b = ?;UPDATE t SET a = ? WHERE b = ?;SELECT 1;SELECT 2;WITH none",
        (1, 2, 3, 4) * 2,
    )
    assert rows == []
    assert soon.into is not None
    assert soon.into.rows == [("SELECT 2",)]


_TWO = [(1, 2), (3, 4)]
