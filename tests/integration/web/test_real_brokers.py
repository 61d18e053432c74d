"""The page of brokers on a real RabbitMQ, and on SQS: messages that wait, and dead ones."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from uuid import uuid4

import pytest

from mutirao.ports import Transport
from mutirao.transports.rabbitmq import RabbitMQ
from mutirao.transports.sqs import SQS
from tests.integration.web.conftest import Browser
from tests.support import dashboard
from tests.support.dashboard import SECRET, Shop
from tests.support.sqs import USUAL

pytestmark = pytest.mark.repeats(decided="tests/integration/web/test_brokers.py")


@pytest.fixture(params=["rabbitmq", "sqs"])
async def broker(
    request: pytest.FixtureRequest, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Transport]:
    """The broker of the shop's letters; two of them have died there."""
    its: Transport
    if request.param == "rabbitmq":
        its = RabbitMQ(request.getfixturevalue("rabbit").url(), prefix=f"web-{uuid4().hex[:8]}")
    else:
        for name, value in USUAL.items():
            monkeypatch.setenv(name, value)
        url = request.getfixturevalue("moto_url")
        its = SQS(f"{uuid4().hex[:8]}-{{queue}}", visibility=2, wait=1, endpoint_url=url)
    shop.app.transports = {"letters": its}
    await dashboard.bury(shop.app, "ana", "rui")
    yield its
    await its.aclose()


async def test_dead_messages(broker: Transport, browser: Browser) -> None:
    """They are shown without their secrets; one is returned, the other one dropped."""

    async def dead() -> list[str]:
        return [each.id for each in await broker.dead("letters", 10)]

    page = await browser.page("/brokers")
    assert f">{broker.name}<" in page
    assert "out of paper" in page
    assert SECRET not in page
    known = await dead()
    assert [f'value="{id}"' in page for id in known] == [True, True]
    await browser.post("/act/return-dead", queue="letters", message=known[0])
    assert await dead() == known[1:]
    page = await browser.page("/brokers")
    assert re.search(rf"letters</b>.*?>{re.escape(broker.name)}<.*?>1<", page, re.S)
    await browser.post("/act/drop-dead", queue="letters", message=known[1:])
    assert await dead() == []
    assert "out of paper" not in await browser.page("/brokers")


async def test_a_broker_that_is_away(browser: Browser, shop: Shop) -> None:
    """Its row says so, without the password; the page is there."""
    shop.app.transports = {"letters": RabbitMQ(f"amqp://ana:{SECRET}@127.0.0.1:9/")}
    page = await browser.page("/brokers")
    assert "letters" in page
    assert SECRET not in page
    await shop.app.transports["letters"].aclose()
