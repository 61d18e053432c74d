"""The SQL of MariaDB and MySQL for the rules. Rows are locked before they are read.

Our transactions are in READ COMMITTED, so each statement sees what was committed before it. A
caller's need not be: there, `rules/keys.py` says how to see it.
"""

import json
from collections.abc import Collection, Sequence
from datetime import datetime
from itertools import chain
from operator import itemgetter

from mutirao.model.jobs.states import OutcomeKind
from mutirao.model.keys.uniqueness import PARKED
from mutirao.sql.dialects.mysql import packets
from mutirao.sql.dialects.mysql.moments import NOW, in_utc
from mutirao.sql.drivers.steps import Autocommits, Bracket, Execute, Query, Row, execute_many
from mutirao.sql.rules.words import TIMES, Condition, Due, Words
from mutirao.sql.schema.types import MICROS_PER_SECOND, from_micros, to_micros

LATE_AFTER = 45 * MICROS_PER_SECOND  # of an attempt that may come late; that of `hours` is longer

# Only MariaDB reads the text in /*M! … */. Where an INSERT returns nothing, its numbers
# follow each other: InnoDB reserves those of a statement whose rows are counted, all at once.
_RETURNING = " /*M! RETURNING id */"
_LAST = "SELECT last_insert_id()"
_FIRST = f"{_LAST}, @@auto_increment_increment"
_LOCK = "SELECT name FROM mutirao_lock WHERE name = "
# A transaction that writes an attempt which ended long ago shares this lock until it commits.
_LATE = f"{_LOCK}'hours' LOCK IN SHARE MODE"
_NOBODY_LATE = f"{_LOCK}'hours' FOR UPDATE SKIP LOCKED"
# Waits for those that wrote one in time, and have not committed yet. Each outcome by its name: all
# of an index of 5,000,000 attempts took five seconds, each minute.
_OUTCOMES = ", ".join(f"'{each}'" for each in OutcomeKind)
_ALL_COMMITTED = f"""
SELECT count(*) FROM mutirao_attempt FORCE INDEX (mutirao_attempt_outcome)
WHERE outcome IN ({_OUTCOMES}) AND finished_at >= ? AND finished_at < ? LOCK IN SHARE MODE
"""  # noqa: S608 (constants)

_UNTIL = "SELECT until FROM mutirao_rolled"

# Half a character (\ud83d) is let in, and is no JSON: MariaDB finds nothing there, MySQL fails.
READABLE = "if(json_valid({0}), {0}, NULL)"
_BY = f"json_extract({READABLE.format('j.args')}, concat('$.\"', f.`by`, '\"'))"
# Makes jobs live. They are new, or locked.
_PLACE = f"""
INSERT INTO mutirao_live (id, queue, priority, run_at, fairness)
SELECT j.id, if(f.task IS NULL, j.queue, concat(char(31 USING utf8mb4), j.queue)), j.priority,
       j.run_at, if(f.task IS NULL, '', concat('=', left(coalesce(
           if(json_type({_BY}) = 'NULL', NULL, json_unquote({_BY})),
           CASE f.`by` WHEN 'tenant' THEN j.tenant WHEN 'group' THEN j.`group` END, ''), 200)))
FROM mutirao_job j FORCE INDEX (PRIMARY)
LEFT JOIN mutirao_fairness f FORCE INDEX (PRIMARY) ON f.task = j.task
WHERE """  # noqa: S608 (constants)
_PLACE_LAST = f"{_PLACE}j.id = last_insert_id()"
_PLACE_NEW = f"{_PLACE}j.id >= last_insert_id() AND left(j.metadata, ?) = ? AND j.unplaced IS NULL"
_ANY = "SELECT 1 FROM mutirao_job FORCE INDEX (mutirao_job_unplaced) WHERE unplaced = true"
_UNPLACED = f"SELECT {NOW}, EXISTS ({_ANY})"
_INSERTED = f"""
{_ANY.replace("1", "id", 1)}
ORDER BY id LIMIT {packets.MAX_ROWS} FOR UPDATE SKIP LOCKED
"""
# From each id to its row: a long list is looked for in the whole table, rows that others have too.
_IDS = "json_table(?, '$[*]' COLUMNS (id bigint PATH '$')) ids"
_PLACED = f"""
UPDATE {_IDS} STRAIGHT_JOIN mutirao_job j FORCE INDEX (PRIMARY) ON j.id = ids.id
SET j.unplaced = NULL
"""  # noqa: S608 (constants)
# Those of them whose task has a supersede rule: parked until a program has asked it.
_NOTE_UNJUDGED = """
INSERT INTO mutirao_unjudged (job, scope, task, queue, `key`)
SELECT j.id, coalesce(t.scope, ''), if(t.scope IS NULL, j.task, ''),
       if(t.scope IS NULL, j.queue, ''), j.`key`
FROM mutirao_job j FORCE INDEX (PRIMARY) JOIN mutirao_supersede_task t ON t.task = j.task
WHERE j.`key` IS NOT NULL AND j.redrive_of IS NULL AND j.on_dead_of IS NULL AND """
_PARK_UNJUDGED = f"""
UPDATE {_IDS} STRAIGHT_JOIN mutirao_unjudged u FORCE INDEX (PRIMARY) ON u.job = ids.id
STRAIGHT_JOIN mutirao_live l FORCE INDEX (PRIMARY) ON l.id = u.job SET l.run_at = ?
"""  # noqa: S608 (constants)
_ANY_RULE = "SELECT 1 FROM mutirao_supersede_task LIMIT 1"

