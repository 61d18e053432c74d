"""The life that all workers have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from mutirao.engine.loops import LoopHealth
from mutirao.engine.settings import WorkerSettings
from mutirao.engine.workers.lifecycle import Service
from mutirao.engine.workers.shared_slots import SharedSlots

SETTINGS = WorkerSettings(grace=7.0)


class Noted(Service):
    """A service that notes what is asked of it."""

    def __init__(self) -> None:
        super().__init__(SETTINGS, SharedSlots(SETTINGS))
        self.refuses, self.noted = False, list[str]()
        self.may_stop = asyncio.Event()
        self.pulse = LoopHealth("loop", 90.0)

    async def first_claim(self) -> None:
        """As `Service.first_claim`."""

    def stop_claiming(self) -> None:
        """As `Service.stop_claiming`."""

    async def _start(self) -> None:
        if self.refuses:
            raise ValueError("no such table")
        self.noted.append("start")

    async def _stop(self, grace: float) -> None:
        self.noted.append(f"stop within {grace:g} s")
        await self.may_stop.wait()

    def _pulses(self) -> Sequence[LoopHealth]:
        return [self.pulse]

    def fails(self, text: str) -> None:
        """Let it fail."""
        self._fail(ValueError(text))


async def test_twice_is_harmless() -> None:
    """It is started once and stopped once; who stops it later waits for the first one's end."""
    service = Noted()
    await service.start()
    await service.start()
    stops = [asyncio.create_task(service.stop(grace)) for grace in (None, 3.0)]
    await asyncio.sleep(0)
    assert not service.ended.is_set()
    service.may_stop.set()
    await asyncio.gather(*stops)
    assert service.noted == ["start", "stop within 7 s"]
    assert service.ended.is_set()
    await service.start()
    await service.stop()
    assert service.noted == ["start", "stop within 7 s"]


async def test_who_waits_for_the_end_and_is_cancelled_does_not_cancel_it() -> None:
    """The stop goes on."""
    service = Noted()
    await service.start()
    waiting = asyncio.create_task(service.stop())
    await asyncio.sleep(0)
    waiting.cancel()
    service.may_stop.set()
    await service.stop()
    assert service.ended.is_set()


async def test_a_start_that_failed_may_be_tried_again() -> None:
    """Nothing was started."""
    service = Noted()
    service.refuses = True
    with pytest.raises(ValueError, match="no such table"):
        await service.start()
    assert service.health().reason == "it has not been started"
    service.refuses = False
    await service.start()
    assert service.health().alive


async def test_a_failure_ends_it() -> None:
    """At once, for the first reason; health says why."""
    service = Noted()
    await service.start()
    assert (service.health().alive, list(service.health().ages)) == (True, ["loop"])
    service.may_stop.set()
    service.fails("first")
    service.fails("second")
    assert service.failed.is_set()
    await service.stop()
    assert service.ended.is_set()
    assert str(service.failure) == "first"
    assert service.health().reason == "it failed: first"


async def test_a_loop_that_hangs_is_told() -> None:
    """It does not work then, although nobody has stopped it."""
    service = Noted()
    service.pulse = LoopHealth("loop", -1.0)
    await service.start()
    assert service.health().reason == "no turn of loop"
