"""The code that runs around a handler, where the handler runs: in its thread, loop or process.

They are hooks and, inside of them, the values from factories (`mutirao.tasks.around.factories`).

A hook is a generator function that yields once, like a context manager. A plain one wraps plain
functions, in their thread or child process; an asynchronous one wraps coroutines, in their event
loop. Middleware (`mutirao.tasks.around.middleware`) is further outside, always in the event loop of
the worker, and also wraps refused attempts.

    @app.around_handler
    def fresh_connections(job: Job) -> Iterator[None]:
        close_old_connections()
        try:
            yield
        finally:
            close_old_connections()
"""

from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
    Mapping,
)
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
)
from dataclasses import dataclass
from inspect import isasyncgenfunction, isawaitable, iscoroutine, isgeneratorfunction
from types import TracebackType
from typing import Any, cast

from mutirao.errors import ConfigurationError
from mutirao.model.jobs.job import Job
from mutirao.tasks.around.factories import Factories, Factory, given_to

Hook = Callable[[Job], Iterator[None]]
AsyncHook = Callable[[Job], AsyncIterator[None]]


class Hooks:
    """The code around the handlers of an application: hooks, the first outermost; factories."""

    def __init__(self) -> None:
        self.hooked = False
        self.factories = Factories()
        self.hooks: tuple[Hook, ...] = ()  # around plain functions
        self.async_hooks: tuple[AsyncHook, ...] = ()  # around coroutines
        self.child_hooks: tuple[Hook, ...] = ()  # around those above, in child processes only

    def add_hook(self, hook: Callable[[Job], Any]) -> None:
        """Add a hook.

        Raises:
            ConfigurationError: it is not a generator function.
        """
        if isasyncgenfunction(hook):
            self.async_hooks += (hook,)
        elif isgeneratorfunction(hook):
            self.hooks += (hook,)
        else:
            raise ConfigurationError(
                f"the hook {hook!r} is not a generator function; define it with def or async def"
                " (without @contextmanager), and let it yield once, where the handler runs"
            )
        self.hooked = True

    def add_child_hook(self, hook: Hook) -> None:
        """Add a plain hook that wraps handlers in child processes, and no others."""
        self.child_hooks += (hook,)


@dataclass(frozen=True, slots=True)
class Inside:
    """Calls one task's handler inside its hooks and factories.

    Parameters:
        wanted: the types that factories provide to the handler, by parameter.
        plan: the factories to call, each after those that it needs.
    """

    surroundings: Hooks
    wanted: Mapping[str, Any]
    plan: tuple[Factory, ...]

    def call(self, job: Job, function: Callable[..., Any]) -> Any:
        """Call a plain function; return its result.

        Raises:
            ConfigurationError: a hook or a factory does not yield exactly once.
            TypeError: the function returns an awaitable, which is not awaited.
        """
        with ExitStack() as stack:
            for hook in self.surroundings.hooks:
                stack.enter_context(Entered(hook, hook(job)))
            values: dict[Any, Any] = {Job: job}
            for each in self.plan:
                made = each.function(**given_to(each, values))
                values[each.kind] = _entered(stack, each, made) if each.yields else made
            return _at_hand(function(**self._given(values)))

    async def acall(self, job: Job, function: Callable[..., Awaitable[Any]]) -> Any:
        """Call a coroutine function; return its result.

        Raises:
            ConfigurationError: a hook or a factory does not yield exactly once.
        """
        async with AsyncExitStack() as stack:
            for hook in self.surroundings.async_hooks:
                await stack.enter_async_context(AsyncEntered(hook, hook(job)))
            values: dict[Any, Any] = {Job: job}
            for each in self.plan:
                values[each.kind] = await _made(stack, each, values)
            return await function(**self._given(values))

    def _given(self, values: Mapping[Any, Any]) -> dict[str, Any]:
        return {name: values[kind] for name, kind in self.wanted.items()}


def _entered(stack: ExitStack | AsyncExitStack, factory: Factory, made: Any) -> Any:
    return stack.enter_context(Entered(factory.function, made))


async def _made(stack: AsyncExitStack, factory: Factory, values: Mapping[Any, Any]) -> Any:
    made = factory.function(**given_to(factory, values))
    if not factory.yields:
        return await made if factory.asynchronous else made
    if factory.asynchronous:
        return await stack.enter_async_context(AsyncEntered(factory.function, made))
    return _entered(stack, factory, made)


class Entered(AbstractContextManager[Any, None]):
    """A generator that yields once, as a context manager that cannot swallow an error.

    Unlike those of `contextlib`, which can: the failure of a handler must not become a success.
    """

    def __init__(self, function: Callable[..., Any], steps: Iterator[Any]) -> None:
        self._function, self._steps = function, cast(Generator[Any, None, None], steps)

    def __enter__(self) -> Any:
        for value in self._steps:
            return value
        raise _never_yielded(self._function)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                next(self._steps)
            else:
                self._steps.throw(error)
        except StopIteration:
            return
        except BaseException as raised:
            if raised is not error:
                raise
            error.__traceback__ = trace  # without the frames of the generator
            return
        self._steps.close()
        raise _yielded_twice(self._function) from error


class AsyncEntered(AbstractAsyncContextManager[Any, None]):
    """The same for an asynchronous generator."""

    def __init__(self, function: Callable[..., Any], steps: AsyncIterator[Any]) -> None:
        self._function, self._steps = function, cast(AsyncGenerator[Any, None], steps)

    async def __aenter__(self) -> Any:
        async for value in self._steps:
            return value
        raise _never_yielded(self._function)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                await anext(self._steps)
            else:
                await self._steps.athrow(error)
        except StopAsyncIteration:
            return
        except BaseException as raised:
            if raised is not error:
                raise
            error.__traceback__ = trace
            return
        await self._steps.aclose()
        raise _yielded_twice(self._function) from error


def _at_hand(value: Any) -> Any:
    if not isawaitable(value):
        return value
    if iscoroutine(value):
        value.close()
    raise TypeError(
        f"the handler returned {value!r}, which nobody awaits here; make the handler"
        " an `async def` that no decorator hides"
    )


def _never_yielded(function: object) -> ConfigurationError:
    return ConfigurationError(f"{function!r} did not yield; it yields exactly once")


def _yielded_twice(function: object) -> ConfigurationError:
    return ConfigurationError(f"{function!r} yielded twice; it yields exactly once")
