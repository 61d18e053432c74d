"""The loops of a worker as one: started with a sign of life each, watched, and ended together."""

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any

from mutirao.engine.pulse import Health, Pulse

CANCEL_AGAIN_AFTER = 0.5  # seconds

OnFailed = Callable[[str, BaseException], None]


async def end_tasks(*tasks: asyncio.Task[None]) -> None:
    """Cancel tasks and wait until they are over and their connections are closed.

    Cancels repeatedly: before Python 3.12 `asyncio.wait_for`, which drivers use, loses a
    cancellation that arrives at the same moment as its result.
    """
    running = {task for task in tasks if not task.done()}
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=CANCEL_AGAIN_AFTER)


class Loops:
    """The loops of one worker, by name.

    Parameters:
        turn_limit: the seconds that a turn may take, unless a loop is given more.
        on_failed: called with a task's name and what it raised.
    """

    def __init__(self, turn_limit: float, on_failed: OnFailed) -> None:
        self._turn_limit, self._on_failed = turn_limit, on_failed
        self._pulses: dict[str, Pulse] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def __bool__(self) -> bool:
        """Return whether some were started, and were not ended."""
        return bool(self._tasks)

    def pulses(self) -> list[Pulse]:
        """Return their signs of life."""
        return list(self._pulses.values())

    def pulse(self, name: str, limit: float = 0.0) -> Pulse:
        """Return the sign of life that a loop of this name is to give; made now."""
        return self.watch(Pulse(name, max(self._turn_limit, limit)))

    def watch(self, pulse: Pulse) -> Pulse:
        """Watch a sign of life that is given elsewhere, too; return it."""
        self._pulses[pulse.name] = pulse
        return pulse

    def spawn(self, name: str, loop: Coroutine[Any, Any, None]) -> None:
        """Start a loop."""
        if name in self._pulses:
            self._pulses[name].turn()
        task = self._tasks[name] = asyncio.create_task(loop, name=f"mutirao-{name}")
        task.add_done_callback(self._ended)

    async def ends(self, names: Collection[str], seconds: float) -> int:
        """Wait for loops to end, up to a limit; return how many have not."""
        _, running = await asyncio.wait([self._tasks[each] for each in names], timeout=seconds)
        return len(running)

    async def ends_unless(
        self, names: Collection[str], seconds: float, hurried: asyncio.Event
    ) -> int:
        """Wait as `ends` does, and no longer once `hurried` is set."""
        ends = asyncio.ensure_future(self.ends(names, seconds))
        hurry = asyncio.ensure_future(hurried.wait())
        await asyncio.wait((ends, hurry), return_when=asyncio.FIRST_COMPLETED)
        for each in (ends, hurry):
            each.cancel()
        return await self.ends(names, 0)

    async def cancel(self) -> None:
        """End all of them."""
        await end_tasks(*self._tasks.values())
        self._tasks.clear()

    def health(
        self,
        failure: BaseException | None,
        stopping: bool,
        stuck: int,
        hears: bool | None = None,
        unmended: Sequence[str] = (),
    ) -> Health:
        """Return whether they work, and if not, why. May be called from any thread.

        `hears` and `unmended` count while they work.
        """
        ages = {name: pulse.age() for name, pulse in self._pulses.items()}
        hanging = [name for name, pulse in self._pulses.items() if pulse.hangs()]
        reason = None
        if failure is not None:
            reason = f"it failed: {failure}"
        elif stopping:
            reason = "it has been stopped"
        elif not self._tasks:
            reason = "it has not been started"
        elif hanging:
            reason = f"no turn of {', '.join(hanging)}"
        works = bool(self._tasks) and not stopping
        broken = tuple(unmended) if works else ()
        return Health(reason is None, reason, ages, stuck, hears if works else None, broken)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_failed(task.get_name(), error)
