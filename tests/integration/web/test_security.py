"""What stands before the pages: headers, where forms come from, names, and who is let in."""

from __future__ import annotations

import asyncio
import base64

import pytest
from click.testing import CliRunner
from starlette.requests import Request

from mutirao.cli import main
from mutirao.errors import ConfigurationError
from mutirao.web.access import Permission
from mutirao.web.credentials import (
    MOST_OF_ADDRESS,
    MOST_WAITING,
    Credentials,
    Door,
    Unauthorized,
)
from mutirao.web.serving import ServingOptions, made
from tests.integration.web.conftest import Browser, by_header
from tests.support.dashboard import Shop

PASSWORD, TOKEN = "a long password", "a-token-of-some-length"


def basic(user: str, password: str) -> str:
    """Return the header of basic authentication."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


async def test_headers_of_pages(browser: Browser) -> None:
    """No inline script or style, no frames, nothing kept; also of errors."""
    for path in ("/", "/jobs", "/nowhere", "/jobs/x", "/assets/0/none.css"):
        headers = (await browser.get(path)).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "same-origin"
    refused = await browser.post("/act/cancel", headers={}, id=1)
    assert refused.headers["content-security-policy"]


async def test_pages_have_nothing_inline(browser: Browser, shop: Shop) -> None:
    """What the policy forbids is not there, so no browser says that something was blocked."""
    import re

    for path in ("/", "/jobs", f"/jobs/{shop.dead}", "/schedules", "/doctor"):
        page = await browser.page(path)
        assert not re.search(r"\sstyle=|\son\w+=|<style|javascript:", page)
        assert re.findall(r"<script[^>]*>", page) == re.findall(r"<script src=[^>]* defer>", page)


async def test_assets_are_kept_for_ever(browser: Browser) -> None:
    """By a URL that has their digest; of another one they are not kept."""
    import re

    page = await browser.page("/")
    for path in re.findall(r'"(/assets/[^"]+)"', page):
        answer = await browser.get(path)
        assert answer.status_code == 200
        assert "immutable" in answer.headers["cache-control"]
    stale = await browser.get("/assets/0000/dashboard.css")
    assert stale.headers["cache-control"] == "no-cache"
    assert (await browser.get("/assets/0/..%2fsite.py")).status_code == 404


@pytest.mark.parametrize(
    ("headers", "allowed"),
    [
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "same-site"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "none"}, False),
        ({"sec-fetch-site": "cross-site", "origin": "http://testserver"}, False),
        ({"origin": "http://testserver"}, True),
        ({"origin": "https://testserver"}, False),
        ({"origin": "http://testserver:81"}, False),
        ({"origin": "http://testserver.evil.example"}, False),
        ({"origin": "null"}, False),
        ({"origin": "https://jobs.example.com"}, True),
        ({}, False),
        ({"authorization": "Basic YTpi"}, False),
        ({"authorization": "Bearer abc"}, True),
        ({"authorization": "Bearer abc", "origin": "http://evil.example"}, False),
    ],
)
async def test_where_forms_may_come_from(
    shop: Shop, headers: dict[str, str], allowed: bool
) -> None:
    """From pages of our own, of the origins that were named, and from programs with a token."""
    site = shop.app.web(access=by_header, origins=["https://jobs.example.com"])
    answer = await Browser(site).post("/act/retry", headers=headers, id=shop.scheduled)
    assert answer.status_code == (303 if allowed else 403)
    await site.client.aclose()


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
async def test_other_methods_are_refused(browser: Browser, method: str) -> None:
    """There are pages and forms, and nothing else."""
    assert (await browser.client.request(method, "/jobs")).status_code == 405


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1:8765", True), ("localhost:8765", True), ("[::1]:8765", True),
        ("LOCALHOST", True), ("evil.example", False), ("127.0.0.1.evil.example", False),
        ("evil.example:8765", False), ("", False),
    ],
)  # fmt: skip
async def test_names_of_this_machine(shop: Shop, host: str, allowed: bool) -> None:
    """On loopback only those: a name elsewhere may be made to mean this machine."""
    site, address, port = made(shop.app, ServingOptions())
    assert (address, port) == ("127.0.0.1", 8765)
    answer = await Browser(site).get("/jobs", host=host)
    assert answer.status_code == (200 if allowed else 421)
    await site.client.aclose()


@pytest.mark.parametrize(
    ("bind", "hosts", "known", "unknown"),
    [
        ("127.0.0.2:8765", (), ("127.0.0.2:8765", "localhost"), ("127.0.0.3",)),
        ("[::1]:8765", (), ("[::1]:8765",), ("[::2]",)),
        ("[fd00:0:0::7]:80", ("jobs.example",), ("[fd00::7]", "jobs.example:80"), ("[fd00::8]",)),
        (
            "0.0.0.0:80",
            ("[FD00::9]", "Jobs.Example."),
            ("[fd00::9]", "jobs.example"),
            ("10.0.0.1",),
        ),
        ("0.0.0.0:80", (), ("10.0.0.1", "evil.example"), ()),
    ],
)
async def test_it_is_asked_by_its_address_and_its_names(
    shop: Shop, bind: str, hosts: tuple[str, ...], known: tuple[str, ...], unknown: tuple[str, ...]
) -> None:
    """Whatever it listens on; probes ask by any address."""
    site, _, _ = made(shop.app, ServingOptions(bind=bind, hosts=hosts, token=TOKEN))
    pages = Browser(site)
    for host in known:
        assert (await pages.get("/jobs", host=host)).status_code == 401
    for host in unknown:
        assert (await pages.get("/jobs", host=host)).status_code == 421
        assert (await pages.get("/api/v1/jobs", host=host)).status_code == 421
        for path in ("/livez", "/readyz"):
            assert (await pages.get(path, host=host)).status_code == 200
    await site.client.aclose()


@pytest.mark.parametrize("bind", ["0.0.0.0:80", "192.168.0.7:80", "[::]:80", "jobs.example.com:80"])
def test_others_may_not_connect_without_credentials(shop: Shop, bind: str) -> None:
    """It refuses to start; with credentials it does not."""
    with pytest.raises(ConfigurationError, match="nothing is asked of them"):
        made(shop.app, ServingOptions(bind=bind))
    made(shop.app, ServingOptions(bind=bind, password=PASSWORD))
    made(shop.app, ServingOptions(bind=bind, token=TOKEN))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (ServingOptions(bind="8765"), "give host:port"),
        (ServingOptions(bind="127.0.0.1:99999"), "give host:port"),
        (ServingOptions(password="short"), "5 characters"),
        (ServingOptions(token="short"), "5 characters"),
        (ServingOptions(origins=("jobs.example.com",)), "no origin"),
    ],
)
def test_what_cannot_be_served(shop: Shop, given: ServingOptions, problem: str) -> None:
    """It says what is wrong, before it listens."""
    with pytest.raises(ConfigurationError, match=problem):
        made(shop.app, given)


@pytest.mark.parametrize(
    ("header", "allowed"),
    [
        (basic("rui", PASSWORD), True),
        (basic("rui", "wrong"), False),
        (basic("ana", PASSWORD), False),
        (basic("anybody", TOKEN), True),
        (f"Bearer {TOKEN}", True),
        (f"bearer {TOKEN}", True),
        (f"Bearer {PASSWORD}", False),
        ("Bearer ", False),
        ("Basic !!!", False),
        (basic("rui", ""), False),
        ("", False),
    ],
)
async def test_credentials(shop: Shop, header: str, allowed: bool) -> None:
    """A user with the password, or the token; a failure is answered late, but not the question."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    door = Door(Credentials(user="rui", password=PASSWORD, token=TOKEN), lambda: 0.0, sleep)
    site = shop.app.web(access=door)
    answer = await Browser(site).get("/jobs", authorization=header)
    assert answer.status_code == (200 if allowed else 401)
    assert bool(waits) is (not allowed and bool(header))
    if not allowed:
        assert answer.headers["www-authenticate"].startswith("Basic ")
        assert "<nav" not in answer.text
    await site.client.aclose()


