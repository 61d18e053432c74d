"""A courier for each event loop, for as long as something is being sent from it."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import httpx2

from mutirao.webhooks import Courier, Guard


@dataclass
class _Used:
    courier: Courier
    users: int = 0


class Couriers:
    """Gives couriers, whose connections are kept while there is work, and closed with the last.

    A worker may run in the program's loop, in one of a thread, and be stopped at any time, and a
    program without a loop of its own has one for each call: so no connection outlives its use.
    """

    def __init__(self, guard: Guard | None, ssl_context: ssl.SSLContext | None = None) -> None:
        self._guard, self._ssl_context = guard, ssl_context
        self._used: WeakKeyDictionary[asyncio.AbstractEventLoop, _Used] = WeakKeyDictionary()

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Courier]:
        """Yield the courier of the running event loop."""
        loop = asyncio.get_running_loop()
        used = self._used.get(loop)
        if used is None:
            if self._ssl_context is None:  # once: it reads the system's certificates
                self._ssl_context = httpx2.create_ssl_context(trust_env=False)
            used = self._used[loop] = _Used(Courier(self._guard, ssl_context=self._ssl_context))
        used.users += 1
        try:
            yield used.courier
        finally:
            used.users -= 1
            if not used.users:
                del self._used[loop]
                await used.courier.aclose()
