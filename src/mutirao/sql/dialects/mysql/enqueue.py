"""Enqueueing on MariaDB: the general rules, and how an error of it looks."""

from functools import partial

from mutirao.sql.dialects.mysql.graphs import GRAPH_STATEMENTS
from mutirao.sql.dialects.mysql.words import WORDS
from mutirao.sql.enqueue.intake import DialectIntake
from mutirao.sql.rules.enqueue import enqueue, together

_NO_SUCH_TABLE = 1146


def lacks_tables(error: Exception) -> bool:
    """Whether `error`, PyMySQL's or SQLAlchemy's, says that Mutirão's tables are missing."""
    number, text = (*getattr(error, "orig", error).args, None, "")[:2]
    return number == _NO_SUCH_TABLE and "mutirao_" in text


INTAKE = DialectIntake(
    database="MariaDB",
    steps=partial(enqueue, WORDS),
    lacks_tables=lacks_tables,
    together=partial(together, WORDS),
    graph_statements=GRAPH_STATEMENTS,
)
