"""The keys that other servers publish: fetched through the guard, and kept for a while."""

from __future__ import annotations

import json
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from urllib.parse import urldefrag, urlsplit

from mutirao.errors import UnverifiedActivity
from mutirao.federation.couriers import Couriers
from mutirao.federation.keys import PublicKey, published
from mutirao.webhooks import Guard, Signer, Timeouts, WebhookRequest

ACCEPT = (
    "application/activity+json, "
    'application/ld+json; profile="https://www.w3.org/ns/activitystreams"'
)
LARGEST_DOCUMENT = 256 * 1024  # bytes; actors with many emoji and fields have tens of thousands
KEPT_FOR = 24 * 3_600.0  # seconds
REFUSED_FOR = 60.0  # seconds for which a key that could not be had is not asked for again
FRESH_FOR = 60.0  # seconds for which a signature that does not fit fetches no key again
REMEMBERED = 10_000  # keys
_TIMEOUTS = Timeouts(connect=5.0, first_byte=5.0, whole=10.0)


@dataclass(frozen=True, slots=True)
class _Had:
    """What came of asking for a key, and when."""

    at: float
    key: PublicKey | None
    why: str = ""
    asked: float = 0.0  # when it was asked for last; a key that is kept outlives a failure


class RemoteKeys:
    """The public keys of other servers; one for a process, used from any event loop and thread.

    Whoever sends a request chooses what is fetched: so only what the guard admits, in ten seconds,
    256 kB at most, and again only after a minute if it failed.

    Parameters:
        guard: which URLs are fetched; as usual `https` at public addresses.
        signer: signs the requests, for servers that tell nobody else.
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
        self._had: OrderedDict[str, _Had] = OrderedDict()

    async def key(self, id: str, *, again: bool = False) -> PublicKey | None:
        """Return the key of this id.

        Parameters:
            again: it may have changed, as a signature does not fit: fetch it, unless it was fetched
                within the last minute; then None is returned.

        Raises:
            UnverifiedActivity: it cannot be had; the message says why.
        """
        had = self._had.get(id)
        now = self._now()
        age = now - had.at if had else 0.0
        if had is not None and again and now - had.asked < FRESH_FOR:
            return None
        if had is not None and not again and age < (self._kept_for if had.key else REFUSED_FOR):
            if had.key is None:
                raise UnverifiedActivity(had.why)
            return had.key
        try:
            key = published(await self._document(id), id)
        except UnverifiedActivity as why:
            # Whoever sends a wrong signature does not make others wait: the key that is kept stays.
            if had is not None and had.key is not None and age < self._kept_for:
                self._remember(id, replace(had, asked=now))
            else:
                self._remember(id, _Had(now, None, str(why), now))
            raise
        self._remember(id, _Had(now, key, asked=now))
        return key

    def _remember(self, id: str, had: _Had) -> None:
        self._had.pop(id, None)
        self._had[id] = had
        if len(self._had) > REMEMBERED:
            self._had.popitem(last=False)

    async def _document(self, id: str) -> object:
        """Fetch what publishes a key."""
        request = WebhookRequest(
            urldefrag(id).url,
            method="GET",
            headers={"Accept": ACCEPT, "User-Agent": "Mutirao-Federation"},
            timeouts=_TIMEOUTS,
            redirects=2,
            signer=self._signer,
            keep=LARGEST_DOCUMENT,
        )
        async with self._couriers.one() as courier:
            answer = await courier.deliver_once(request)
        if not answer.ok or answer.truncated:
            what = answer.failure or f"status {answer.status}"
            size = f", and more than {LARGEST_DOCUMENT:,} bytes" if answer.truncated else ""
            raise UnverifiedActivity(
                f"the key {id[:200]} could not be fetched: {what}{size}. {answer.detail or ''}"
            )
        if urlsplit(answer.url).netloc != urlsplit(id).netloc:
            raise UnverifiedActivity(
                f"the key {id[:200]} is said to be at {answer.url[:200]}; expected the same server"
            )
        try:
            return json.loads(answer.body)
        except (ValueError, RecursionError) as unfit:
            raise UnverifiedActivity(f"the document of {id[:200]} is no JSON: {unfit}") from unfit
