"""The check of `conn=`: None is a missing connection, not an argument that was left out."""

from enum import Enum
from typing import Final

from mutirao.errors import UnsupportedConnection


class _NotGiven(Enum):
    NOT_GIVEN = "not given"

    def __repr__(self) -> str:
        return "<not given>"


NOT_GIVEN: Final = _NotGiven.NOT_GIVEN


def given(conn: object) -> object | None:
    """Return the connection that a call was given, or None if `conn=` was left out.

    Raises:
        UnsupportedConnection: `conn=None` was given. The job would be written in a transaction of
            its own, although the caller believes it to be in theirs.
    """
    if conn is NOT_GIVEN:
        return None
    if conn is None:
        raise UnsupportedConnection(
            "conn= is None; give the connection or session whose transaction the job joins, or"
            " leave conn= out to enqueue in a transaction of its own. (In Django, give"
            " connections[alias] itself: its .connection is None before the first query.)"
        )
    return conn
