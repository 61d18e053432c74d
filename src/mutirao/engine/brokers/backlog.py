"""What a relay knows of a queue that it does not consume: whether messages wait at the broker."""

import asyncio
from datetime import datetime
from time import monotonic

from mutirao.engine.brokers.relay import QUIET_AFTER
from mutirao.engine.pulse import Pulse
from mutirao.engine.settings import WorkerSettings
from mutirao.engine.trouble import Trouble
from mutirao.ports import Transport


class Backlog:
    """The loop that asks a broker how many messages wait in one queue. An `Ear` of a `Relay`.

    While none waits the broker has lost what was rung long ago, or a consumer holds it, which will
    find it stale. While some wait nothing is known: they may wait for a consumer, and what is lost
    may be as old.
    """

    reached: datetime | None = None

    def __init__(self, queue: str, transport: Transport, settings: WorkerSettings) -> None:
        self._queue, self._transport, self._settings = queue, transport, settings
        self._empty_since: float | None = None
        self._stopping = asyncio.Event()

    @property
    def quiet_for(self) -> float:
        """The seconds for which no message was found to wait."""
        return 0.0 if self._empty_since is None else monotonic() - self._empty_since

    async def run(self, pulse: Pulse) -> None:
        """Ask until stopped; wait while the broker is away."""
        what = f"cannot ask what waits in queue {self._queue}"
        back = f"asking what waits in queue {self._queue} again"
        longest = self._settings.longest_wait
        trouble = Trouble(what, back, longest, who="broker", once="text")
        every = min(self._settings.doorbell_grace, QUIET_AFTER) / 2
        while not self._stopping.is_set():
            pulse.turn()
            try:
                waiting = await self._transport.waiting(self._queue)
                trouble.over()
                since = monotonic() if self._empty_since is None else self._empty_since
                self._empty_since = None if waiting else since
                wait = every
            except Exception as error:  # noqa: BLE001 (raised if it does not pass)
                self._empty_since = None
                wait = trouble.met(error)
            await pulse.rest(wait, self._stopping)

    def stop(self) -> None:
        """Ask no more."""
        self._stopping.set()
