"""What somebody may not see is not told in another way: by filters, links, reasons or the audit."""

from __future__ import annotations

import pytest

from tests.integration.web.conftest import Browser
from tests.support.dashboard import SECRET

ASKED = ['message:"*refused*"', "arg.order_id:4", "key:x", "-message:a", "state:dead arg.to:a"]


@pytest.mark.parametrize("asked", ASKED)
async def test_no_job_is_found_by_what_is_hidden(browser: Browser, asked: str) -> None:
    """Otherwise whether there are any tells the contents, a character at a time."""
    for path in ("/jobs", "/everything"):
        answer = await browser.client.get(path, params={"q": asked}, headers={"x-role": "blind"})
        assert answer.status_code == 400
        assert "as what jobs carry is not shown to you" in answer.text
    answer = await browser.client.get("/jobs", params={"q": asked}, headers={"x-role": "read"})
    assert answer.status_code == 200


@pytest.mark.parametrize("name", ["password", "user.apiKey", "credentials.name"])
async def test_no_job_is_found_by_a_secret(browser: Browser, name: str) -> None:
    """Not by an administrator either, as to everybody it is blanked."""
    for path in ("/jobs", "/everything"):
        answer = await browser.client.get(path, params={"q": f"arg.{name}:{SECRET}"})
        assert answer.status_code == 400
        assert "whose name says that it is a secret" in answer.text


async def test_an_access_may_have_any_filter(browser: Browser) -> None:
    """The application says it, and it is not shown."""
    assert "send_receipt" in await browser.page("/jobs", "secretive")
