"""Orders about jobs say which ones; what says nothing must not mean all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from mutirao import Mutirao
from mutirao.errors import ConfigurationError, InvalidFilter
from mutirao.model.job import JobState, OutcomeKind


@pytest.fixture
def app(migrated_sqlite_url: str) -> Iterator[Mutirao]:
    """An application with three waiting jobs."""
    app = Mutirao(migrated_sqlite_url)

    @app.task(name="idle")
    def idle() -> None: ...

    app.enqueue_many(idle.job() for _ in range(3))
    yield app
    app.close()


ORDERS: list[Callable[[Mutirao], Any]] = [
    lambda app: app.cancel(),
    lambda app: app.cancel(*[]),
    lambda app: app.cancel(task=None),
    lambda app: app.cancel(limit=2),
    lambda app: app.redrive(),
    lambda app: app.retry(),
    lambda app: app.cancel(state="zombie"),
    lambda app: app.cancel("1"),  # type: ignore[arg-type]
    lambda app: app.cancel([1, 2]),  # type: ignore[arg-type]
    lambda app: app.jobs(state="zombie"),
    lambda app: app.jobs(before=datetime(2026, 1, 1)),  # noqa: DTZ001 (that is the point)
    lambda app: app.jobs(after="2026"),  # type: ignore[arg-type]
    lambda app: app.prune("lost", timedelta(days=1)),  # type: ignore[arg-type]
    lambda app: app.prune(OutcomeKind.DEAD, 5),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("order", ORDERS)
def test_what_is_refused(app: Mutirao, order: Callable[[Mutirao], Any]) -> None:
    """Nothing happens to any job."""
    with pytest.raises(InvalidFilter):
        order(app)
    assert [job.state for job in app.jobs()] == [JobState.READY] * 3


def test_what_is_meant(app: Mutirao) -> None:
    """Ids given one by one or together, no ids at all, and states by name."""
    first, second, third = (job.id for job in app.jobs(state="ready"))
    assert app.cancel(ids=()) == []
    assert app.cancel(first) == [first]
    assert app.cancel(ids=[second]) == [second]
    assert app.cancel(state="ready") == [third]


def test_retention(app: Mutirao) -> None:
    """Days without their unit, and outcomes by another name, would delete nothing or too much."""
    for retention in ({"dead": 3}, {OutcomeKind.DEAD: 3}, {"dead": timedelta(days=3)}):
        with pytest.raises(ConfigurationError, match="retention"):
            app.worker(retention=retention)  # type: ignore[arg-type]
