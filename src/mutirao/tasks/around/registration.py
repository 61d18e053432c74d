"""Registers code around an application's jobs: middleware, hooks and factories."""

from collections.abc import Callable
from typing import Any, TypeVar

from mutirao.model.jobs.job import Job
from mutirao.tasks.around.hooks import AsyncHook, Hook, Hooks
from mutirao.tasks.around.middleware import (
    AttemptMiddleware,
    EnqueueManyMiddleware,
    EnqueueMiddleware,
)

AroundEnqueue = TypeVar("AroundEnqueue", bound=EnqueueMiddleware)
AroundEnqueueMany = TypeVar("AroundEnqueueMany", bound=EnqueueManyMiddleware)
AroundAttempt = TypeVar("AroundAttempt", bound=Callable[[Job], Any])
Provider = TypeVar("Provider", bound=Callable[..., Any])
ChildHook = TypeVar("ChildHook", bound=Hook)
AroundHandler = TypeVar("AroundHandler", bound=Hook | AsyncHook)


class HookRegistry:
    """Registers code around enqueues, attempts and handlers."""

    _around_enqueue: list[EnqueueMiddleware]
    _around_enqueue_many: list[EnqueueManyMiddleware]
    _around_attempt: list[AttemptMiddleware]
    _surroundings: Hooks

    def around_enqueue(self, middleware: AroundEnqueue) -> AroundEnqueue:
        """Register a middleware that wraps every enqueue, in this process; return it.

        Parameters:
            middleware: a generator function that takes the `NewJob`, yields it or another one in
                its place, once, and receives the `Handle`. The first one added is the outermost.
        """
        self._around_enqueue.append(middleware)
        return middleware

    def around_enqueue_many(self, middleware: AroundEnqueueMany) -> AroundEnqueueMany:
        """Register a middleware that wraps calls that enqueue many jobs; return it.

        Those are `enqueue_many`, `publish_many` and `enqueue_graph`.

        Parameters:
            middleware: a plain generator function without parameters that yields once, around the
                whole call: the middleware of each of its jobs runs inside. An error is raised at
                the yield, and cannot be swallowed. The first one added is the outermost.
        """
        self._around_enqueue_many.append(middleware)
        return middleware

    def around_attempt(self, middleware: AroundAttempt) -> AroundAttempt:
        """Register a middleware that wraps every attempt, in the worker's event loop; return it.

        Parameters:
            middleware: a generator function, asynchronous or not, that takes the `Job`, yields
                once, and receives the `Outcome`. The first one added is the outermost.
        """
        self._around_attempt.append(middleware)
        return middleware

    def around_handler(self, hook: AroundHandler) -> AroundHandler:
        """Register a hook around handlers, which runs where the handler runs.

        A hook takes the `Job` and yields once. A plain generator function wraps plain functions, in
        their own thread or child process; an asynchronous one wraps coroutines, in their event
        loop. A handler's error is raised at the yield. A hook may raise another one instead, but
        cannot swallow it. An error of a hook fails the attempt. The first one added is the
        outermost. It applies to the attempts that begin from now on.

        Raises:
            ConfigurationError: the hook is not a generator function.
        """
        self._surroundings.add_hook(hook)
        return hook

    def around_child(self, hook: ChildHook) -> ChildHook:
        """Register a hook around handlers in child processes (`process=True`), and no others.

        A plain generator function at module level; outside of those of `around_handler`.
        """
        self._surroundings.add_child_hook(hook)
        return hook

    def provide(self, factory: Provider) -> Provider:
        """Register a factory that provides the type of its return annotation to handlers.

        A parameter of that type, or with the default `PROVIDED`, is no argument of a call. The
        factory is called for each attempt, at most once, where the handler runs: in its own thread,
        event loop or child process, inside the hooks. A generator function provides what it yields,
        once, and tears it down after the handler, however that has ended; the handler's error is
        raised at the yield, and cannot be swallowed. Parameters of a factory are provided as well,
        or annotated `Job`. Asynchronous factories are for coroutines only. An error of a factory
        fails the attempt.

        Raises:
            ConfigurationError: the annotations do not name what it provides and takes, another
                factory provides that type, or a task takes it as an argument already.
        """
        self._surroundings.factories.add(factory)
        return factory
