"""The worker processes of a benchmark, as the benchmark's own process sees them.

Workers are processes of their own though there be only one: what they spend is told apart from
what the benchmark does, and a program's worker has its event loop for itself, too.
"""

import asyncio
from collections.abc import Mapping
from multiprocessing import get_context
from multiprocessing.connection import Connection
from time import monotonic
from types import TracebackType
from typing import Any, Self

from benchmarks.board import Board
from benchmarks.member import Order, Prepare, Share, work
from mutirao.errors import MutiraoError

GLANCE = 0.01  # seconds between looks at the board
PATIENCE = 60.0  # seconds without any job done, after which nobody waits any longer


class Crew:
    """Worker processes on one database. `async with` has them imported and ready, not started.

    Parameters:
        url: the database.
        processes: how many.
        settings: of each worker, as in `Mutirao.worker`.
        numbers: how many jobs are numbered, for `Board`.
        each: how many workers each process runs.
        prepare: a function of a module, which is called with the application in each process.
    """

    def __init__(
        self,
        url: str,
        processes: int = 1,
        settings: Mapping[str, Any] | None = None,
        numbers: int = 0,
        each: int = 1,
        *,
        prepare: Prepare | None = None,
    ) -> None:
        self.board = Board(processes, numbers)
        context = get_context("spawn")
        pipes = [context.Pipe() for _ in range(processes)]
        self._pipes: list[Connection[Order, Share]] = [ours for ours, _ in pipes]
        self._theirs = [theirs for _, theirs in pipes]
        self.processes = [
            context.Process(
                target=work,
                args=(url, dict(settings or {}), self.board, slot, theirs, each, prepare),
                daemon=True,
            )
            for slot, theirs in enumerate(self._theirs)
        ]

    async def __aenter__(self) -> Self:
        """Start the processes, without workers yet."""
        for process, theirs in zip(self.processes, self._theirs, strict=True):
            process.start()
            theirs.close()  # so that a process that dies is noticed
        await self._answers()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the processes, whatever they do."""
        for process in self.processes:
            process.terminate()
        for process, pipe in zip(self.processes, self._pipes, strict=True):
            process.join()
            pipe.close()

    async def start(self) -> Share:
        """Start the workers; return when all of them have registered."""
        return await self._tell(Order.START)

    async def so_far(self) -> Share:
        """Return what they have spent since."""
        return await self._tell(Order.TELL)

    async def stop(self) -> Share:
        """Stop the workers gracefully, which writes what has not been written; return the sum."""
        return await self._tell(Order.STOP)

    async def until(self, jobs: int) -> None:
        """Wait until so many jobs have run since the workers started.

        Raises:
            MutiraoError: a worker process has ended, or no job ran for a minute.
        """
        done, since = -1, monotonic()
        while done < jobs:
            await asyncio.sleep(GLANCE)
            self._check()
            before, done = done, self.board.done
            if done != before:
                since = monotonic()
            elif monotonic() > since + PATIENCE:
                raise MutiraoError(
                    f"only {done} of {jobs} jobs have run, and none for {PATIENCE:.0f} seconds;"
                    " see what the workers said, and what holds locks in the database"
                )

    async def until_begun(self, number: int) -> None:
        """Wait until a numbered job has begun; raise MutiraoError if a worker process ended."""
        while not self.board.started[number]:
            await asyncio.sleep(GLANCE)
            self._check()

    def _check(self) -> None:
        for process in self.processes:
            if process.exitcode is not None:
                raise MutiraoError(
                    f"a worker process of the benchmark ended with status {process.exitcode};"
                    " what it said is above"
                )

    async def _tell(self, order: Order) -> Share:
        for pipe in self._pipes:
            pipe.send(order)
        return await self._answers()

    async def _answers(self) -> Share:
        shares = [await asyncio.to_thread(self._answer, pipe) for pipe in self._pipes]
        memory = [share.memory for share in shares if share.memory is not None]
        return Share(
            sum(share.cpu for share in shares),
            sum(share.statements for share in shares),
            sum(memory) if memory else None,
            sum(share.claims for share in shares),
        )

    def _answer(self, pipe: "Connection[Order, Share]") -> Share:
        try:
            return pipe.recv()
        except EOFError:
            for process in self.processes:
                process.join(1.0)
            self._check()
            raise