async def test_failures_are_slower_and_slower(shop: Shop) -> None:
    """Up to some seconds; whoever knows the password does not wait, and they are forgotten."""
    from mutirao.web.credentials import LONGEST_WAIT, REMEMBERED_FOR

    waits: list[float] = []
    now = [0.0]

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    site = shop.app.web(access=Door(Credentials(token=TOKEN), lambda: now[0], sleep))
    pages = Browser(site)
    for _ in range(8):
        await pages.get("/jobs", authorization="Bearer wrong")
    assert waits == [0.25, 0.5, 1.0, 2.0, 4.0, LONGEST_WAIT, LONGEST_WAIT, LONGEST_WAIT]
    assert (await pages.get("/jobs", authorization=f"Bearer {TOKEN}")).status_code == 200
    now[0] += REMEMBERED_FOR + 1
    await pages.get("/jobs", authorization="Bearer wrong")
    assert waits[8:] == [0.25]
    await site.client.aclose()


def asked_by(address: str, header: str) -> Request:
    """Return a request from an address with an Authorization header."""
    headers = [(b"authorization", header.encode())]
    return Request({"type": "http", "headers": headers, "client": (address, 1)})


@pytest.mark.parametrize(
    ("addresses", "least"), [(1, MOST_OF_ADDRESS), (MOST_WAITING, MOST_WAITING)]
)
async def test_who_does_not_wait_tries_no_more(
    addresses: int, least: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While failures wait, what has not fitted lately is not compared; what has is let in."""
    compared: list[str] = []
    fits = Credentials.fits

    def counted(self: Credentials, header: str) -> str | None:
        compared.append(header)
        return fits(self, header)

    monkeypatch.setattr(Credentials, "fits", counted)
    over = asyncio.Event()

    async def sleep(seconds: float) -> None:
        await over.wait()

    door = Door(Credentials(token=TOKEN, user="rui", password=PASSWORD), lambda: 0.0, sleep)
    known = asked_by("10.0.0.0", f"Bearer {TOKEN}")
    assert (await door(known)).may(Permission.ADMIN)
    async with asyncio.TaskGroup() as guesses:
        guessed = [
            guesses.create_task(_refused(door, f"10.0.0.{each % addresses}", f"Bearer {each}"))
            for each in range(200)
        ]
        await asyncio.wait(guessed, return_when=asyncio.FIRST_COMPLETED)
        assert len(compared) == 1 + least
        assert (await door(known)).may(Permission.ADMIN)
        right = asked_by("10.0.0.0", basic("rui", PASSWORD))
        with pytest.raises(Unauthorized) as late:
            await door(right)
        assert late.value.late
        if addresses == 1:
            elsewhere = asked_by("10.0.0.1", basic("rui", PASSWORD))
            assert (await door(elsewhere)).may(Permission.ADMIN)
        over.set()
    assert (await door(right)).may(Permission.ADMIN)
    assert sum(each.result() for each in guessed) == 200 - least


async def _refused(door: Door, address: str, header: str) -> bool:
    """Ask as somebody who guesses; return whether it was not even compared."""
    with pytest.raises(Unauthorized) as refused:
        await door(asked_by(address, header))
    return refused.value.late


async def test_access_is_said_by_somebody(shop: Shop) -> None:
    """There is no default, and what is no access lets nobody in."""
    with pytest.raises(TypeError, match="access"):
        shop.app.web()  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match="give a function"):
        shop.app.web(access=None)  # type: ignore[arg-type]
    site = shop.app.web(access=lambda request: True)  # type: ignore[arg-type,return-value]
    answer = await Browser(site).get("/jobs")
    assert answer.status_code == 500
    assert "<nav" not in answer.text


async def test_an_error_nobody_has_foreseen_is_a_page(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """Without its text; that is in the log."""

    def broken(request: object) -> object:
        raise RuntimeError("a secret of the host")

    site = shop.app.web(access=broken)  # type: ignore[arg-type]
    answer = await Browser(site).get("/jobs")
    assert answer.status_code == 500
    assert "a secret of the host" not in answer.text
    assert "a secret of the host" in caplog.text


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ((), "neither an application nor a database"),
        (("--database", "sqlite:///x.db", "--bind", "0.0.0.0:0"), "nothing is asked of them"),
        (("--database", "sqlite:///x.db", "--password", "short"), "5 characters"),
        (("nowhere:app",), "no module"),
    ],
)
def test_the_command_says_what_is_wrong(given: tuple[str, ...], problem: str) -> None:
    """And ends as one that was called wrongly; a secret is not repeated."""
    ran = CliRunner().invoke(main, ["web", *given])
    assert ran.exit_code == 2
    assert problem in ran.output
    assert "short" not in ran.output
