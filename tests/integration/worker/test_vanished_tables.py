"""A worker whose tables vanish, and one that is left at once."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, text

from mutirao import Mutirao
from mutirao.errors import SchemaMissing, WorkerFailed
from tests.support.waiting import soon


async def test_tables_that_vanish(lite_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Each loop logs an error once, not several times a second, and the worker ends as unfit."""
    app = Mutirao(lite_url)

    @app.task
    async def send() -> None: ...

    engine = create_engine(lite_url)
    worker = app.worker(heartbeat=0.2, expiry=1.0, poll=0.05)
    with pytest.raises(WorkerFailed) as failed:  # noqa: PT012 (the end of the block raises as well)
        async with worker as here:
            with engine.begin() as conn:
                names = conn.execute(
                    text("SELECT type, name FROM sqlite_master WHERE type IN ('table', 'view')"
                         " AND name LIKE 'mutirao%' ORDER BY type DESC")
                ).all()  # fmt: skip
                for kind, name in names:
                    conn.execute(text(f"DROP {kind} {name}"))
            await soon(here.failed)
    engine.dispose()
    assert isinstance(failed.value.__cause__, SchemaMissing)
    # A loop may miss one table after another.
    said = [
        (each.getMessage().partition(";")[0], str(each.exc_info[1]))
        for each in caplog.records
        if each.exc_info
    ]
    assert len(said) == len(set(said)), said
    await app.aclose()
