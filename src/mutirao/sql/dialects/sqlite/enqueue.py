"""Enqueueing on SQLite: the general rules, and the recognition of its errors."""

from functools import partial

from mutirao.sql.dialects.sqlite.enqueue_statements import (
    EXPIRY_STATEMENT,
    GRAPH_STATEMENTS,
    INBOX_STATEMENTS,
)
from mutirao.sql.dialects.sqlite.words import WORDS
from mutirao.sql.drivers.failures import beneath
from mutirao.sql.enqueue.intake import DialectIntake
from mutirao.sql.rules.enqueue import atomically, enqueue

_NEEDED = ("mutirao_job", "mutirao_inbox", "mutirao_expiry", "sqlite_sequence")


def lacks_tables(error: Exception) -> bool:
    """Return whether `error`, sqlite3's or of a layer above, says that our tables are missing."""
    text = str(beneath(error))
    return text in {f"no such table: {name}" for name in _NEEDED}


INTAKE = DialectIntake(
    database="SQLite",
    steps=partial(enqueue, WORDS),
    lacks_tables=lacks_tables,
    atomically=partial(atomically, WORDS),
    graph_statements=GRAPH_STATEMENTS,
    inbox=INBOX_STATEMENTS,
    expiry=EXPIRY_STATEMENT,
)
