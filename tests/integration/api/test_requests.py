"""What is the same for all operations: bounds, browsers, methods, tags, health."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from mutirao import Mutirao
from mutirao.errors import StoreUnavailable
from mutirao.web.access import Access
from mutirao.web.credentials import loopback
from mutirao.web.security import GateRules
from mutirao.web.site import Settings, Site
from tests.integration.api.conftest import Ask


async def test_a_body_is_bounded(ask: Ask) -> None:
    """A byte above 1 MiB is too much, whether the length is said or not."""
    body = json.dumps({"task": "send", "args": {"x": "y" * (1 << 20)}}).encode()
    kind = {"content-type": "application/json"}

    async def parts() -> Any:
        for start in range(0, len(body), 65_536):
            yield body[start : start + 65_536]

    for content in (body, parts()):
        answer = await ask("act", "POST", "/jobs", content=content, headers=kind)
        assert answer.status_code == 413
        assert answer.json()["type"] == "urn:mutirao:Unreadable"


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b"{", "application/json", 400),
        (b"\xff", "application/json", 400),
        (b'{"task": "\xff"}', "application/json", 400),
        (b'{"task": "send", "args": {"x": ' + b"[" * 100_000, "application/json", 400),
        (b'{"task": "send"}', "text/plain", 415),
        (b"task=send", "application/x-www-form-urlencoded", 415),
        (b"[]", "application/json", 422),
        (b"", "application/json", 422),
    ],
)
async def test_a_body_that_is_none_is_refused(
    content: bytes, kind: str, status: int, ask: Ask
) -> None:
    """It is a problem, and no failure of the server."""
    answer = await ask("act", "POST", "/jobs", content=content, headers={"content-type": kind})
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("PUT", "/jobs", 405),
        ("DELETE", "/jobs/1", 405),
        ("OPTIONS", "/jobs", 405),
        ("GET", "/nothing", 404),
        ("GET", "/jobs/", 404),
        ("GET", "/jobs/1/2", 404),
    ],
)
async def test_what_there_is_not_is_a_problem(
    method: str, path: str, status: int, ask: Ask
) -> None:
    """Of the usual kind, with what is allowed."""
    answer = await ask("admin", method, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.headers.get("allow") is not None) == (status == 405)


async def test_names_may_have_slashes(ask: Ask) -> None:
    """Escaped ones in a path are part of the name."""
    answer = await ask("admin", "POST", "/schedules/night%2Fly/pause", json={"reason": "moving"})
    assert answer.json() == {"name": "night/ly", "paused": True}
    [found] = (await ask("read", "GET", "/schedules")).json()["schedules"]
    assert (found["status"], found["reason"]) == ("paused", "moving")
    made = await ask("act", "POST", "/schedules/night%2Fly/run")
    assert (made.status_code, made.headers["location"]) == (201, "/api/v1/jobs/1")


async def test_statistics_have_a_tag(ask: Ask, send: Any) -> None:
    """Whoever knows them is told that they are as they were, until they are not."""
    first = await ask("read", "GET", "/statistics")
    known = {"if-none-match": f'"x", W/{first.headers["etag"]}'}
    again = await ask("read", "GET", "/statistics", headers=known)
    assert (again.status_code, again.content) == (304, b"")
    await ask("act", "POST", "/jobs", json={"task": "send", "args": {"order_id": 1}})
    changed = await ask("read", "GET", "/statistics", headers=known)
    assert changed.status_code == 200
    assert changed.json()["jobs"]["ready"] == 1


async def test_a_paused_queue_says_so(ask: Ask, send: Any) -> None:
    """At once, as somebody who acts wants to see what came of it."""
    await send.aenqueue(1)
    assert (await ask("read", "GET", "/queues")).json()["queues"][0]["paused"] is False
    await ask("admin", "POST", "/queues/mail/pause")
    assert (await ask("read", "GET", "/queues")).json()["queues"][0]["paused"] is True
    [limit] = (await ask("read", "GET", "/limits")).json()["limits"]
    assert (limit["queue"], limit["paused"]) == ("mail", True)
    await ask("admin", "POST", "/queues/mail/resume")
    assert (await ask("read", "GET", "/queues")).json()["queues"][0]["paused"] is False
    again = await ask("admin", "POST", "/queues/mail/resume")
    assert (again.status_code, again.json()["type"]) == (404, "urn:mutirao:UnknownLimit")


async def test_health_needs_no_token_and_tells_nothing(
    nobody: httpx2.AsyncClient, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that answers is alive; it is ready while the database is as it has to be."""
    for path in ("http://jobs/livez", "http://jobs/readyz"):
        answer = await nobody.get(path)
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})

    async def gone() -> None:
        raise StoreUnavailable("the server at 10.0.0.7 is gone")

    monkeypatch.setattr(site.client.store, "check", gone)
    site.readings.forget()
    answer = await nobody.get("http://jobs/readyz")
    assert (answer.status_code, answer.json()) == (503, {"status": "unavailable"})
    assert (await nobody.get("http://jobs/livez")).status_code == 200


