"""The lifespan of a web application: its connections, and a worker if one is wanted.

It is an asynchronous context manager, and may also be called with a web application, of which it
needs nothing: so Starlette, FastAPI and Litestar accept it as a lifespan, or inside one.
"""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

from mutirao.engine.loops import Health
from mutirao.engine.workers.embedded import EmbeddedWorker

NO_WORKER = Health(False, "no worker was asked for: lifespan(worker=True)", {})


class Lifespan:
    """The time during which a web server serves; see `Mutirao.lifespan`.

    Attributes:
        worker: the worker that runs meanwhile; None if none was wanted.
    """

    def __init__(self, worker: EmbeddedWorker | None, close: Callable[[], Awaitable[None]]) -> None:
        """Set the worker to run, and what closes all connections at the end."""
        self.worker = worker
        self._close = close

    def __call__(self, web: object = None) -> Self:
        """Return itself; frameworks call their lifespan with the application."""
        return self

    def health(self) -> Health:
        """Return whether the worker works, and if not, why. For probes; usable in any thread."""
        return NO_WORKER if self.worker is None else self.worker.health()

    async def __aenter__(self) -> None:
        """Start the worker, if there is one; open nothing otherwise.

        Raises:
            SchemaError, StoreUnavailable, ConfigurationError: the worker could not start.
        """
        if self.worker is not None:
            try:
                await self.worker.__aenter__()
            except BaseException:
                await self._close()
                raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the worker gracefully, and close all connections.

        Raises:
            WorkerFailed: the worker had ended by itself.
        """
        try:
            if self.worker is not None:
                await self.worker.__aexit__(kind, error, trace)
        finally:
            await self._close()
