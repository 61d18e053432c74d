"""What the tests of dashboards share: the application that is watched, on a database."""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from types import ModuleType

import pytest
from sqlalchemy import create_engine, make_url

from mutirao.webhooks.keys import new_secret
from tests.support.waiting import until

PROGRAM = "tests.integration.telemetry.programs.watched"
DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql", "sqlite": "sqlite"}


def watched(url: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the program, on a database."""
    monkeypatch.setenv("WATCHED_DATABASE", url)
    monkeypatch.delitem(sys.modules, PROGRAM, raising=False)
    return importlib.import_module(PROGRAM)


def lose_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Prometheus' client not be installed, until the end of the test.

    A package is also an attribute of the one above it: what other tests of this process find there
    has to be what `sys.modules` has.
    """
    package = "mutirao.telemetry.prometheus"
    for name in [each for each in sys.modules if each.startswith(package)]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(importlib.import_module("mutirao.telemetry"), "prometheus", raising=False)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)


def rows(url: str, sql: str) -> list[tuple[object, ...]]:
    """Return the rows of a query, as a BI tool has them."""
    engine = create_engine(make_url(url))
    try:
        with engine.connect() as conn:
            return [tuple(row) for row in conn.exec_driver_sql(sql).all()]
    finally:
        engine.dispose()


def in_sql(url: str) -> Counter[tuple[str, str, str]]:
    """Return how many attempts have ended, by queue, task and outcome."""
    found = rows(
        url,
        "SELECT queue, task, outcome, count(*) FROM mutirao_attempts GROUP BY queue, task, outcome",
    )
    return Counter({(str(q), str(t), str(o)): int(str(n)) for q, t, o, n in found})


async def idle(program: ModuleType) -> None:
    """Wait until nothing is left to do but what waits for the night."""

    async def nothing_left() -> bool:
        counts = await program.app.acounts()
        live = [
            each for each in counts if each.state in ("ready", "running", "scheduled", "blocked")
        ]
        return not any(each.jobs for each in live)

    await until(nothing_left)


async def add_endpoint(program: ModuleType) -> None:
    """Have an endpoint, to which nothing goes."""
    await program.app.endpoints.aput(
        "erp", "https://erp.example/hook", ["never.published"], secret=new_secret()
    )
