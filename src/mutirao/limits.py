"""What users hold of limits: `app.limit(…)`, `app.pause(…)`, and `app.limits` to look and to order.

Orders have an asynchronous face, which does it, and a synchronous one, which waits for that one.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any, Protocol

from mutirao.engine.portal import Portal
from mutirao.errors import InvalidLimit, UnknownLimit
from mutirao.limit import (
    MAX_LIMIT_NAME,
    MAX_VALUE,
    Limit,
    LimitRecord,
    Origin,
    Rule,
    check_name,
    pause_of,
)
from mutirao.ports import Store
from mutirao.task import Task


class Office(Protocol):
    """The application, as limits know it."""

    store: Store


class Limits:
    """The limits of an application's database.

    Parameters:
        tasks: returns the registered tasks, which may declare limits of their own.
    """

    def __init__(
        self, app: Office, tasks: Callable[[], Sequence[Task[..., Any]]], portal: Portal
    ) -> None:
        self._app, self._tasks, self._portal = app, tasks, portal
        self._of_queues: list[Rule] = []

    # In code.

    def declare(self, limit: Limit, *, queue: str) -> None:
        """Limit a queue: `app.limit(Limit(10), queue="mail")`.

        A task says it itself: `@app.task(limit=Limit(10))`. When a worker with this code starts, it
        writes the limits down.

        Raises:
            InvalidLimit: it is no limit, or its name is taken.
        """
        rule = _limit(limit).on(queue=queue)
        _check_names((*self.declared(), rule))
        self._of_queues.append(rule)

    def check(self, task: Task[..., Any]) -> None:
        """Raise InvalidLimit if the limits of a task have names that are taken."""
        _check_names((*self.declared(), *_limits_of(task)))

    def declared(self) -> tuple[Rule, ...]:
        """Return the limits in the code."""
        return (*chain.from_iterable(map(_limits_of, self._tasks())), *self._of_queues)

    # At run time.

    async def aput(self, limit: Limit, *, queue: str | None = None, task: str | None = None) -> str:
        """Make a limit of a queue or of a task, or change the one of that name; return its name.

        In force at once, everywhere. What runs is never stopped: where more run than may, none is
        added until fewer do. Of a limit that the code declares, a change lasts until the code says
        something else.

        Raises:
            InvalidLimit: neither a queue nor a task is named, or both are.
        """
        rule = _limit(limit).on(queue=queue, task=task)
        await self._app.store.put_limit(rule, origin=Origin.COMMAND)
        return rule.name

    async def aremove(self, name: str) -> None:
        """Remove a limit; what waited for it may run. One in the code comes back with a worker.

        Raises:
            UnknownLimit: there is none of that name.
        """
        if not await self._app.store.remove_limit(name):
            raise UnknownLimit(
                f"no limit is called {name!r}; `mutirao limits list` shows those there are"
            )

    async def alist(self) -> tuple[LimitRecord, ...]:
        """List the limits by name, with a record for each value that they count apart."""
        return tuple(await self._app.store.limits())

    async def apause(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        key: str | None = None,
        by: str | None = None,
    ) -> None:
        """Let no more jobs of a queue, of a task, or of one value of an argument start.

        At once, for all workers, until it is resumed. Running jobs go on. Pausing twice is
        harmless.

        Parameters:
            queue: its name; or
            task: its name.
            key: only jobs with this value, as text.
            by: of which argument; may be left out where one limit there counts by an argument.

        Raises:
            InvalidLimit: neither a queue nor a task is named, or both; or `by` is not known.
        """
        rule = await self._pause(queue, task, key, by)
        await self._app.store.put_limit(rule, origin=Origin.PAUSE)

    async def aresume(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        key: str | None = None,
        by: str | None = None,
    ) -> None:
        """Let jobs start again that were paused with the same words.

        Raises:
            UnknownLimit: they are not paused.
        """
        rule = await self._pause(queue, task, key, by)
        if not await self._app.store.remove_limit(rule.name):
            what = rule.name.removeprefix("pause ")
            raise UnknownLimit(f"{what} is not paused; `mutirao limits list` shows what is")

    def put(self, limit: Limit, *, queue: str | None = None, task: str | None = None) -> str:
        """As `aput`."""
        return self._portal.call(partial(self.aput, limit, queue=queue, task=task))

    def remove(self, name: str) -> None:
        """As `aremove`."""
        self._portal.call(self.aremove, name)

    def list(self) -> tuple[LimitRecord, ...]:
        """As `alist`."""
        return self._portal.call(self.alist)

    def pause(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        key: str | None = None,
        by: str | None = None,
    ) -> None:
        """As `apause`."""
        self._portal.call(partial(self.apause, queue=queue, task=task, key=key, by=by))

    def resume(
        self,
        *,
        queue: str | None = None,
        task: str | None = None,
        key: str | None = None,
        by: str | None = None,
    ) -> None:
        """As `aresume`."""
        self._portal.call(partial(self.aresume, queue=queue, task=task, key=key, by=by))

    async def _pause(
        self, queue: str | None, task: str | None, key: str | None, by: str | None
    ) -> Rule:
        plain = pause_of(queue, task)
        if key is None:
            if by is not None:
                raise InvalidLimit(f"by is {by!r}, but no key is given; say which value: key=…")
            return plain
        check_name("key", key, MAX_VALUE)
        if by is not None:
            check_name("argument (by)", by, MAX_LIMIT_NAME)
        return pause_of(queue, task, by or await self._counted_by(plain), key)

    async def _counted_by(self, where: Rule) -> str:
        """Return the one argument by which limits count there."""
        known: list[Rule | LimitRecord] = [*self.declared(), *await self._app.store.limits()]
        found = {
            each.by
            for each in known
            if each.by and (each.queue, each.task) == (where.queue, where.task)
        }
        if len(found) != 1:
            some = f"count by {', '.join(sorted(found))}" if found else "count by no argument"
            raise InvalidLimit(
                f"the limits of {where.name.removeprefix('pause ')} {some}; say of which argument"
                " the key is a value: by=…"
            )
        return found.pop()


def _limits_of(task: Task[..., Any]) -> list[Rule]:
    return [limit.on(task=task.name) for limit in task.options.limits]


def _check_names(rules: Sequence[Rule]) -> None:
    [(name, times)] = Counter(rule.name for rule in rules).most_common(1) or [("", 0)]
    if times > 1:
        raise InvalidLimit(
            f"two limits are called {name!r}; give one of them another name: Limit(…, name=…)"
        )


def _limit(limit: object) -> Limit:
    if not isinstance(limit, Limit):
        raise InvalidLimit(f"the limit is {limit!r}; give a Limit, such as Limit(10)")
    return limit
