"""Signals that come at once: each is heeded, in whatever moment it comes."""

from __future__ import annotations

import asyncio
import contextvars
import itertools
import signal
import sys
from types import FrameType
from typing import Any

from mutirao.engine.workers.process import Alarm, _signals


class SecondSignal:
    """A tracing function that sends SIGINT before the nth step of what handles the first one."""

    def __init__(self, step: int) -> None:
        self.left = step

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code.co_name != "on_signal":
            return None
        frame.f_trace_opcodes = True
        if event == "call" and sys.version_info[:2] == (3, 12):  # which heeds that from now on
            sys.settrace(self)
        if event == "opcode" and self.left >= 0:
            self.left -= 1
            if self.left < 0:
                signal.raise_signal(signal.SIGINT)
        return self


async def heeded(second: SecondSignal) -> list[int]:
    """Receive two signals; return the numbers that were given to them."""
    numbers: list[int] = []
    alarm = Alarm()
    with _signals(lambda name, times: numbers.append(times), alarm):
        before = sys.gettrace()
        sys.settrace(second)
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            sys.settrace(before)
        await asyncio.sleep(0)
    alarm.clear()
    return numbers


async def test_a_signal_while_a_handler_runs() -> None:
    """What is logged about it names no job: it is heeded in the context of the worker."""
    job, named = (
        contextvars.ContextVar[str | None]("job", default=None),
        asyncio.Queue[str | None](),
    )
    with _signals(lambda name, times: named.put_nowait(job.get()), Alarm()):
        job.set("that of a handler")
        signal.raise_signal(signal.SIGTERM)
        assert await asyncio.wait_for(named.get(), 30) is None


async def test_a_signal_in_the_middle_of_another() -> None:
    """One is the first and one the second, or the worker would end without having stopped."""
    for step in itertools.count():
        second = SecondSignal(step)
        numbers = await heeded(second)
        if second.left >= 0:  # it was over before that step
            break
        assert sorted(numbers) == [1, 2], f"before step {step}"
    assert step > 10
