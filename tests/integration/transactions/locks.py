"""Which rows another transaction has locked, kind by kind, in the order of decision 36."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from tests.integration.transactions.kit import Others

PAGE = Path(__file__).parents[3] / "docs" / "adr" / "0036-one-order-of-locks.md"
ADVISORY = "advisory locks"
# By what the rows of a kind are in order.
COLUMNS = {
    "mutirao_schedule": "name",
    "mutirao_key": "scope, task, queue, key",
    "mutirao_supersede_last": "scope, task, queue, key",
    "mutirao_graph": "id",
    "mutirao_worker": "id",
    "mutirao_live": "id",
    "mutirao_counter": "id",
    "mutirao_rolled": "one",
}

Row = tuple[Any, ...]


def order_of_the_page() -> dict[str, int]:
    """Return the kinds that the decision lists, with their places in its list."""
    items = re.findall(r"^(\d+)\. ([^(\n]*)(\([^)]*\))?", PAGE.read_text(), re.MULTILINE)
    places: dict[str, int] = {}
    for number, what, named in items:
        kinds = [ADVISORY] if what.startswith(ADVISORY) else re.findall(r"`(\w+)`", named)
        places |= dict.fromkeys(kinds, int(number))
    return places


PLACES = order_of_the_page()


class Holder:
    """A transaction that holds rows, for as long as others are looked at."""

    def __init__(self, session: psycopg.Connection[Any]) -> None:
        self._session = session
        self.held: dict[str, list[Row]] = {}

    def middle(self, kind: str, among: Collection[Row] = ()) -> None:
        """Hold the middle one of the rows of a kind, or of some of them; or the locks."""
        if kind == ADVISORY:
            for what in ("limits", "redrive"):
                self._session.execute(
                    "SELECT pg_advisory_xact_lock(hashtext('mutirao ' || %s))", [what]
                )
            return
        there = sorted(among) or rows_of(self._session, kind)
        assert there, f"there is no row of {kind} to be held"
        middle = there[len(there) // 2]
        which = " AND ".join(f"{column} = %s" for column in COLUMNS[kind].split(", "))
        self._session.execute(f"SELECT FROM {kind} WHERE {which} FOR UPDATE".encode(), middle)
        self.held[kind] = [middle]

    def all(self, kind: str) -> None:
        """Hold all rows of a kind."""
        self.held[kind] = rows_of(self._session, kind, "FOR UPDATE")

    def let_go(self) -> None:
        """Roll back."""
        self._session.rollback()

    def others(self) -> dict[str, list[Row]]:
        """Return the rows that others have locked, by kind."""
        return {
            kind: locked
            for kind in COLUMNS
            if (locked := self._locked(kind, self.held.get(kind, [])))
        }

    def _locked(self, kind: str, own: list[Row]) -> list[Row]:
        there = rows_of(self._session, kind)
        # Looked at, and given back at once.
        self._session.execute("SAVEPOINT look")
        free = rows_of(self._session, kind, "FOR UPDATE SKIP LOCKED")
        self._session.execute("ROLLBACK TO look")
        return [row for row in there if row not in free and row not in own]


def rows_of(session: psycopg.Connection[Any], kind: str, locking: str = "") -> list[Row]:
    """Return what rows of a kind are known by, in their order."""
    columns = COLUMNS[kind]
    select = f"SELECT {columns} FROM {kind} ORDER BY {columns} {locking}"  # noqa: S608 (ours)
    return session.execute(select.encode()).fetchall()


@contextmanager
def holding(others: Others) -> Iterator[Holder]:
    """Open a transaction that may hold rows; it is rolled back."""
    with others.session() as session:
        yield Holder(session)
