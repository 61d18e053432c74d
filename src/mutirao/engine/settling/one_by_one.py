"""Settles attempts one by one, or in parts, after a batch was rejected.

One row that another transaction has locked, or one value that the database refuses, must not delay
the others: these are found and written, and the failing attempt is retried alone, as often as
needed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

from mutirao.engine.calls.attempt import Finished
from mutirao.engine.loops import LoopRetry
from mutirao.engine.settings import WorkerSettings
from mutirao.errors import StoreBusy, StoreError, StoreRefused, StoreUnavailable
from mutirao.log import log
from mutirao.ports import Store

MAX_CONCURRENT_STATEMENTS = 4


Settle = Callable[[list[Finished]], Awaitable[None]]
Fail = Callable[[Finished, Exception], Iterator[Finished]]


def is_splittable(error: Exception) -> bool:
    """Return whether an error may concern only one of many attempts: a lock, or a value.

    Errors about the database as a whole do not.
    """
    return isinstance(error, StoreBusy | StoreRefused) or not isinstance(error, StoreError)


class OneByOne:
    """Settles attempts one by one.

    Parameters:
        settle: writes some attempts in one batch; raises errors that `is_splittable`, or errors
            that end the worker.
        fail: yields what may be written instead of an attempt whose outcome is refused.
        on_end: called when an attempt was settled, or when the worker must end.
    """

    def __init__(
        self,
        store: Store,
        settings: WorkerSettings,
        settle: Settle,
        fail: Fail,
        on_end: Callable[[], None],
    ) -> None:
        self._store, self._settings = store, settings
        self._settle, self._fail, self._on_end = settle, fail, on_end
        self._left: dict[tuple[int, int], Finished] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns = asyncio.Semaphore(MAX_CONCURRENT_STATEMENTS)
        self.failure: BaseException | None = None

    def __len__(self) -> int:
        return len(self._left)

    def __iter__(self) -> Iterator[Finished]:
        return iter(list(self._left.values()))

    def take(self, batch: list[Finished], error: Exception) -> None:
        """Settle these attempts in the background; their batch failed with `error`."""
        self._left.update({(each.claim.id, each.claim.run): each for each in batch})
        task = asyncio.create_task(self._split(batch, error), name="mutirao-aside")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def idle(self) -> None:
        """Wait until every attempt is settled."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    def cancel(self) -> None:
        """Stop settling; the remaining attempts stay unsettled."""
        for task in self._tasks:
            task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failure = self.failure or error
        self._on_end()

    async def _split(self, batch: list[Finished], error: Exception) -> None:
        if len(batch) == 1:
            await self._settle_alone(batch[0], error)
            return
        log.warning("%s jobs could not be settled in one batch: %s", len(batch), error)
        for part in await self._parts(batch, error):
            if len(part) == 1 and isinstance(error, StoreBusy):
                self.take(part, error)  # it may take long, and the other parts must not wait for it
                continue
            try:
                await self._try(part)
            except Exception as again:
                if not is_splittable(again):
                    raise
                await self._split(part, again)

    async def _parts(self, batch: list[Finished], error: Exception) -> list[list[Finished]]:
        """Split a batch: into jobs with locked rows and the others, or in the middle."""
        half = len(batch) // 2
        halves = [batch[:half], batch[half:]]
        if not isinstance(error, StoreBusy):
            return halves
        try:
            free = await self._store.unlocked([each.claim.id for each in batch])
        except StoreError:  # whatever it is, settling the halves will raise it again
            return halves
        whole = [each for each in batch if each.claim.id in free]
        rest = [[each] for each in batch if each.claim.id not in free]
        return [whole, *rest] if whole and rest else halves if whole else rest

    async def _settle_alone(self, one: Finished, error: Exception) -> None:
        if isinstance(error, StoreBusy):
            try:
                await self._insist(one, error)
                return
            except Exception as again:
                if not is_splittable(again):
                    raise
                error = again
        await self._settle_otherwise(one, error)

    async def _settle_otherwise(self, one: Finished, error: Exception) -> None:
        """Write an outcome that the database accepts; if there is none, lose the attempt."""
        job = one.claim.id
        if isinstance(error, StoreRefused) and await self._disowned(one):
            return
        log.error("the outcome of job %s is refused", job, exc_info=error)
        for instead in self._fail(one, error):
            try:
                await self._insist(instead)
                return
            except Exception as again:
                if not is_splittable(again):
                    raise
                log.exception("the outcome that would report this for job %s is refused, too", job)
        log.critical("job %s cannot be settled at all; its attempt is lost", job)
        await self._lose(one)
        self._forget([one])

    async def _disowned(self, one: Finished) -> bool:
        """Settle an attempt whose run was written into history by hand; return if that was it."""
        try:
            if not await self._store.disown([one.claim.id]):
                return False
            await self._insist(one)
        except Exception as error:
            if not is_splittable(error):
                raise
            return False
        return True

    async def _lose(self, one: Finished) -> None:
        """Record the attempt as lost, so that it counts: after a few of them the job is dead."""
        job = one.claim.id
        trouble = LoopRetry(f"cannot give job {job} back", "", self._settings.longest_wait)
        while True:
            try:
                await self._store.lose([(job, one.claim.run)])
                return
            except StoreUnavailable as error:
                await asyncio.sleep(trouble.met(error))

    async def _insist(self, one: Finished, error: Exception | None = None) -> None:
        """Settle one attempt, retrying while it is locked; `error` is that of the previous try."""
        job = one.claim.id
        trouble = LoopRetry(f"cannot settle job {job}", "", self._settings.longest_wait)
        while True:
            if error is not None:
                await asyncio.sleep(trouble.met(error))
            try:
                await self._try([one])
                return
            except StoreBusy as busy:
                error = busy

    async def _try(self, part: list[Finished]) -> None:
        async with self._turns:
            await self._settle(part)
        self._forget(part)
        self._on_end()

    def _forget(self, part: list[Finished]) -> None:
        for each in part:
            self._left.pop((each.claim.id, each.claim.run), None)
