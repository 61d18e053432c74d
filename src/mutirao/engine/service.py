"""Ways to run a worker: inside a running event loop, in a thread, or as a whole process."""

import asyncio
import atexit
import faulthandler
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from mutirao.engine.worker import Worker
from mutirao.errors import WrongState

log = logging.getLogger("mutirao")

LAST_WORDS = 5.0  # seconds a hurried stop may take before the process ends anyway


class EmbeddedWorker:
    """A worker inside another program.

    `async with` runs it in the program's event loop (a web application's lifespan); `with`, or
    `start` and `stop`, runs it in a thread with a loop of its own (WSGI, scripts). The same
    loops and guarantees either way. A forked child does not inherit the running worker; it may
    start its own with the same object.
    """

    def __init__(self, make: Callable[[], Worker]) -> None:
        """`make` builds the worker; it is called in the event loop that will run it."""
        self._make = make
        self._worker: Worker | None = None
        self._thread: _WorkerThread | None = None

    async def __aenter__(self) -> Self:
        """Start in the running event loop."""
        if self._worker is not None:
            raise WrongState("this worker runs already; app.worker(...) gives another one")
        worker = self._make()
        await worker.start()
        self._worker = worker
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop gracefully."""
        worker, self._worker = self._worker, None
        if worker is not None:
            await worker.stop()

    def __enter__(self) -> Self:
        """Start in a thread."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop gracefully."""
        self.stop()

    @property
    def running(self) -> bool:
        """Whether the worker's thread runs in this process."""
        return self._thread is not None and self._thread.runs_here()

    def start(self) -> None:
        """Start in a thread, and return when it claims; does nothing if it runs already.

        Raises:
            SchemaError, StoreUnavailable, ConfigurationError: it could not start.
        """
        if not self.running:
            self._thread = _WorkerThread(self._make)
            self._thread.start()
            atexit.register(self.stop)

    def stop(self) -> None:
        """Stop gracefully, and return when it has ended; does nothing if it does not run."""
        thread, self._thread = self._thread, None
        if thread is not None and thread.runs_here():
            atexit.unregister(self.stop)
            thread.stop()


class _WorkerThread:
    def __init__(self, make: Callable[[], Worker]) -> None:
        self._make = make
        self._pid = os.getpid()
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._stop: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=self._run, name="mutirao-worker", daemon=True)

    def runs_here(self) -> bool:
        return self._pid == os.getpid() and self._thread.is_alive()

    def start(self) -> None:
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            self._thread.join()  # so that the next try does not find it running still
            raise self._failure

    def stop(self) -> None:
        self._stop()
        self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except Exception as error:
            self._failure = error
            if self._started.is_set():
                log.exception("the worker's thread failed")
        finally:
            self._started.set()

    async def _work(self) -> None:
        worker = self._make()
        await worker.start()
        loop, asked = asyncio.get_running_loop(), asyncio.Event()
        self._stop = lambda: loop.is_closed() or loop.call_soon_threadsafe(asked.set)
        self._started.set()
        ended = asyncio.create_task(worker.ended.wait())
        stop = asyncio.create_task(asked.wait())
        await asyncio.wait((ended, stop), return_when=asyncio.FIRST_COMPLETED)
        await worker.stop()
        for waiting in (ended, stop):
            waiting.cancel()


async def serve(make: Callable[[], Worker]) -> int:
    """Run a worker until SIGTERM or SIGINT; return the process's exit status.

    The first signal stops gracefully. The second one interrupts running handlers, gives their
    jobs back and ends, within five seconds whatever the database and the handlers do.
    """
    worker = make()
    stopping = asyncio.Event()

    def heed(name: str, times: int) -> None:
        if times == 1:
            worker.take_no_more()
            log.info("%s: stopping; once more to end at once", name)
            stopping.set()
        else:
            log.warning("%s again: ending at once", name)
            worker.hurry()

    with _signals(heed):
        await worker.start()
        ended = asyncio.create_task(worker.ended.wait())
        asked = asyncio.create_task(stopping.wait())
        await asyncio.wait((ended, asked), return_when=asyncio.FIRST_COMPLETED)
        await worker.stop()
        asked.cancel()
    return 0 if worker.failure is None else 1


@contextmanager
def _signals(heed: Callable[[str, int], None]) -> Iterator[None]:
    """Have every signal to end heeded in the event loop, with its name and how many there were.

    The event loop's own handlers would wait for a handler that blocks the loop. After the second
    signal the process ends even then, and says where its threads were.
    """
    loop, times = asyncio.get_running_loop(), 0

    def on_signal(number: int, frame: object) -> None:
        nonlocal times
        times += 1
        if times > 1:
            faulthandler.dump_traceback_later(LAST_WORDS, exit=True)
        loop.call_soon_threadsafe(heed, signal.Signals(number).name, times)

    before = {each: signal.signal(each, on_signal) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()
        for number, handler in before.items():
            signal.signal(number, handler)
