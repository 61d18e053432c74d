"""The SQL of SQLite for the rules. Each transaction has the write lock, so no rows are locked.

The database is in this process, so several small statements cost less than one clever one. Times
come from this process's clock, which is that of every worker on the same file.
"""

import json
from collections.abc import Collection, Sequence
from datetime import UTC, datetime

from mutirao.sql.drivers.steps import Bracket, Execute, Load, Query, Row, command
from mutirao.sql.rules.words import Condition, Words
from mutirao.sql.schema.types import from_micros, iso_text, to_micros

# The row of an AUTOINCREMENT table appears with its first insert.
_ENSURE_SEQUENCE = """INSERT INTO sqlite_sequence (name, seq)
SELECT 'mutirao_job', 0
WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'mutirao_job')"""
_RESERVE = "UPDATE sqlite_sequence SET seq = seq + ? WHERE name = 'mutirao_job' RETURNING seq"


class SqliteWords(Words):
    """SQLite 3.35 and later."""

    parks_unjudged = True  # by the trigger
    transaction = Bracket("BEGIN IMMEDIATE", "COMMIT", ("ROLLBACK",))

    def moment(self, now: datetime | None) -> Query[int]:
        """Return `now`, or the time of this machine's clock."""
        yield from ()
        return to_micros(now or datetime.now(UTC))

    def shown(self, moment: int) -> str:
        """Return it as text."""
        return iso_text(from_micros(moment))

    def among(self, column: str, values: Collection[int] | Collection[str]) -> Condition:
        """Pass one JSON array; the number of parameters is limited."""
        each = f"{column} IN (SELECT value FROM json_each(?))"  # noqa: S608 (our own column)
        return Condition(each, (json.dumps(list(values)),))

    def by_index(self, name: str) -> str:
        """Return the SQL after a table that is to be read by an index."""
        return f"INDEXED BY {name}"

    def on_conflict(self, key: Sequence[str], changed: Sequence[str]) -> str:
        """Return what ends an INSERT that changes these columns of a row whose key is there."""
        if not changed:
            return "ON CONFLICT DO NOTHING"
        names = ", ".join(f'"{column}"' for column in key)
        new = ", ".join(f'"{column}" = excluded."{column}"' for column in changed)
        return f"ON CONFLICT ({names}) DO UPDATE SET {new}"

    def write_job(self, columns: Sequence[str], row: Row) -> Query[int]:
        """Write a row of `mutirao_job` and return its id."""
        ((id,),) = yield Execute(f"{self.insert('mutirao_job', columns)} RETURNING id", row)
        return int(id)

    def write_jobs(self, columns: Sequence[str], rows: Sequence[Row]) -> Query[list[int]]:
        """Reserve ids, and write many rows with them."""
        ((last,),) = yield Execute(_RESERVE, (len(rows),))
        new = range(last - len(rows) + 1, last + 1)
        numbered = [(id, *row) for id, row in zip(new, rows, strict=True)]
        yield Load("mutirao_job", ("id", *columns), numbered)
        return list(new)

    def before_savepoint(self) -> Query[None]:
        """Write something.

        sqlite3 begins its implicit transaction before a statement that writes, but not before a
        SAVEPOINT: that would be the outermost, and its RELEASE a commit.
        """
        yield command(_ENSURE_SEQUENCE)


WORDS = SqliteWords()