async def test_what_nobody_has_foreseen_tells_nothing(
    ask: Ask, site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is 500 without a detail, and in the log."""

    async def broken(*_: object, **__: object) -> None:
        raise RuntimeError("the secret is 42")

    monkeypatch.setattr(site.client.store.reading, "page", broken)
    answer = await ask("read", "GET", "/jobs")
    assert (answer.status_code, answer.json().get("detail")) == (500, None)
    assert "the secret is 42" in caplog.text


BROWSERS = [
    ({"sec-fetch-site": "same-origin"}, 200),
    ({"sec-fetch-site": "cross-site"}, 403),
    ({"sec-fetch-site": "none"}, 403),
    ({"origin": "http://jobs"}, 200),
    ({"origin": "http://evil"}, 403),
    ({"origin": "null"}, 403),
    ({"content-type": "text/plain"}, 403),
    ({"content-type": "application/json"}, 200),  # no browser without Origin
    ({"content-type": "application/json", "cookie": "session=1"}, 403),
    ({"sec-fetch-site": "cross-site", "authorization": "Bearer x"}, 200),  # none sends it by itself
    ({"sec-fetch-site": "cross-site", "authorization": "Bearer x", "cookie": "session=1"}, 403),
    ({"sec-fetch-site": "cross-site", "authorization": "Basic eDp5"}, 403),
]


@pytest.mark.parametrize(("headers", "status"), BROWSERS)
async def test_a_page_of_others_commands_nothing(
    headers: dict[str, str], status: int, shop: Mutirao
) -> None:
    """A browser that is let in by a cookie, a password or its address is asked where it comes from.

    What has a token does not need to be: no browser sends one by itself.
    """
    site = Site(shop, Settings(access=lambda _: Access.admin()))
    transport = httpx2.ASGITransport(app=site)
    async with httpx2.AsyncClient(transport=transport, base_url="http://jobs/api/v1") as client:
        given = {"content-type": "application/json", **headers}
        if "origin" in headers or "sec-fetch-site" in headers:
            given = {**headers}
        answer = await client.post("/queues/mail/pause", headers=given)
        assert answer.status_code == status, answer.text
    await site.client.aclose()


async def test_a_name_that_is_not_ours_is_refused(shop: Mutirao) -> None:
    """On loopback a page whose name was made to mean this machine reads nothing."""
    site = Site(shop, Settings(access=loopback, rules=GateRules(hosts={"localhost"})))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=site)) as client:
        assert (await client.get("http://evil/api/v1/jobs")).status_code == 421
        assert (await client.get("http://localhost:8765/api/v1/jobs")).status_code == 200
    await site.client.aclose()


async def test_answers_are_kept_by_nobody(ask: Ask) -> None:
    """And are taken for nothing else than what they are."""
    answer = await ask("read", "GET", "/jobs")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
