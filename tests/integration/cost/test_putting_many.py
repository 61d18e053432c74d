"""What it costs to put a thousand schedules, subscriptions or endpoints at once, as recorded.

By the application, new and as they are already: in each case one transaction, and as many
statements as for two.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from mutirao import Mutirao
from tests.integration.cost import recorded
from tests.integration.cost.conftest import Metered
from tests.integration.cost.meters import metered
from tests.integration.plans.test_round_trips import WARM

pytestmark = pytest.mark.repeats("asyncpg", decided="tests/integration/cost/test_putting_many.py")

THOUSAND = 1_000
SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDazfgh01FGpY="
Put = Callable[[str, int], Awaitable[object]]


@pytest.fixture
async def app(metered_database: Metered) -> AsyncIterator[Mutirao]:
    """An application on the metered database."""
    app = Mutirao(metered_database.url)
    yield app
    await app.aclose()


def _puts(app: Mutirao) -> dict[str, Put]:
    """Return how a number of each kind is put, their names beginning with some text."""

    @app.task
    def fetch(shop: int) -> None:
        """Fetch."""

    @app.subscriber("order.*")
    def mail(event: dict[str, int]) -> None:
        """Mail."""

    def schedules(name: str, count: int) -> Any:
        return app.schedules.aput_many(
            {"name": f"{name}{n:04}", "job": fetch.job(shop=n), "every": 60} for n in range(count)
        )

    def subscriptions(name: str, count: int) -> Any:
        return app.subscriptions.aput_many(
            {"id": f"{name}{n:04}", "handler": mail, "topic": "order.*", "tenant": str(n)}
            for n in range(count)
        )

    def endpoints(name: str, count: int) -> Any:
        return app.endpoints.aput_many(
            {"id": f"{name}{n:04}", "url": f"https://shop{n}.example/in", "topics": "order.*",
             "secret": SECRET}
            for n in range(count)
        )  # fmt: skip

    return {"schedules": schedules, "subscriptions": subscriptions, "endpoints": endpoints}


async def test_a_thousand_at_once(metered_database: Metered, app: Mutirao) -> None:
    """New ones, and the same again."""
    costs = {}
    for what, put in _puts(app).items():
        for n in range(WARM):
            await put(f"w{n}", 2)
        for how in ("new", "again"):
            with metered(metered_database.meter) as found:
                await put("s", THOUSAND)
            costs[f"{what}, {how}"] = found[0]
    assert costs == recorded.PUT_MANY[metered_database.kind]
