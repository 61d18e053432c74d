"""The end of a transaction in one round trip: what the server answers with is read to its end."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, cast

import pytest
from psycopg import OperationalError
from psycopg.pq.abc import PGconn

from mutirao.sql.drivers import ending
from mutirao.sql.drivers.failures import judge


def test_an_answer_that_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Is an error for which the connection is replaced, and not waited for without an end."""
    asked: list[object] = []

    def fetch_nothing(pgconn: object) -> Generator[Any, Any, list[Any]]:
        asked.append(pgconn)
        assert len(asked) < 3, "it goes on asking"
        yield from ()
        return []

    monkeypatch.setattr(ending, "fetch_many", fetch_nothing)
    with pytest.raises(OperationalError, match="cut off") as raised:
        next(ending.until_sync(cast(PGconn, object())))
    failure = judge(raised.value)
    assert failure is not None
    assert failure.reconnect
