"""The attempt rows of SQLite: what ended, and what was lost with its worker."""

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from mutirao.outcome import Settlement
from mutirao.sql.dialects.base import by_id
from mutirao.sql.instant import SECOND
from mutirao.states import OutcomeKind

HELD = """
SELECT id, run, attempt, worker, claimed_at, cancel,
    EXISTS (SELECT 1 FROM mutirao_counter) AS counted
FROM mutirao_live
WHERE id IN (SELECT value FROM json_each(?)) AND claimed_at IS NOT NULL
"""
_TELL = """
INSERT INTO mutirao_attempt
    (job, run, attempt, worker, outcome, started_at, finished_at, error_type, error)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_LOSE = """
UPDATE mutirao_live SET worker = NULL, claimed_at = NULL, run = run % 2147483647 + 1,
    lost = lost + 1
WHERE id = ?
"""


def tell(conn: Connection, settlements: Sequence[Settlement], moment: int) -> dict[int, Any]:
    """Append the attempt rows of the settlements that are not stale; return those jobs' rows."""
    ids = json.dumps([s.id for s in settlements])
    found = {row.id: row for row in conn.exec_driver_sql(HELD, (ids,))}
    current = {s.id: s for s in by_id(settlements) if s.id in found and found[s.id].run == s.run}
    if current:
        rows = [_attempt_row(s, found[id], moment) for id, s in current.items()]
        conn.exec_driver_sql(_TELL, rows)
    return {id: found[id] for id in current}


def lose(conn: Connection, held: Sequence[Any], moment: int) -> None:
    """Write down that these runs were lost, and let the jobs wait for the next."""
    conn.exec_driver_sql(_TELL, [_lost_row(row, moment) for row in held])
    conn.exec_driver_sql(_LOSE, [(row.id,) for row in held])


def _attempt_row(s: Settlement, row: Any, moment: int) -> tuple[Any, ...]:
    started = moment - round(s.started_ago * SECOND)
    finished = moment - round(s.finished_ago * SECOND)
    outcome = s.outcome
    return (
        *(s.id, s.run, row.attempt, row.worker, str(outcome.kind)),
        *(started, finished, outcome.error_type, outcome.error),
    )


def _lost_row(row: Any, moment: int) -> tuple[Any, ...]:
    return (
        *(row.id, row.run, row.attempt, row.worker, str(OutcomeKind.LOST)),
        *(row.claimed_at, moment, "WorkerLost", f"the heartbeat of worker {row.worker} stopped"),
    )
