"""Code around every enqueue and every attempt: logging, tracing, metrics, tenants.

A middleware is a generator function that yields once, like a context manager: the code before the
yield runs before, the code after it runs after, and the yield returns the result. One body serves
synchronous and asynchronous callers.

    def trace(job: NewJob) -> EnqueueSteps:
        with tracer.start_span(job.task):
            handle = yield replace(job, traceparent=current_traceparent())

    async def measure(job: Job) -> AsyncAttemptSteps:
        outcome = yield
        await statsd.count(job.task, outcome.kind)

The first middleware in the list is the outermost. An error before the yield of an enqueue refuses
the job; an error in an attempt has the same effect as an error of the handler (so `raise
Snooze(60)` works too).
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, TypeVar

from mutirao.errors import ConfigurationError
from mutirao.model.jobs.job import Job, NewJob
from mutirao.model.jobs.outcome import Outcome
from mutirao.tasks.around.hooks import Entered
from mutirao.tasks.handle import Handle

EnqueueSteps = Generator[NewJob, Handle[Any], None]
EnqueueMiddleware = Callable[[NewJob], EnqueueSteps]
EnqueueManySteps = Iterator[None]
EnqueueManyMiddleware = Callable[[], EnqueueManySteps]
AttemptSteps = Generator[None, Outcome, None]
AsyncAttemptSteps = AsyncGenerator[None, Outcome]
AttemptMiddleware = Callable[[Job], AttemptSteps] | Callable[[Job], AsyncAttemptSteps]
Perform = Callable[[], Awaitable[Outcome]]
Judge = Callable[[BaseException], Outcome]
Y = TypeVar("Y")


class Enqueueing:
    """The opened enqueue middleware of one job: write `job`, then call `done` or `failed`."""

    def __init__(self, middleware: Sequence[EnqueueMiddleware], job: NewJob) -> None:
        self.job = job
        self._open: list[EnqueueSteps] = []
        for each in middleware:
            steps = each(self.job)
            try:
                self.job = next(steps)
            except StopIteration:
                raise _never_yielded(each) from None
            except BaseException as error:
                self.failed(error)
                raise
            self._open.append(steps)

    def done(self, handle: Handle[Any]) -> None:
        """Pass the handle to every middleware, innermost first; raise their first error."""
        raised: list[BaseException] = []
        while self._open:
            try:
                _finish(self._open.pop(), handle)
            except BaseException as error:  # noqa: BLE001 (raised below, after all were called)
                raised.append(error)
        if raised:
            raise raised[0]

    def failed(self, error: BaseException) -> None:
        """Raise the error in every middleware, innermost first, because the job was not written.

        A middleware may raise another error instead, which the outer ones and the caller receive.
        """
        seen = error
        while self._open:
            try:
                self._open.pop().throw(seen)
            except StopIteration:
                continue
            except BaseException as raised:  # noqa: BLE001 (raised below, after all were called)
                seen = raised
        if seen is not error:
            raise seen


def around_enqueue_many(middleware: Sequence[EnqueueManyMiddleware]) -> ExitStack:
    """Return a context for one call that enqueues many jobs: entered, to be used as `with`."""
    with ExitStack() as stack:
        for each in middleware:
            stack.enter_context(Entered(each, each()))
        return stack.pop_all()


async def around_attempt(
    middleware: Sequence[AttemptMiddleware], job: Job, perform: Perform, judge: Judge
) -> Outcome:
    """Run an attempt inside its middleware, the first outermost; return its outcome.

    `judge` turns an error of a middleware into an outcome, which the outer ones receive.
    """
    if not middleware:
        return await perform()
    outer, inner = middleware[0], middleware[1:]
    try:
        steps = outer(job)
        if isinstance(steps, AsyncGenerator):
            if await anext(steps, _OVER) is _OVER:
                raise _never_yielded(outer)
            outcome = await around_attempt(inner, job, perform, judge)
            await _afinish(steps, outcome)
            return outcome
        if next(steps, _OVER) is _OVER:
            raise _never_yielded(outer)
        outcome = await (around_attempt(inner, job, perform, judge) if inner else perform())
        _finish(steps, outcome)
    except BaseException as error:  # noqa: BLE001 (whatever is raised becomes an outcome)
        return judge(error)
    return outcome


_OVER = object()


def _finish(steps: Generator[object, Y, None], value: Y) -> None:
    try:
        steps.send(value)
    except StopIteration:
        return
    steps.close()
    raise ConfigurationError("a middleware yielded twice; it yields exactly once")


async def _afinish(steps: AsyncAttemptSteps, outcome: Outcome) -> None:
    try:
        await steps.asend(outcome)
    except StopAsyncIteration:
        return
    await steps.aclose()
    raise ConfigurationError("a middleware yielded twice; it yields exactly once")


def _never_yielded(middleware: object) -> ConfigurationError:
    return ConfigurationError(f"the middleware {middleware!r} did not yield; it yields once")
