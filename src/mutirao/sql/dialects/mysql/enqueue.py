"""Enqueueing on MySQL and MariaDB: the general rules, and the recognition of their errors."""

from functools import partial

from mutirao.sql.dialects.mysql.borrowed_sessions import abroad
from mutirao.sql.dialects.mysql.enqueue_statements import (
    EXPIRY_STATEMENT,
    GRAPH_STATEMENTS,
    INBOX_STATEMENTS,
)
from mutirao.sql.dialects.mysql.words import WORDS
from mutirao.sql.drivers.failures import beneath
from mutirao.sql.enqueue.intake import DialectIntake
from mutirao.sql.rules.enqueue import atomically, enqueue

_NO_SUCH_TABLE = 1146


def lacks_tables(error: Exception) -> bool:
    """Return whether an error means that our tables are missing.

    Args:
        error: of a driver, of Django or of SQLAlchemy.
    """
    number, text = (*beneath(error).args, None, "")[:2]
    return number == _NO_SUCH_TABLE and "mutirao_" in text


INTAKE = DialectIntake(
    database="MySQL or MariaDB",
    steps=partial(enqueue, WORDS),
    lacks_tables=lacks_tables,
    atomically=partial(atomically, WORDS),
    graph_statements=GRAPH_STATEMENTS,
    inbox=INBOX_STATEMENTS,
    expiry=EXPIRY_STATEMENT,
    abroad=abroad,
)
