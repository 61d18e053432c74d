"""The transactions of `job.transaction()` on a MemoryStore with a `session_factory`."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from types import TracebackType
from typing import Any, Protocol

from mutirao.errors import WrongState

ManagedSession = AbstractContextManager[Any] | AbstractAsyncContextManager[Any]
SessionFactory = Callable[[], ManagedSession]


class Completing(Protocol):
    """The part of a store for a transaction of one of its jobs."""

    def adopt(self, session: object) -> AbstractContextManager[None]:
        """Record jobs that are enqueued through `session` inside this block."""

    def require(self) -> None:
        """Raise StaleRun if the job was taken from this attempt."""

    def whole(self) -> AbstractContextManager[None]:
        """Complete the job after this block, or take back the enqueued ones if it fails."""


class MemoryTransaction:
    """The block of a session, and the job's completion when that was left without an error.

    The session and the store are two things, one after the other: no common commit. But a stale
    run raises inside the session's own block, so that the session rolls back.
    """

    def __init__(self, opened: ManagedSession, completion: Completing) -> None:
        self._opened = opened
        self._completion = completion
        self._sync = self._block()
        self._async = self._async_block()

    def __enter__(self) -> Any:
        return self._sync.__enter__()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._sync.__exit__(kind, error, traceback)

    async def __aenter__(self) -> Any:
        return await self._async.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._async.__aexit__(kind, error, traceback)

    @contextmanager
    def _block(self) -> Iterator[Any]:
        if not isinstance(self._opened, AbstractContextManager):
            raise _unsuited(self._opened, "with")
        with self._completion.whole(), self._opened as session:
            with self._completion.adopt(session):
                yield session
            self._completion.require()

    @asynccontextmanager
    async def _async_block(self) -> AsyncIterator[Any]:
        if not isinstance(self._opened, AbstractAsyncContextManager):
            raise _unsuited(self._opened, "async with")
        with self._completion.whole():
            async with self._opened as session:
                with self._completion.adopt(session):
                    yield session
                self._completion.require()


def _unsuited(opened: ManagedSession, statement: str) -> WrongState:
    return WrongState(
        f"session_factory made a {type(opened).__name__}, which cannot be entered with"
        f" `{statement}`; wrap it in contextlib.nullcontext, which can be entered both ways."
    )
