"""The HTTP call itself: one attempt, signed, guarded, and bounded in time and memory."""

from __future__ import annotations

import asyncio
import inspect
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self, cast
from urllib.parse import urljoin

import httpx2

from mutirao.errors import SignerFailed, UnsafeUrl
from mutirao.model.webhooks.webhook_rules import FRAMING, check_headers, shown_url
from mutirao.webhooks.answer import Answer, DeliveryFailure, blanked, failure_of, retry_after
from mutirao.webhooks.guard import Guard
from mutirao.webhooks.request import WebhookRequest
from mutirao.webhooks.signing import sign
from mutirao.webhooks.transport import GuardedTransport, Trail, followed

AGENT = "Mutirao-Webhooks"
MOST_KNOWN = 1_000  # URLs that are remembered
MOST_PARTS = 1_000  # of an answer's body that are read: each costs the same, if it is of one byte
BESIDE = 64 * 1024  # bytes that are read beyond the kept ones, such as the framing of a body
REDIRECTS = {301, 302, 307, 308}


class Courier:
    """Sends webhooks from one event loop; `async with Courier() as courier: …`.

    It keeps connections between calls, no cookies, and no connection to any database.

    Parameters:
        guard: decides which URLs are called; the default: `https` to public addresses.
        ssl_context: the trusted certificates; the default: those that the system trusts.
        connections: open at most, to all servers in total.
        now: Unix seconds, for the signatures' time and dates in answers.
    """

    def __init__(
        self,
        guard: Guard | None = None,
        *,
        ssl_context: ssl.SSLContext | None = None,
        connections: int = 100,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._guard, self._now = guard or Guard(), now
        self._known: dict[str, httpx2.URL] = {}  # endpoints are called by the same URLs all day
        self._transport = GuardedTransport(
            self._guard, ssl_context=ssl_context, connections=connections
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()

    async def deliver_once(self, request: WebhookRequest) -> Answer:
        """Make one attempt and return its result, whatever the server does.

        It ends within `timeouts.whole` seconds, and reads at most about 64 kB beyond the kept
        bytes.

        Raises:
            InvalidSecret: no secret of the request is left to sign with at this time.
            SignerFailed: the request's signer raised, or returned something else than headers.
        """
        started = time.perf_counter()
        headers = self._headers(request)
        call = _Call(request.url, headers, request.keep)
        try:
            async with asyncio.timeout(request.timeouts.whole):
                await self._follow(request, call)
        except (UnsafeUrl, httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            call.failure = failure_of(error, bool(call.trail.heard))
            call.detail = str(error) or type(error).__name__
            if call.failure is DeliveryFailure.TIMEOUT:
                call.detail = f"not whole after {request.timeouts.whole:g} s"
        return call.answer(1_000 * (time.perf_counter() - started), self._now())

    def _headers(self, request: WebhookRequest) -> dict[str, str]:
        given = {name.lower() for name in request.headers}
        usual = {"User-Agent": AGENT, "Content-Type": "application/json"}
        if not request.body:
            del usual["Content-Type"]
        ours = {name: value for name, value in usual.items() if name.lower() not in given}
        signed = {} if request.id is None else self._signed(request, request.id)
        return {**ours, "Accept-Encoding": "identity", **request.headers, **signed}

    def _signed(self, request: WebhookRequest, id: str) -> dict[str, str]:
        now = self._now()
        if not request.secrets:
            return {"webhook-id": id, "webhook-timestamp": str(int(now))}
        # One that has ended within this second would be usable at the timestamp.
        usable = [secret for secret in request.secrets if secret.usable(now)]
        return sign(id, int(now), request.body, usable)

    async def _follow(self, request: WebhookRequest, call: _Call) -> None:
        """Call, and follow redirects as often as the request allows."""
        for left in range(request.redirects, -1, -1):
            with followed() as call.trail:
                where = await self._exchange(request, call)
            if not left or where is None:
                return
            call.move(self._guard, where, request.headers)

    def _url(self, text: str) -> httpx2.URL:
        """Return a URL that the guard allows as written; the transport uses its parsed form."""
        found = self._known.get(text)
        if found is None:
            self._guard.check(text)
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            found = self._known[text] = httpx2.URL(text)
        return found

    async def _exchange(self, request: WebhookRequest, call: _Call) -> str | None:
        """Make one call and keep its answer; return the target of a redirect."""
        limits = request.timeouts
        silence = {"read": limits.first_byte, "write": limits.first_byte}
        asked = httpx2.Request(
            request.method,
            self._url(call.url),
            headers=await _signed(request, call),
            content=request.body or None,
            extensions={"timeout": {"connect": limits.connect, **silence}},
        )
        call.sent = dict(asked.headers)
        response = await self._transport.handle_async_request(asked)
        try:
            await call.keep(response)
        finally:
            await response.aclose()
        return response.headers.get("location") if response.status_code in REDIRECTS else None


@dataclass
class _Call:
    """The state of an attempt so far."""

    url: str
    headers: dict[str, str]  # but those of the signer
    kept: int  # bytes of the answer
    sent: dict[str, str] = field(default_factory=dict)
    status: int | None = None
    body: bytes = b""
    truncated: bool = False
    said_retry_after: list[str] = field(default_factory=list)
    content_type: str | None = None
    failure: DeliveryFailure | None = None
    detail: str | None = None
    trail: Trail = field(default_factory=Trail)

    async def keep(self, response: httpx2.Response) -> None:
        """Read the first bytes of an answer as they come, and no more than needed."""
        self.status = response.status_code
        self.said_retry_after = response.headers.get_list("retry-after")
        kinds = response.headers.get_list("content-type")
        self.content_type = kinds[0] if len(kinds) == 1 else None
        heard, parts = self.trail.heard, 0
        # `aiter_raw` does more, and no answer is read twice.
        async for part in cast(httpx2.AsyncByteStream, response.stream):
            self.body += part
            parts += 1
            if (
                len(self.body) > self.kept
                or parts > MOST_PARTS
                or self.trail.heard - heard > self.kept + BESIDE
            ):
                self.truncated = True
                break
        self.body = self.body[: self.kept]

    def move(self, guard: Guard, where: str, given: Mapping[str, str]) -> None:
        """Follow a redirect; to another origin without the given headers."""
        url = _joined(self.url, where)
        before, after = guard.check(self.url), guard.check(url)
        if before.scheme == "https" and after.scheme == "http":
            raise UnsafeUrl(
                f"redirected from https to {shown_url(url)!r}; expected https again. Give the"
                " endpoint the URL that it has moved to"
            )
        private = {name.lower() for name in given} - {"content-type", "user-agent"}
        if before == after:
            private = set()
        self.headers = {
            name: value for name, value in self.headers.items() if name.lower() not in private
        }
        self.url = url
        self.status, self.body, self.truncated = None, b"", False
        self.said_retry_after, self.content_type = [], None

    def answer(self, milliseconds: float, now: float) -> Answer:
        """Return the result of the attempt."""
        return Answer(
            status=self.status,
            milliseconds=milliseconds,
            failure=self.failure,
            detail=self.detail,
            body=self.body[: self.kept],
            truncated=self.truncated,
            address=self.trail.address,
            url=self.url,
            request_headers=blanked(self.sent or self.headers),
            retry_after=retry_after(self.said_retry_after, now),
            content_type=self.content_type,
        )


async def _signed(request: WebhookRequest, call: _Call) -> Mapping[str, str]:
    """Return the headers for the URL that is called next, with those of the signer."""
    if request.signer is None:
        return call.headers
    try:
        made = request.signer(request.method, call.url, dict(call.headers), request.body)
        headers = await made if inspect.isawaitable(made) else made
        check_headers(headers, ours=FRAMING)
    except Exception as error:
        raise SignerFailed(
            f"the signer of this request failed: {type(error).__name__}: {error}. It gets method, "
            "URL, headers and body, and returns a dict of headers"
        ) from error
    named = {name.lower() for name in headers}
    return {name: text for name, text in call.headers.items() if name.lower() not in named} | {
        **headers
    }


def _joined(url: str, where: str) -> str:
    """Return the target of a redirect; an unreadable one is refused by the guard."""
    try:
        return urljoin(url, where)
    except ValueError:
        return where
