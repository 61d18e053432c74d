"""The metrics of the store from the process of the dashboard, by the token of a program."""

from __future__ import annotations

import httpx2

from mutirao.web.site import Site
from tests.integration.api.conftest import TOKENS, Ask
from tests.integration.telemetry.kit import samples


async def test_who_may_read_all_jobs_may_scrape(site: Site, ask: Ask) -> None:
    """Nobody else, not even of some jobs."""
    transport = httpx2.ASGITransport(app=site)
    async with httpx2.AsyncClient(transport=transport, base_url="http://jobs") as client:
        answers = {
            scope: await client.get("/metrics", headers={"authorization": f"Bearer {token}"})
            for scope, token in TOKENS.items()
        }
        nobody = await client.get("/metrics")
    assert {scope: each.status_code for scope, each in answers.items()} == {
        "read": 200, "act": 200, "admin": 200, "some": 403,
    }  # fmt: skip
    assert nobody.status_code == 401
    told = samples(answers["read"].text)
    assert told["mutirao_jobs", "mail", "ready"] == 0
    assert told["mutirao_schedule_lag_seconds", "night/ly"] == 0
    assert answers["read"].headers["content-type"].startswith("text/plain")