# Deletes rows of a table by a column and its index. With `WHERE … IN` MariaDB reads a small table
# whole, whatever index is given, and waits for rows that others have.
DROP = """
DELETE l FROM json_table(?, '$[*]' COLUMNS (id bigint PATH '$')) ended
STRAIGHT_JOIN {0} l FORCE INDEX ({2}) ON l.{1} = ended.id
"""
_DROP_LIVE = DROP.format("mutirao_live", "id", "PRIMARY")
# Pairs of numbers, for what is done to a row each: the driver would send a statement for each.
_PAIRS = "json_table(?, '$[*]' COLUMNS (a bigint PATH '$[0]', b bigint PATH '$[1]')) pairs"
_MOVE = f"""
UPDATE {_PAIRS} STRAIGHT_JOIN mutirao_live l FORCE INDEX (PRIMARY) ON l.id = pairs.b
SET l.run_at = pairs.a WHERE l.worker IS NULL
"""  # noqa: S608 (constants)
_FREE = f"""
DELETE s FROM {_PAIRS}
STRAIGHT_JOIN mutirao_slot s FORCE INDEX (PRIMARY) ON s.job = pairs.a AND s.counter = pairs.b
"""
# Values of the rows that are put where there is none.
_ZEROS = {"mutirao_supersede_wait": ("after",)}


