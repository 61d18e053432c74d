"""Runs a worker of a database and one of broker queues as one: started and stopped as one."""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from mutirao.engine.loops import Health
from mutirao.engine.workers.broker_queues import BrokerWorker
from mutirao.engine.workers.fleet import Serving
from mutirao.engine.workers.shared import Shared


class CombinedWorker:
    """Both in the running event loop. A `Serving`. If one fails, both end.

    `shared`: what they have in common, closed at the end.
    """

    def __init__(self, worker: Serving, carrying: BrokerWorker, shared: Shared) -> None:
        self.settings = worker.settings
        self.failure: BaseException | None = None
        self.failed, self.ended = asyncio.Event(), asyncio.Event()
        self._worker, self._carrying, self._shared = worker, carrying, shared
        self.outdated = shared.deploys.outdated
        self._both: tuple[Serving, Serving] = (worker, carrying)
        self._watching: list[asyncio.Task[None]] = []
        self._stopping: asyncio.Task[None] | None = None

    @property
    def on_blocked(self) -> Callable[[], None] | None:
        """What is called in a thread when the event loop is lost for good."""
        return self._worker.on_blocked

    @on_blocked.setter
    def on_blocked(self, call: Callable[[], None] | None) -> None:
        self._worker.on_blocked = call

    async def start(self) -> None:
        """Start both; raises what the worker's start raises, and then nothing was started."""
        if self._watching or self.ended.is_set():
            return
        await self._worker.start()
        await self._carrying.start()
        self._watching = [asyncio.create_task(self._watch(each)) for each in self._both]

    async def first_claim(self) -> None:
        """Wait until both have made their first claims."""
        await asyncio.gather(*(each.first_claim() for each in self._both))

    async def stop(self, grace: float | None = None) -> None:
        """Stop both gracefully; a second call waits for the first one.

        `grace`: instead of that in the settings.
        """
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop(grace))
        await asyncio.shield(self._stopping)

    def stop_claiming(self) -> None:
        """Stop claiming, receiving and starting jobs."""
        for each in self._both:
            each.stop_claiming()

    def end_grace(self) -> None:
        """End the grace period now."""
        for each in self._both:
            each.end_grace()

    def health(self) -> Health:
        """Return whether both work, and if not, why. May be called from any thread."""
        worker, carrying = (each.health() for each in self._both)
        bad = worker if not worker.alive else carrying
        ages, unmended = worker.ages | carrying.ages, worker.unmended + carrying.unmended
        return replace(worker, alive=bad.alive, reason=bad.reason, ages=ages, unmended=unmended)

    async def _watch(self, one: Serving) -> None:
        await one.failed.wait()
        self.failure = self.failure or one.failure
        self.end_grace()
        self._stopping = self._stopping or asyncio.create_task(self._stop())
        self.failed.set()

    async def _stop(self, grace: float | None = None) -> None:
        await asyncio.gather(*(each.stop(grace) for each in self._both))
        for each in self._watching:
            each.cancel()
        self._shared.close()
        self.ended.set()
