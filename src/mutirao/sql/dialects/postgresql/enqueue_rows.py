"""Rows of jobs as PostgreSQL takes them: as parameters of a statement, and as bytes of COPY.

Parameters are simple types that the statements convert, so codecs that a program has set on its
connection do not matter.

Jobs with the same options differ in arguments only: the rest of their rows is made once, and
columns that none of them fills are not sent. That halves the cost of a row for its sender. Text is
UTF-8.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from struct import Struct
from typing import Any

from sqlalchemy import BigInteger, Double, Integer, SmallInteger, Text

from mutirao.model.jobs.job import NewJob
from mutirao.model.limits.fairness import fairness_value
from mutirao.model.limits.limit_values import Whose
from mutirao.sql.drivers.steps import Load
from mutirao.sql.enqueue.job_columns import FACTS, facts
from mutirao.sql.schema.tables import Json, job
from mutirao.sql.schema.types import to_micros

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


Alike = dict[int, NewJob]  # one job of each kind, by the identity of its checked options
Due = dict[int, datetime]  # when each kind is due

_OTHERS = [n for n, name in enumerate(FACTS) if name != "args"]
_NULL = b"\xff\xff\xff\xff"
_EPOCH = 946_684_800_000_000  # 2000-01-01 UTC, where PostgreSQL begins to count
# How a row begins: the number of its fields, and the first of them, an id, after its length.
_begin = Struct(">hiq").pack
_micros = number("q")


def job_rows(
    ids: Sequence[int], jobs: Sequence[NewJob], alike: Alike, due: Due, enqueued: datetime
) -> Load:
    """Return the rows of `mutirao_job`."""
    asked = {kind: facts(job) for kind, job in alike.items()}
    filled = [n for n in _OTHERS if any(row[n] is not None for row in asked.values())]
    since = _moment(enqueued)
    rest = {
        kind: _moment(due[kind]) + since + b"".join(_fact(FACTS[n], row[n]) for n in filled)
        for kind, row in asked.items()
    }
    columns = ("id", "args", "run_at", "enqueued_at", *(FACTS[n] for n in filled))
    fields, rows = len(columns), zip(ids, jobs, strict=True)
    return Load(
        "mutirao_job",
        columns,
        (_begin(fields, 8, new) + text(job.args) + rest[id(job.checked)] for new, job in rows),
    )


def live_rows(ids: Sequence[int], jobs: Sequence[NewJob], alike: Alike, due: Due) -> Load:
    """Return the rows of `mutirao_live`."""
    rest = {
        kind: _moment(due[kind]) + _fact("queue", job.lane) + _fact("priority", job.priority)
        for kind, job in alike.items()
    }
    rows = zip(ids, jobs, strict=True)
    if any(job.fair_by is not None for job in alike.values()):
        return Load(
            "mutirao_live",
            ("id", "run_at", "queue", "priority", "fairness"),
            (
                _begin(5, 8, new) + rest[id(job.checked)] + text(_fairness_value(job))
                for new, job in rows
            ),
        )
    return Load(
        "mutirao_live",
        ("id", "run_at", "queue", "priority"),
        (_begin(4, 8, new) + rest[id(job.checked)] for new, job in rows),
    )


def _fairness_value(job: NewJob) -> str:
    if job.fair_by is None:
        return ""
    return fairness_value(job.args, job.fair_by, Whose(job.tenant, job.group))


def _moment(moment: datetime) -> bytes:
    return _micros(to_micros(moment) - _EPOCH)


def _fact(name: str, value: Any) -> bytes:
    return _NULL if value is None else PACKED[name](value)
