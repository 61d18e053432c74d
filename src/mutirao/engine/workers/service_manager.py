"""Reports the state of a worker to systemd, if systemd has started it, by sd_notify datagrams.

`NOTIFY_SOCKET` is the address, `WATCHDOG_USEC` the interval in which a sign of life is wanted, and
`WATCHDOG_PID` the process that shall give it. That is the whole protocol, which other service
managers use as well.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress

from mutirao.engine.workers.lifecycle import Service
from mutirao.log import log

ADDRESS, EVERY, WHOM = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"
VARIABLES = (ADDRESS, EVERY, WHOM)  # that processes of handlers do not inherit
READY, ALIVE, STOPPING = "READY=1", "WATCHDOG=1", "STOPPING=1"


class ServiceManager:
    """The service manager that has started this process; without the variables there is none.

    It removes the variables, so that no process which a handler starts answers in its place. A
    datagram that cannot be sent is logged once, and ends nothing.
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
        """Return the manager of this process; other processes do not report to it from now on."""
        found = cls(os.environ, os.getpid())
        for each in VARIABLES:
            os.environ.pop(each, None)
        return found

    @property
    def listens(self) -> bool:
        """Whether there is a service manager."""
        return bool(self._address)

    def send(self, *states: str) -> None:
        """Send it states, if there is one. Never waits."""
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
        """Report that a worker has made its first claim, and every sign of life from now on.

        There is no sign of life while a loop of the worker hangs, or a handler blocks the event
        loop.
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
        """Give signs of life as often as wanted while `lives()` is true; at once, and forever."""
        while self.every:
            if lives():
                self.send(ALIVE)
            await asyncio.sleep(self.every)