class MysqlWords(Words):
    """MariaDB 10.6 and later, MySQL 8.0.17 and later."""

    locks = True
    hold = " FOR UPDATE"
    hold_free = " FOR UPDATE SKIP LOCKED"
    hold_now = " FOR UPDATE NOWAIT"
    by_key = "FORCE INDEX (PRIMARY)"  # else a small table is read whole, and waited for
    quote = "`"
    by_lane = "FORCE INDEX (mutirao_live_waiting)"  # a sort would lock all that it sorts
    forever = 1e300  # there is no infinity
    turn, has_turn = "turn", "turn <> ''"
    clock = NOW
    placed = "j.unplaced IS NULL"
    # In whatever a session has for `completion_type` and the like.
    transaction = Bracket(
        "START TRANSACTION READ WRITE",
        "COMMIT AND NO CHAIN NO RELEASE",
        ("ROLLBACK AND NO CHAIN NO RELEASE",),
    )

    def moment(self, now: datetime | None) -> Query[int]:
        """Return `now`, or the time of the server's clock."""
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
        """Return the SQL after a table that is to be read by an index."""
        return f"FORCE INDEX ({name})"

    def on_conflict(self, key: Sequence[str], changed: Sequence[str]) -> str:
        """Return what ends an INSERT that changes these columns of a row whose key is there."""
        new = ", ".join(f"`{column}` = VALUES(`{column}`)" for column in changed or key[:1])
        return f"ON DUPLICATE KEY UPDATE {new}"

    def write_job(self, columns: Sequence[str], row: Row) -> Query[int]:
        """Write a row of `mutirao_job`, and make the job live; return its id."""
        [id] = yield from self.write_jobs(columns, [row])
        return id

    def write_alone(self, columns: Sequence[str], row: Row, due: Due) -> Query[int]:
        """Use the clock's expression instead of a query, and one round trip where possible.

        `last_insert_id()` is the id: nothing else comes between the statements.
        """
        columns, (row,) = filled(columns, [row])
        yield from _fitting(columns, [row])
        at, when = ("?", (due.at,)) if due.at is not None else (f"{NOW} + ?", (due.after,))
        first = self._insertion((*TIMES, *columns))
        marks = f"({at}, {NOW}{', ?' * len(row)}, NULL)"
        write = Execute(f"{first}{marks}", (*when, *row), answers=False)
        place = Execute(_PLACE_LAST, answers=False)
        [(autocommits, *joins)] = yield Autocommits()
        if joins:
            [(id,)] = yield from self.transaction.joined(write, place, Execute(_LAST))
            return int(id)
        steps = self._write_separately(write, place)
        [id] = yield from self.transaction.around(steps) if autocommits else steps
        return id

    def _write_separately(self, write: Execute, place: Execute) -> Query[list[int]]:
        found = yield write._replace(sql=f"{write.sql}{_RETURNING}", answers=True)
        yield place
        return [row[0] for row in found] or (yield from _following(1))

    def _insertion(self, columns: Sequence[str]) -> str:
        """Return the INSERT of jobs that are made live at once, without its rows."""
        one = self.insert("mutirao_job", (*columns, "unplaced"))
        return one[: one.rindex("(")]

    def write_jobs(self, columns: Sequence[str], rows: Sequence[Row]) -> Query[list[int]]:
        """Write many in a statement, and make them live in another; return their ids in order."""
        columns, rows = filled(columns, rows)
        first, marks = self._insertion(columns), f"({', '.join('?' for _ in columns)}, NULL)"
        first += marks
        most, sizes = yield from _fitting(columns, rows)
        ids = list[int]()
        for some in packets.portions(rows, sizes, most):
            sql = f"{first}{f', {marks}' * (len(some) - 1)}{_RETURNING}"
            found = yield Execute(sql, (*chain.from_iterable(some),))
            new = [row[0] for row in found] or (yield from _following(len(some)))
            yield from self.make_live(new)
            ids += new
        return ids

    def make_live(self, jobs: Sequence[int]) -> Query[None]:
        """Make jobs live that are new, or locked."""
        which, values = self.among("j.id", jobs)
        yield Execute(_PLACE + which, values, answers=False)

    def make_new_live(self, beginning: str) -> Query[None]:
        """Make the jobs live that the last INSERT wrote.

        Others' numbers may stand between theirs, which are known by how their metadata begins.
        """
        yield Execute(_PLACE_NEW, (len(beginning), beginning), answers=False)

    def place_inserted(self) -> Query[datetime]:
        """Make live what other programs have inserted; return what time it is on the server.

        In no transaction.
        """
        [(moment, found)] = yield Execute(_UNPLACED)
        while found:
            found = len((yield from self.transaction.around(self.place()))) == packets.MAX_ROWS
        return from_micros(moment)

    def place(self) -> Query[list[int]]:
        """Make live some of what other programs have inserted, and return those jobs."""
        jobs = [id for (id,) in (yield Execute(_INSERTED))]
        if jobs:
            yield from self.make_live(jobs)
            ids = json.dumps(jobs)
            if (yield Execute(_ANY_RULE)):
                which, values = self.among("j.id", jobs)
                yield Execute(_NOTE_UNJUDGED + which, values, answers=False)
                yield Execute(_PARK_UNJUDGED, (ids, to_micros(PARKED)), answers=False)
            yield Execute(_PLACED, (ids,), answers=False)
        return jobs

    def late_before(self, oldest: int, moment: int) -> Query[int | None]:
        """Keep others from adding up until the commit, where one of them has ended long ago."""
        if oldest >= moment - LATE_AFTER:
            return None
        yield Execute(_LATE)
        rows = yield Execute(_UNTIL)
        return rows[0][0] if rows else None

    def drop_live(self, jobs: Collection[int], *, waiting: bool = False) -> Execute:
        """Go from each id to its row: a DELETE reads a small table whole, and waits for others."""
        sql = _DROP_LIVE + (" WHERE l.worker IS NULL" if waiting else "")
        return Execute(sql, (json.dumps([*map(int, jobs)]),), answers=False)

    def drop(self, table: str, jobs: Collection[int]) -> Query[None]:
        """Go from each job to its row, as `drop_live` does."""
        sql = DROP.format(table, "job", "PRIMARY")
        yield Execute(sql, (json.dumps([*map(int, jobs)]),), answers=False)

    def move(self, moments: Sequence[tuple[int, int]]) -> Execute:
        """Go from each job to its row, all in a statement."""
        return Execute(_MOVE, (_as_pairs(moments),), answers=False)

    def free(self, slots: Sequence[tuple[int, int]]) -> Execute:
        """Go from each slot to its row, all in a statement."""
        return Execute(_FREE, (_as_pairs(slots),), answers=False)

    def fill(self, table: str, jobs: Collection[int]) -> Query[None]:
        """Insert: that locks a row that is there, and leaves no gap locked where none is."""
        zeros = _ZEROS[table]
        sql = self.upsert(table, ("job", *zeros), ("job",))
        zero = (0,) * len(zeros)
        yield execute_many(sql, [(job, *zero) for job in sorted(map(int, jobs))])

    def keep_limits(self) -> Query[None]:
        """Share the lock that a caller that changes limits has alone."""
        yield Execute(f"{_LOCK}'limits' LOCK IN SHARE MODE", answers=False)

    def closed(self, until: int, latest: int) -> Query[int]:
        """Wait for those that are about to commit, if none writes a job that ended long ago."""
        if not (yield Execute(_NOBODY_LATE)):
            return until
        yield Execute(_ALL_COMMITTED, (until, latest))
        return latest


