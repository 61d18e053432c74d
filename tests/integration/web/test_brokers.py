"""Brokers and hosts of federation: what waits there, what is dead, and what may be done."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mutirao.model.brokers.message import DeadMessage
from mutirao.transports.memory import MemoryTransport
from tests.integration.web.conftest import Browser
from tests.support.dashboard import SECRET, Shop


async def dead_of(shop: Shop) -> list[str]:
    """Return the ids of dead letters."""
    return [each.id for each in await shop.app.transports["letters"].dead("letters", 10)]


async def test_dead_messages_are_shown(browser: Browser, shop: Shop) -> None:
    """With their error and body, without the secrets in them; contents only to who may see them."""
    page = await browser.page("/brokers")
    assert re.search(r"letters</b>.*?>memory<.*?>2<", page, re.S)
    assert "ana" in page
    assert SECRET not in page
    assert "out of paper" in page
    for id in await dead_of(shop):
        assert f'value="{id}"' in page
        assert f'value="{id}"' not in await browser.page("/brokers", "act")
    blind = await browser.page("/brokers", "blind")
    assert "ana" not in blind
    assert "out of paper" not in blind


async def test_dead_messages_are_returned_and_dropped(browser: Browser, shop: Shop) -> None:
    """Those that are chosen; the audit knows who did it."""
    [first, second] = await dead_of(shop)
    await browser.post("/act/return-dead", queue="letters", message=first)
    assert await dead_of(shop) == [second]
    assert await shop.app.transports["letters"].waiting("letters") == 1
    await browser.post("/act/drop-dead", queue="letters", message=[second, "none"])
    assert await dead_of(shop) == []
    abouts = [each.about for each in await browser.site.client.actions.alist()]
    assert abouts == [("drop", "messages", f"letters: {second}, none"),
                      ("return", "messages", f"letters: {first}")]  # fmt: skip
    assert (await browser.post("/act/drop-dead", queue="letters")).status_code == 400
    assert (await browser.post("/act/drop-dead", message="x")).status_code == 400


async def test_a_broker_that_is_away_is_told(browser: Browser, shop: Shop) -> None:
    """In its row; the page is there."""
    transport: Any = shop.app.transports["letters"]
    assert isinstance(transport, MemoryTransport)
    transport.available = False
    assert "is away" in await browser.page("/brokers")
    transport.available = True


async def test_a_broker_that_fails_otherwise(
    browser: Browser, shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What a message or a driver does that nobody has foreseen is in the log; the page is there."""

    async def unforeseen(queue: str, most: int) -> list[DeadMessage]:
        raise ValueError("what a message had")

    monkeypatch.setattr(shop.app.transports["letters"], "dead", unforeseen)
    page = await browser.page("/brokers")
    assert "letters</b>" in page
    assert "ValueError" in page
    assert "what a message had" not in page
    assert "what a message had" in caplog.text


async def test_hosts_are_held_and_tried(browser: Browser) -> None:
    """By administrators; each row says how it is."""
    assert "Try now" in await browser.page("/hosts")
    assert "Try now" not in await browser.page("/hosts", "act")
    await browser.post("/act/flush-host", host="social.example")
    page = await browser.page("/hosts")
    assert "social.example" not in page or "Hold" in page
