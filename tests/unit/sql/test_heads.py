"""How many queries the heads of lanes take: an idle worker without notifications waits for them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from mutirao.sql.dialects.mysql.words import WORDS
from mutirao.sql.drivers.steps import Execute, Rows
from mutirao.sql.rules.claim import lanes

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def asked(rows: Rows) -> tuple[list[str], int]:
    """Return the queues that are found, and how many queries that took."""
    steps, queries = lanes(WORDS, None, NOW), 0
    answer: Rows | None = None
    while True:
        try:
            request = next(steps) if answer is None else steps.send(answer)
        except StopIteration as end:
            return [head.lane.queue for head in end.value], queries
        assert isinstance(request, Execute)
        queries += 1
        queue, priority, most, *_ = request.params
        behind = [row for row in rows if (row[0], row[1]) > (queue, priority)]
        answer = behind[:most]


def jobs(queues: str) -> Rows:
    """Return the rows of jobs, each in the queue of one letter."""
    return [(queue, 0, 0, id) for id, queue in enumerate(queues)]


@pytest.mark.parametrize(
    ("queues", "queries"),
    [("", 1), ("a", 1), ("aa", 2), ("ab", 2), ("abc", 2), ("a" * 500, 2), ("a" * 9 + "b", 3)],
)
def test_heads_of_few_lanes(queues: str, queries: int) -> None:
    """What returns less than it may has no more behind it."""
    assert asked(jobs(queues)) == (sorted({*queues}), queries)


def test_heads_of_many_lanes() -> None:
    rows = [(f"q-{n:04}", 0, 0, n) for n in range(2_000)]
    found, queries = asked(rows)
    assert found == [row[0] for row in rows]
    assert queries <= 12
