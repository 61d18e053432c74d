"""The request of a claim on PostgreSQL: from some lanes, and repeated if limits ask for it."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from mutirao.model.jobs.job import Claim, Lane
from mutirao.sql.drivers.steps import Execute, Rows

_ID = Claim._fields.index("id")


class ClaimRequest(NamedTuple):
    """What a claim asks for; `sql` is its statement."""

    sql: str
    worker: int
    lanes: Sequence[Lane]
    limit: int
    without: list[str] | None
    now: datetime | None

    def statement(self) -> Execute:
        """Return the statement with its values."""
        values = (self.worker, *map(as_array, self.columns()), self.limit, self.without, self.now)
        return Execute(self.sql, values)

    def columns(self) -> Iterator[list[Any]]:
        """Return the lanes as the statement takes them: a list for each of their facts."""
        return map(list, zip(*self.lanes, strict=True))


def as_array(values: Iterable[object]) -> str:
    """Return values, of which there are some, as the text of an SQL array; each is quoted.

    A driver that takes lists looks at each value first, which is longer (psycopg: a tenth of what
    an idle worker does between a wake-up and its claim).
    """
    quoted = [str(value).replace("\\", r"\\").replace('"', r"\"") for value in values]
    return '{"' + '","'.join(quoted) + '"}'


def asks_again(rows: Rows) -> bool:
    """Return whether the last row of an answer is no job, but says that limits left some out."""
    return bool(rows) and rows[-1][_ID] == 0
