"""A worker inside another program: in its event loop, or in a thread."""

import asyncio
import atexit
import concurrent.futures.thread  # noqa: F401 (see `EmbeddedWorker.start`)
import os
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import replace
from types import TracebackType
from typing import Self

from mutirao.engine.loops import Health
from mutirao.engine.workers.lifecycle import Service
from mutirao.engine.workers.process import until_ending
from mutirao.errors import WorkerFailed, WrongState
from mutirao.log import log

NOT_STARTED = Health(False, "it has not been started", {})
FIRST_CLAIM_TIMEOUT = 5.0  # seconds that `start` waits for it; a database outage may delay it


class EmbeddedWorker:
    """A worker inside another program.

    `async with` runs it in the program's event loop (a web application's lifespan); `with`, or
    `start` and `stop`, runs it in a thread with a loop of its own (WSGI, scripts). Loops and
    guarantees are the same in both cases. A forked child does not inherit the running worker; it
    may start its own with the same object. If the worker ends by itself, `failed` and `health` say
    so, and the end of a block raises WorkerFailed; but if a newer version of the application has
    taken over (`drain_on_new_version`), only `health` says that it has been stopped.
    """

    def __init__(self, make: Callable[[], Service]) -> None:
        """Set the factory: `make` builds the worker, in the event loop that will run it."""
        self._make = make
        self._worker: Service | None = None
        self._thread: _WorkerThread | None = None
        self._failure: Future[None] = Future()
        self._ended = NOT_STARTED  # the health of the last worker, once it has ended

    async def __aenter__(self) -> Self:
        """Start the worker in the running event loop.

        Raises:
            WrongState: the worker runs already.
            SchemaError, StoreUnavailable, ConfigurationError: it could not start.
        """
        if self._worker is not None:
            raise WrongState("this worker runs already; app.worker(...) gives another one")
        worker = self._make()
        self._failure = Future()
        await worker.start()
        self._worker = worker
        self._watching = asyncio.create_task(_report_failure(worker, self._failure))
        self._asked = asyncio.Event()
        self._ending = asyncio.create_task(until_ending(worker, self._asked))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the worker gracefully.

        Raises:
            WorkerFailed: the worker had ended by itself.
        """
        worker, self._worker = self._worker, None
        if worker is not None:
            self._asked.set()
            await self._ending
            await worker.stop()
            self._ended = replace(worker.health(), ages={})
            self._watching.cancel()
            _raise_failure(worker.failure, error)

    def __enter__(self) -> Self:
        """Start the worker in a thread; see `start`."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop the worker gracefully.

        Raises:
            WorkerFailed: the worker had ended by itself.
        """
        thread = self._thread
        self.stop()
        if thread is not None and thread.worker is not None:
            _raise_failure(thread.worker.failure, error)

    @property
    def running(self) -> bool:
        """True if the worker's thread runs in this process."""
        return self._thread is not None and self._thread.runs_here()

    @property
    def failed(self) -> Awaitable[None]:
        """An awaitable that raises WorkerFailed when the worker has ended by itself.

        It never completes otherwise. For example, await it in a task beside the program's own.
        """
        return asyncio.shield(asyncio.wrap_future(self._failure))

    def health(self) -> Health:
        """Return whether the worker works, and if not, why. For probes; usable in any thread."""
        worker = self._worker or (self._thread.worker if self._thread is not None else None)
        if self._thread is not None and not self._thread.is_of_this_process():
            return NOT_STARTED
        return self._ended if worker is None else worker.health()

    def start(self) -> None:
        """Start the worker in a thread, and return after its first claim; does nothing if it runs.

        Waits at most 5 seconds for the first claim. By then the worker has imported its modules.
        That matters for forks: a child that is forked while another thread imports a module never
        gets the lock of that import.

        Raises:
            SchemaError, StoreUnavailable, ConfigurationError: it could not start.
        """
        if not self.running:
            self._failure = Future()
            self._ended = NOT_STARTED
            self._thread = _WorkerThread(self._make, self._failure)
            self._thread.start()
            atexit.register(self.stop)

    def stop(self) -> None:
        """Stop the worker gracefully, and return when it has ended; do nothing if not running."""
        thread, self._thread = self._thread, None
        if thread is not None and thread.runs_here():
            atexit.unregister(self.stop)
            thread.stop()
        if thread is not None and thread.worker is not None and thread.is_of_this_process():
            self._ended = replace(thread.worker.health(), ages={})


class _WorkerThread:
    def __init__(self, make: Callable[[], Service], failure: Future[None]) -> None:
        self._make, self._failure = make, failure
        self._pid = os.getpid()
        self._started, self._claimed = threading.Event(), threading.Event()
        self._refused: BaseException | None = None
        self._stop: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=self._run, name="mutirao-worker", daemon=True)
        self.worker: Service | None = None

    def is_of_this_process(self) -> bool:
        return self._pid == os.getpid()

    def runs_here(self) -> bool:
        return self.is_of_this_process() and self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()
        self._started.wait()
        self._claimed.wait(FIRST_CLAIM_TIMEOUT)  # not in the loop, which a first job may block
        if self._refused is not None:
            self._thread.join()  # so that the next try does not find it still running
            raise self._refused

    def stop(self) -> None:
        self._stop()
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except Exception as error:  # noqa: BLE001 (raised by `start`, or logged)
            self._refused = error
            if self._started.is_set():
                log.exception("the worker's thread failed")
        finally:
            self._started.set()
            self._claimed.set()

    async def _work(self) -> None:
        worker = self._make()
        await worker.start()
        self.worker = worker
        loop, asked = asyncio.get_running_loop(), asyncio.Event()
        self._stop = lambda: loop.is_closed() or loop.call_soon_threadsafe(asked.set)
        self._started.set()
        settling = asyncio.create_task(self._settle_in(worker))
        watching = asyncio.create_task(_report_failure(worker, self._failure))
        await until_ending(worker, asked)
        await worker.stop()
        for waiting in (watching, settling):
            waiting.cancel()

    async def _settle_in(self, worker: Service) -> None:
        await worker.first_claim()
        self._claimed.set()


async def _report_failure(worker: Service, failed: "Future[None]") -> None:
    await worker.failed.wait()
    failed.set_exception(_failure(worker.failure))


def _failure(cause: BaseException | None) -> WorkerFailed:
    if isinstance(cause, WorkerFailed):
        return cause
    failure = WorkerFailed(f"the worker has ended by itself: {cause}")
    failure.__cause__ = cause
    return failure


def _raise_failure(cause: BaseException | None, error: BaseException | None) -> None:
    """Raise the error that ended a worker, or add it as a note to the one that ends the block."""
    if cause is None:
        return
    if error is not None:
        error.add_note(str(_failure(cause)))
        return
    raise _failure(cause)
