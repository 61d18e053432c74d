"""Threads whose first calls come together share one engine: no connection is lost with another."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import Engine

from mutirao.sql.connections.engines import Engines


def test_threads_that_come_together(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both make an engine before either is kept, and both get the one that was kept first."""
    engines, together = Engines(database_url), threading.Barrier(2)
    make = engines._create

    def slowly(*args: Any) -> Any:
        together.wait(100)
        return make(*args)

    monkeypatch.setattr(engines, "_create", slowly)

    def first() -> Engine:
        return engines.sync()

    with ThreadPoolExecutor(2) as pool:
        one, other = (future.result() for future in [pool.submit(first), pool.submit(first)])
    assert one is other is engines.sync()
    engines.close_sync()
