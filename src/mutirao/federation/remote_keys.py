"""The keys that other servers publish: fetched through the guard, and kept for a while.

A document names the owner of its key; the owner's own document must name the key, too. Otherwise
anybody who may store a file on a server could sign for all of its actors.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from email.message import Message
from functools import partial
from threading import Lock
from urllib.parse import urldefrag

from mutirao.errors import UnverifiedActivity
from mutirao.federation.couriers import Couriers
from mutirao.federation.keys import PublicKey, check_named, origin, published
from mutirao.federation.single_flight import SingleFlight
from mutirao.webhooks import Answer, Guard, Signer, Timeouts, WebhookRequest

ACTIVITY_STREAMS = "https://www.w3.org/ns/activitystreams"
ACCEPT = f'application/activity+json, application/ld+json; profile="{ACTIVITY_STREAMS}"'
LARGEST_DOCUMENT = 256 * 1024  # bytes; actors with many emoji and fields have tens of thousands
KEPT_FOR = 24 * 3_600.0  # seconds
REFUSED_FOR = 60.0  # seconds for which a key that could not be had is not asked for again
FRESH_FOR = 60.0  # seconds for which a signature that does not fit fetches no key a third time
REMEMBERED = 10_000  # keys, those that could not be had among them
WHOLE = 10.0  # seconds for a key, with the document of its owner
_TIMEOUTS = Timeouts(connect=5.0, first_byte=5.0, whole=WHOLE)


@dataclass(frozen=True, slots=True)
class _Had:
    """The result of asking for a key, and when.

    `again` is when it was asked for last because a signature did not fit; a key that is kept
    outlives a failure.
    """

    at: float
    key: PublicKey | None
    why: str = ""
    again: float = -math.inf


class RemoteKeys:
    """The public keys of other servers; one for a process, used from any event loop and thread.

    The sender of a request chooses the URL: so only URLs that the guard admits are fetched, in ten
    seconds, 256 kB at most, once for all simultaneous callers, and again only after a
    minute if it failed. A document counts only if it is served as one of ActivityStreams, and a key
    only if its owner's own document names it.

    Parameters:
        guard: which URLs are fetched; as usual `https` at public addresses.
        signer: signs the requests, for servers that require it.
        kept_for: seconds for which a key is used without asking again.
        now: Unix seconds.
    """

    def __init__(
        self,
        guard: Guard | None = None,
        *,
        signer: Signer | None = None,
        kept_for: float = KEPT_FOR,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._couriers = Couriers(guard)
        self._signer, self._kept_for, self._now = signer, kept_for, now
        self._lock = Lock()
        self._had: OrderedDict[str, _Had] = OrderedDict()  # the one that was used last is last
        self._flights = SingleFlight[_Had]()

    async def key(self, id: str, *, again: bool = False) -> PublicKey | None:
        """Return the key of this id.

        Parameters:
            again: it may have changed, as a signature does not fit: fetch it, unless it was fetched
                for that reason within the last minute; then the one that is kept is returned.

        Raises:
            UnverifiedActivity: it cannot be had; the message says why.
        """
        had = self._kept(id, again) or await self._flights.once(id, partial(self._ask, id, again))
        if had.key is None:
            raise UnverifiedActivity(had.why)
        return had.key

    def _kept(self, id: str, again: bool) -> _Had | None:
        """Return what is known of a key; None if it has to be fetched."""
        now = self._now()
        with self._lock:
            had = self._had.get(id)
            if had is None or now - had.at >= (self._kept_for if had.key else REFUSED_FOR):
                return None
            if again and had.key and now - had.again >= FRESH_FOR:
                return None
            self._had.move_to_end(id)
            return had

    async def _ask(self, id: str, again: bool) -> _Had:
        """Fetch a key, remember the result, and return it."""
        now = self._now()
        asked = now if again else -math.inf
        try:
            async with asyncio.timeout(WHOLE):
                found = _Had(now, await self._fetch(id), again=asked)
        except (UnverifiedActivity, TimeoutError) as error:
            why = str(error) or f"the key {id[:200]} could not be fetched in {WHOLE:g} s"
            found = _Had(now, None, why, asked)
        self._remember(id, found)
        return found

    def _remember(self, id: str, found: _Had) -> None:
        with self._lock:
            had = self._had.pop(id, None)
            # A wrong signature does not make others wait: the key that is kept stays.
            if found.key is None and had and had.key and found.at - had.at < self._kept_for:
                found = replace(had, again=found.again)
            self._had[id] = found
            if len(self._had) > REMEMBERED:
                self._had.popitem(last=False)

    async def _fetch(self, id: str) -> PublicKey:
        """Return a key that its owner's own document names."""
        place = urldefrag(id).url
        document = await self._document(place)
        key = published(document, id)
        home = urldefrag(key.owner).url
        if home != place:
            document = await self._document(home)
        check_named(document, key)
        return key

    async def _document(self, url: str) -> object:
        """Fetch what publishes a key, or its owner."""
        request = WebhookRequest(
            url,
            method="GET",
            headers={"Accept": ACCEPT, "User-Agent": "Mutirao-Federation"},
            timeouts=_TIMEOUTS,
            redirects=2,
            signer=self._signer,
            keep=LARGEST_DOCUMENT,
        )
        async with self._couriers.one() as courier:
            answer = await courier.deliver_once(request)
        _check_answer(answer, url)
        try:
            return json.loads(answer.body)
        except (ValueError, RecursionError) as unfit:
            raise UnverifiedActivity(f"the document {url[:200]} is no JSON: {unfit}") from unfit


def _check_answer(answer: Answer, url: str) -> None:
    """Refuse a document that is not a whole one of ActivityStreams, or not of the URL's server."""
    if not answer.ok or answer.truncated:
        what = answer.failure or f"status {answer.status}"
        size = f", and more than {LARGEST_DOCUMENT:,} bytes" if answer.truncated else ""
        raise UnverifiedActivity(
            f"the document {url[:200]} of a key could not be fetched: {what}{size}."
            f" {answer.detail or ''}"
        )
    if not _leads_to(url, answer.url):
        raise UnverifiedActivity(
            f"the document {url[:200]} of a key is said to be at {answer.url[:200]}; expected the"
            " same server"
        )
    if not is_activity(answer.content_type):
        raise UnverifiedActivity(
            f"the document {url[:200]} of a key is served as {answer.content_type!r:.200}; expected"
            f" application/activity+json, or application/ld+json with the profile"
            f" {ACTIVITY_STREAMS}: anything else may be a file that somebody has uploaded"
        )


def _leads_to(url: str, end: str) -> bool:
    """Return whether redirects stayed on a server; they may have led from http to https."""
    before, after = origin(url), origin(end)
    upgraded = ("http", before and before[1], 80), ("https", before and before[1], 443)
    return after == before or (before, after) == upgraded


def is_activity(content_type: str | None) -> bool:
    """Return whether a content type is one of ActivityStreams."""
    if content_type is None or not content_type.isascii():
        return False
    read = Message()
    read["Content-Type"] = content_type
    if read.get_content_type() == "application/activity+json":
        return True
    profile = read.get_param("profile")
    return (
        read.get_content_type() == "application/ld+json"
        and isinstance(profile, str)
        and ACTIVITY_STREAMS in profile.split()
    )