def _as_pairs(pairs: Sequence[tuple[int, int]]) -> str:
    return json.dumps([[int(a), int(b)] for a, b in pairs])


def filled(columns: Sequence[str], rows: Sequence[Row]) -> tuple[Sequence[str], Sequence[Row]]:
    """Return them without the columns that are NULL in all of the rows, as they are by default.

    Whatever a driver writes into a statement costs it half a microsecond, and most are.
    """
    used = (
        n
        for n, each in enumerate(zip(*rows, strict=True))
        if each[0] is not None or each.count(None) < len(each)
    )
    pick = itemgetter(*used)
    return pick(columns), [*map(pick, rows)]


def _fitting(columns: Sequence[str], rows: Sequence[Row]) -> Query[tuple[int, Sequence[int]]]:
    """Return how many bytes a statement may have, and those that each of these rows takes.

    One that never fits is refused.
    """
    sizes = [*map(packets.size, rows)]
    if sum(sizes) <= packets.SAFE_BYTES:
        return packets.MIN_PACKET, sizes
    [(most, *in_digits)] = yield Execute(packets.MAX_PACKET)
    if in_digits:
        sizes = [packets.size(row, in_digits=True) for row in rows]
    packets.refuse_large(sizes, int(most), [row[columns.index("task")] for row in rows])
    return int(most), sizes


def _following(count: int) -> Query[list[int]]:
    """Return the numbers of so many rows that were inserted by the statement before this one."""
    [(first, step)] = yield Execute(_FIRST)
    return [*range(first, first + count * step, step)]


WORDS = MysqlWords()
