"""The watch over an event loop that a coroutine may block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from mutirao.engine.calls.threads import Threads
from mutirao.engine.dispatch.slots import Slots
from mutirao.engine.liveness.heartbeat import HeartbeatThread
from mutirao.engine.liveness.watchdog import LoopWatch, Watch
from mutirao.engine.loops import Loops
from mutirao.errors import WorkerFailed, WorkerStuck
from tests.support.waiting import DEADLINE, until


@pytest.mark.parametrize("over", [True, False])
async def test_a_blocked_loop_is_told_once(over: bool) -> None:
    """Where what runs in it is past its timeouts; as long as it answers, nobody is told."""
    notified, told_twice = threading.Event(), threading.Event()
    looks = list[float]()

    def stuck(error: WorkerStuck) -> None:
        assert "a coroutine has blocked the event loop" in str(error)
        (told_twice if notified.is_set() else notified).set()

    def over_at() -> float:
        looks.append(0.0)
        return 0.0 if over else float("inf")

    watch = LoopWatch(HeartbeatThread(), over_at, 0.001, 0.05, stuck)
    watch.start()
    await asyncio.sleep(0.1)
    assert not notified.is_set()
    if over:
        assert notified.wait(DEADLINE)  # which blocks it
    else:
        _wait(lambda: len(looks) > 3)
    watch.stop()
    await until(lambda: not _beats())
    assert notified.is_set() == over
    assert not told_twice.is_set()


async def test_no_limit() -> None:
    """Nobody watches, and stopping does nothing."""
    received: list[WorkerStuck] = []
    watch = LoopWatch(HeartbeatThread(), lambda: 0.0, 0.001, None, received.append)
    watch.start()
    assert not _beats()
    watch.stop()


async def test_a_loop_that_has_ended_does_not_hang() -> None:
    """A worker that stops has no producer any more, however long its jobs run."""
    loops, gate = Loops(0.0, lambda *_: None), asyncio.Event()
    watch = Watch(Slots(1, Threads()), loops.pulses, None)
    for name, ends in [("producer", True), ("completer", False)]:
        loops.pulse(name)
        loops.spawn(name, _ends(None if ends else gate))
    await loops.ends(["producer"], DEADLINE)
    watch.look()
    with pytest.raises(WorkerFailed, match=r"hang: completer \(0 s\)$"):
        watch.look()
    gate.set()
    await loops.ends(["completer"], DEADLINE)
    watch.look()


async def _ends(gate: asyncio.Event | None) -> None:
    if gate is not None:
        await gate.wait()


def _wait(found: Callable[[], bool]) -> None:
    while not found():
        pass


def _beats() -> bool:
    return any(each.name == "mutirao-heartbeat" for each in threading.enumerate())
