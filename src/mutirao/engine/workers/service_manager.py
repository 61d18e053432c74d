"""Reports to systemd how a worker does, if systemd has started it: sd_notify, a datagram a state.

`NOTIFY_SOCKET` says where, `WATCHDOG_USEC` how often it wants a sign of life, and `WATCHDOG_PID`
from whom. That is all there is to the protocol, which other managers of services speak as well.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress

from mutirao.engine.workers.lifecycle import Service
from mutirao.log import log

ADDRESS, EVERY, WHOM = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"
VARIABLES = (ADDRESS, EVERY, WHOM)  # which processes that a handler starts do not inherit
READY, ALIVE, STOPPING = "READY=1", "WATCHDOG=1", "STOPPING=1"


class ServiceManager:
    """Whoever has started this process and wants to hear of it; nobody, without the variables.

    It takes the variables away, so that no process which a handler starts answers in its place.
    What cannot be sent is logged once, and ends nothing.
    """

    def __init__(self, variables: Mapping[str, str], pid: int) -> None:
        """Read the variables of a process."""
        self._address = variables.get(ADDRESS, "")
        whom = variables.get(WHOM, str(pid))
        every = variables.get(EVERY, "") if whom == str(pid) else ""
        self.every = int(every) / 2_000_000 if every.isdecimal() else 0.0  # twice as often
        self._failed = False

    @classmethod
    def of_this_process(cls) -> "ServiceManager":
        """Return that of this process, to which no other one answers from now on."""
        found = cls(os.environ, os.getpid())
        for each in VARIABLES:
            os.environ.pop(each, None)
        return found

    @property
    def listens(self) -> bool:
        """Whether there is somebody."""
        return bool(self._address)

    def send(self, *states: str) -> None:
        """Send it states, if it listens. It never waits."""
        if not self._address:
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as line:
                line.sendto("\n".join(states).encode(), address)
        except OSError as error:
            if not self._failed:
                log.warning("systemd cannot be sent %s: %s", ", ".join(states), error)
            self._failed = True

    async def follow(self, worker: Service) -> None:
        """Report that a worker has made its first claim, and of each sign of life from now on.

        There is none while a loop of the worker hangs, or a handler blocks the event loop.
        """
        if not self._address:
            return
        living = asyncio.create_task(self.live(lambda: worker.condition().live))
        try:
            await worker.first_claim()
            self.send(READY)
            await living
        finally:
            living.cancel()
            with suppress(asyncio.CancelledError):
                await living

    async def live(self, lives: Callable[[], bool]) -> None:
        """Give signs of life as often as wanted, as long as that is so; at once, and forever."""
        while self.every:
            if lives():
                self.send(ALIVE)
            await asyncio.sleep(self.every)
