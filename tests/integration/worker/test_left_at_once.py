"""What psycopg logs where a loop of a worker is cancelled while its query is cut."""

from __future__ import annotations

import asyncio
import logging

import pytest

from mutirao.sql.drivers import psycopg as _  # noqa: F401 (it hears what psycopg logs)

# As newer versions of psycopg say it; 3.3.6 says nothing.
SAID = "query cancellation interrupted (%s): closing connection"


@pytest.mark.parametrize(("name", "expected"), [("mutirao-producer", 0), ("another", 1)])
async def test_a_query_that_is_cut_and_cancelled(
    name: str, expected: int, caplog: pytest.LogCaptureFixture
) -> None:
    """It is as it should be: of a worker psycopg tells nobody, of others what it always does."""
    await asyncio.create_task(_cut(), name=name)
    assert (
        sum("cancellation interrupted" in each.getMessage() for each in caplog.records) == expected
    )


async def _cut() -> None:
    logging.getLogger("psycopg").warning(SAID, "CancelledError()")
