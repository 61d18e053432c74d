"""The words of MariaDB. Rows are locked before they are looked at.

Transactions are in READ COMMITTED, so each statement sees what was committed before it. A caller's
has to be, too, where the rules read what others wrote.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from itertools import chain

from mutirao.errors import UnsupportedConnection
from mutirao.sql.dialects.mysql.moments import NOW, in_utc
from mutirao.sql.drivers.steps import Asking, Bracket, Execute, Row
from mutirao.sql.rules.words import Condition, Words
from mutirao.sql.schema.instant import from_micros, to_micros

# Of jobs in a statement: servers accept 16 MB by default.
MAX_ROWS_PER_STATEMENT, MAX_CHARACTERS_PER_STATEMENT = 500, 1 << 18

_LEVEL = "SELECT @@tx_isolation"  # `transaction_isolation` is its name only since 11.1
_LOCK = "SELECT name FROM mutirao_lock WHERE name = "
# Whoever writes an attempt that has ended long ago shares this lock until it commits.
_NOBODY_LATE = f"{_LOCK}'hours' FOR UPDATE SKIP LOCKED"
# Waits for those that wrote one in time, and have not committed yet.
_ALL_COMMITTED = """
SELECT count(*) FROM mutirao_attempt FORCE INDEX (mutirao_attempt_outcome)
WHERE outcome >= '' AND finished_at >= ? AND finished_at < ? LOCK IN SHARE MODE
"""

_DROP = """
DELETE l FROM json_table(?, '$[*]' COLUMNS (id bigint PATH '$')) ended
STRAIGHT_JOIN mutirao_live l FORCE INDEX (PRIMARY) ON l.id = ended.id
"""


class MysqlWords(Words):
    """MariaDB 10.6 and later."""

    locks = True
    hold = " FOR UPDATE"
    hold_free = " FOR UPDATE SKIP LOCKED"
    quote = "`"
    by_lane = "FORCE INDEX (mutirao_live_waiting)"  # a sort would lock all that it sorts
    forever = 1e300  # there is no infinity
    transaction = Bracket("START TRANSACTION", "COMMIT", ("ROLLBACK",))

    def moment(self, now: datetime | None) -> Asking[int]:
        """Return `now`, or what time it is on the server."""
        if now is not None:
            return to_micros(now)
        ((moment,),) = yield Execute(f"SELECT {NOW}")
        return int(moment)

    def shown(self, moment: int) -> datetime:
        """Return it without a zone."""
        return in_utc(from_micros(moment))

    def among(self, column: str, values: Collection[int] | Collection[str]) -> Condition:
        """List them: the driver writes values into the statement, so any number may be there."""
        listed = ", ".join("?" for _ in values) or "NULL"
        return Condition(f"{column} IN ({listed})", tuple(values))

    def since(self, run_at: int, id: int) -> Condition:
        """Compare one column after the other: a row of both is no range for the planner."""
        return Condition("run_at >= ? AND (run_at > ? OR id >= ?)", (run_at, run_at, id))

    def by_index(self, name: str) -> str:
        """Return what stands after a table that is to be read by an index."""
        return f"FORCE INDEX ({name})"

    def on_conflict(self, key: Sequence[str], changed: Sequence[str]) -> str:
        """Return what ends an INSERT that changes these columns of a row whose key is there."""
        new = ", ".join(f"`{column}` = VALUES(`{column}`)" for column in changed or key[:1])
        return f"ON DUPLICATE KEY UPDATE {new}"

    def write_job(self, columns: Sequence[str], row: Row) -> Asking[int]:
        """Write a row of `mutirao_job` and return its id."""
        ((id,),) = yield Execute(f"{self.insert('mutirao_job', columns)} RETURNING id", row)
        return int(id)

    def write_jobs(self, columns: Sequence[str], rows: Sequence[Row]) -> Asking[list[int]]:
        """Write many in a statement, which returns their ids in their order."""
        marks = f"({', '.join('?' for _ in columns)})"
        first = self.insert("mutirao_job", columns)
        args, ids = columns.index("args"), list[int]()
        for some in _portions(rows, args):
            sql = f"{first}{f', {marks}' * (len(some) - 1)} RETURNING id"
            ids += [id for (id,) in (yield Execute(sql, (*chain.from_iterable(some),)))]
        return ids

    def drop_live(self, jobs: Collection[int], *, waiting: bool = False) -> Execute:
        """Go from each id to its row: a DELETE reads a small table whole, and waits for others."""
        sql = _DROP + (" WHERE l.worker IS NULL" if waiting else "")
        return Execute(sql, (json.dumps([*map(int, jobs)]),), answers=False)

    def require_current(self) -> Asking[None]:
        """Refuse a session that is not in READ COMMITTED: there, reads show an old snapshot."""
        ((level,),) = yield Execute(_LEVEL)
        if level != "READ-COMMITTED":
            raise UnsupportedConnection(
                f"conn= was given a connection whose transactions are in {level.replace('-', ' ')},"
                " where they do not see who has a key now. Jobs with a unique key need READ"
                " COMMITTED: say SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED before the"
                " transaction begins (isolation_level of SQLAlchemy's engine), or leave conn= out."
            )

    def keep_limits(self) -> Asking[None]:
        """Share the lock that whoever changes limits has alone."""
        yield Execute(f"{_LOCK}'limits' LOCK IN SHARE MODE")

    def closed(self, until: int, latest: int) -> Asking[int]:
        """Wait for those that are about to commit, if nobody writes what has ended long ago."""
        if not (yield Execute(_NOBODY_LATE)):
            return until
        yield Execute(_ALL_COMMITTED, (until, latest))
        return latest


def _portions(rows: Sequence[Row], args: int) -> Iterator[Sequence[Row]]:
    """Yield the rows, not too many of them at once, nor too long arguments."""
    first, characters = 0, 0
    for n, row in enumerate(rows):
        characters += len(row[args])
        if n > first and (
            n - first >= MAX_ROWS_PER_STATEMENT or characters > MAX_CHARACTERS_PER_STATEMENT
        ):
            yield rows[first:n]
            first, characters = n, len(row[args])
    if rows[first:]:
        yield rows[first:]


WORDS = MysqlWords()
