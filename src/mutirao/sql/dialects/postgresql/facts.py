"""How the facts of a job travel to PostgreSQL: by the types of their columns.

Parameters are simple types that the statements convert, so that codecs which a program has set on
its connection do not matter.
"""

from collections.abc import Callable
from struct import Struct
from typing import Any

from sqlalchemy import BigInteger, Double, Integer, SmallInteger, Text

from mutirao.sql.enqueue.job_columns import FACTS
from mutirao.sql.schema.tables import Json, job

length = Struct(">i").pack


def number(code: str) -> Callable[[Any], bytes]:
    """Return the conversion of numbers into fields of COPY, by their letter in `struct`."""
    pack = Struct(f">i{code}")
    return lambda value: pack.pack(pack.size - 4, value)


def text(value: str) -> bytes:
    """Return a text as a field of COPY."""
    encoded = value.encode()
    return length(len(encoded)) + encoded


# By the type of a column: the type of a parameter (with its conversion), and the field of COPY.
_TRAVEL: dict[type, tuple[str, Callable[[Any], bytes]]] = {
    Text: ("text", text),
    type(Json): ("text::json", text),
    SmallInteger: ("integer", number("h")),
    Integer: ("integer", number("i")),
    BigInteger: ("bigint", number("q")),
    Double: ("double precision", number("d")),
}
_OF = {name: _TRAVEL[type(job.c[name].type)] for name in FACTS}

PACKED = {name: packed for name, (_, packed) in _OF.items()}

# In the order of `mutirao.sql.enqueue.job_columns`, and when the job is due.
PARAMETERS = {name: kind for name, (kind, _) in _OF.items()} | {
    "run_at": "text::timestamptz",
    "delay": "double precision",
}
