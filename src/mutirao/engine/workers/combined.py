"""Runs a worker of a database and one of broker queues as one: started and stopped as one."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from mutirao.engine.loops import Health, LoopHealth
from mutirao.engine.workers.lifecycle import Service
from mutirao.engine.workers.shared_slots import SharedSlots


class CombinedWorker(Service):
    """Runs both in the running event loop. If one fails, both end.

    `shared`: what they share, closed at the end.
    """

    def __init__(self, worker: Service, carrying: Service, shared: SharedSlots) -> None:
        super().__init__(worker.settings, shared)
        self._both = worker, carrying
        self._watching: list[asyncio.Task[None]] = []

    async def first_claim(self) -> None:
        """Wait until both have made their first claims."""
        await asyncio.gather(*(each.first_claim() for each in self._both))

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

    def _beat_age(self) -> float | None:
        return self._both[0]._beat_age()

    def _pulses(self) -> Sequence[LoopHealth]:
        return [pulse for each in self._both for pulse in each._pulses()]

    async def _start(self) -> None:
        """Start both; if one cannot start, raise its error with nothing started."""
        for each in self._both:
            each.on_blocked = self._lose_loop
            await each.start()
        self._watching = [asyncio.create_task(self._watch(each)) for each in self._both]

    async def _watch(self, one: Service) -> None:
        await one.failed.wait()
        self._fail(one.failure)

    async def _stop(self, grace: float) -> None:
        await asyncio.gather(*(each.stop(grace) for each in self._both))
        for each in self._watching:
            each.cancel()
        self._shared.close()
