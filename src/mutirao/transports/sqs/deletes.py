"""Deletes finished messages, ten at a time or after a fifth of a second."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from mutirao.errors import TransportError
from mutirao.transports.sqs.calls import MOST
from mutirao.transports.sqs.leases import Lease

LINGER = 0.2  # seconds
Delete = Callable[[Sequence[Lease]], Awaitable[list[TransportError | None]]]


class Deletes:
    """The messages of one consumer that wait to be deleted.

    Parameters:
        delete: deletes some; returns for each why it is not deleted, or None.
        out: returns how many are being worked on, these included: once all of them wait, no other
            can come soon.
    """

    def __init__(self, delete: Delete, out: Callable[[], int]) -> None:
        self._delete, self._out = delete, out
        self._waiting: list[tuple[Lease, asyncio.Future[TransportError | None]]] = []
        self._under_way: set[asyncio.Task[None]] = set()
        self._asked = 0
        self._timer: asyncio.TimerHandle | None = None

    async def all(self, leases: Sequence[Lease]) -> list[TransportError | None]:
        """Delete these; return for each why it is not deleted, or None."""
        loop = asyncio.get_running_loop()
        futures = [loop.create_future() for _ in leases]
        self._waiting += zip(leases, futures, strict=True)
        while len(self._waiting) >= MOST:
            self._flush()
        if self._waiting and len(self._waiting) + self._asked >= self._out():
            self._flush()
        elif self._waiting and self._timer is None:
            self._timer = loop.call_later(LINGER, self._flush)
        return list(await asyncio.gather(*futures))

    async def flush(self) -> None:
        """Delete what waits, and wait until that is done."""
        while self._waiting:
            self._flush()
        while self._under_way:
            await asyncio.wait(self._under_way)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
        if batch:
            self._asked += len(batch)
            task = asyncio.get_running_loop().create_task(self._ask(batch))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _ask(
        self, batch: Sequence[tuple[Lease, "asyncio.Future[TransportError | None]"]]
    ) -> None:
        try:
            found = await self._delete([lease for lease, _ in batch])
        except BaseException as error:
            _fail([future for _, future in batch], error)
            if not isinstance(error, Exception):
                raise
        else:
            for (_, future), each in zip(batch, found, strict=True):
                if not future.done():
                    future.set_result(each)
        finally:
            self._asked -= len(batch)


def _fail(futures: Sequence["asyncio.Future[TransportError | None]"], error: BaseException) -> None:
    for future in futures:
        if not future.done():
            future.set_exception(error) if isinstance(error, Exception) else future.cancel()
