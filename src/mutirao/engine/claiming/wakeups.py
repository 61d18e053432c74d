"""What a worker hears: the wake-ups of its notifier, and how often it polls besides.

A notifier that chooses whom it wakes, such as a hub, is told when the worker is idle. While it
wakes for all jobs, polling is only for what nobody expects.
"""

import asyncio
from collections.abc import Callable

from mutirao.engine.settings import WorkerSettings
from mutirao.engine.trouble import Trouble
from mutirao.model.jobs.job import Wake
from mutirao.ports import ChoosingNotifier, Notifier

SELDOM = 15  # polls that are left out while a notifier wakes for all jobs: 14 of so many


class Hearing:
    """The listening of one worker.

    `hears`: whether wake-ups reach it at the moment; None: it only polls.
    """

    def __init__(self, notifier: Notifier | None, settings: WorkerSettings) -> None:
        self._notifier, self._settings = notifier, settings
        self._chooser = notifier if isinstance(notifier, ChoosingNotifier) else None
        self.hears: bool | None = None if notifier is None else False

    @property
    def poll(self) -> float:
        """The seconds after which an idle worker reads the heads of the lanes again."""
        complete = self._chooser is not None and self._chooser.complete
        return self._settings.poll * (SELDOM if complete else 1)

    def attend(self, idle: bool) -> None:
        """Say whether the worker wants wake-ups."""
        if self._chooser is not None:
            self._chooser.attend(idle)

    async def run(self, wake: Callable[[Wake], None], deaf: Callable[[bool], None]) -> None:
        """Pass wake-ups on, forever; listen again after a failure.

        `deaf` is called at a failure, with True if the worker has polled seldom until then.
        """
        trouble = self._trouble()
        while self._notifier is not None:
            seldom = False
            try:
                async for each in self._notifier.listen():
                    trouble.over()
                    self.hears, seldom = True, self.poll > self._settings.poll
                    wake(each)
            except Exception as error:  # noqa: BLE001 (raised if it does not pass)
                self.hears = False
                wait = trouble.met(error)
                deaf(seldom)
                await asyncio.sleep(wait)

    def _trouble(self) -> Trouble:
        what, longest = "cannot listen, polling goes on", self._settings.longest_wait
        if self._chooser is None:
            return Trouble(what, "listening again", longest)
        return Trouble(what, "listening again", longest, who="hub", once="outage")
