"""Orders about jobs say which ones; what says nothing must not mean all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import pytest

from mutirao import Mutirao
from mutirao.errors import ConfigurationError, InvalidFilter
from mutirao.model.jobs.job import JobState, OutcomeKind


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
    lambda app: app.cancel(args={}),
    lambda app: app.cancel(args=[("n", 1)]),  # type: ignore[arg-type]
    lambda app: app.jobs(args={"n": [1]}),
    lambda app: app.jobs(args={"n": object()}),
    lambda app: app.jobs(args={"n": "\0"}),
    lambda app: app.jobs(args={7: 1}),  # type: ignore[dict-item]
    lambda app: app.jobs(states="ready"),
    lambda app: app.jobs(states=["ready", "zombie"]),
    lambda app: app.jobs(states=["ready"], state="ready"),
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


def test_by_arguments(app: Mutirao) -> None:
    """As they were given to the call, whatever types they have there."""

    @app.task
    def bill(
        customer: UUID, day: date, amount: Decimal = Decimal(1), draft: bool = False
    ) -> None: ...

    customer, day = uuid4(), date(2026, 11, 24)
    job = bill.enqueue(customer, day, draft=True)
    bill.enqueue(uuid4(), day)
    assert [each.id for each in app.jobs(args={"customer": customer})] == [job.id]
    assert [each.id for each in app.jobs(task=bill.name, args={"draft": True})] == [job.id]
    assert len(app.jobs(args={"day": day}, states=["ready", "running"])) == 2
    assert app.jobs(args={"day": day, "customer": uuid4()}) == []
    assert app.change(where={"args": {"customer": customer}}, priority=-1) == [job.id]
    assert app.cancel(args={"customer": customer}) == [job.id]


def test_retention(app: Mutirao) -> None:
    """Days without their unit, and outcomes by another name, would delete nothing or too much."""
    for retention in ({"dead": 3}, {OutcomeKind.DEAD: 3}, {"dead": timedelta(days=3)}):
        with pytest.raises(ConfigurationError, match="retention"):
            app.worker(retention=retention)  # type: ignore[arg-type]
