"""The columns of a new job: those of `mutirao_job` that `NewJob` fills.

The table is the only list of them. A column with the name of a field of `NewJob` is written by
every driver, loaded by COPY, copied by a redrive and kept for a compensating job.
"""

from operator import itemgetter
from typing import Any

import msgspec

from mutirao.model.jobs.job import NewJob
from mutirao.sql.drivers.steps import Row
from mutirao.sql.schema.tables import job, json_columns

# Each statement says for itself when a job is due, and what a version means.
_OTHERS = ("id", "run_at", "enqueued_at", "version")

_JSON = tuple(name for name in json_columns(job) if name != "args")  # arguments are JSON already
_PLAIN = tuple(name for name in job.c.keys() if name not in (*_OTHERS, *_JSON))  # noqa: SIM118

# The columns of a job's row, without its times, in the order of `facts`.
FACTS = (*_PLAIN, *_JSON)

_plain, _labels = itemgetter(*_PLAIN), itemgetter(*_JSON)


def facts(job: NewJob) -> Row:
    """Return the values of `FACTS` for a job: None, text and numbers, which every driver binds."""
    asked = job.__dict__
    return (*_plain(asked), *[as_json(value) if value else None for value in _labels(asked)])


def as_json(value: Any) -> str:
    """Return a mapping or a sequence as JSON text."""
    known = value if isinstance(value, (dict, tuple, list)) else dict(value)
    return msgspec.json.encode(known).decode()
