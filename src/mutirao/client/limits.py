"""The limits of an application: `app.limit(…)`, `app.pause(…)`, and `app.limits` for the rest.

Each operation has an asynchronous face, which does the work, and a synchronous one that calls it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, Protocol, TypedDict, Unpack

from mutirao.client.portal import Portal, blocking
from mutirao.errors import InvalidLimit, UnknownLimit
from mutirao.model.limits.limit_values import MAX_VALUE, Whose
from mutirao.model.limits.limits import (
    MAX_LIMIT_NAME,
    Limit,
    LimitOrigin,
    LimitRecord,
    Rule,
    check_name,
    pause_of,
)
from mutirao.ports import Store
from mutirao.tasks.task import Task


class Paused(TypedDict, total=False):
    """What to pause or resume.

    Parameters:
        queue: the name of the queue; or
        task: the name of the task.
        key: only jobs with this value, as text.
        by: the argument of `key`; may be left out if the limits there count by one argument only.
    """

    queue: str | None
    task: str | None
    key: str | None
    by: str | None


class LimitsApp(Protocol):
    """The application, as limits see it."""

    store: Store


class Limits:
    """The limits of an application's database.

    Parameters:
        tasks: returns the registered tasks, which may declare limits of their own.
    """

    def __init__(
        self, app: LimitsApp, tasks: Callable[[], Sequence[Task[..., Any]]], portal: Portal
    ) -> None:
        self._app, self._tasks, self._portal = app, tasks, portal
        self._of_queues: list[Rule] = []

    # In code

    def declare(self, limit: Limit, *, queue: str) -> None:
        """Declare a limit of a queue: `app.limit(Limit(10), queue="mail")`.

        A task declares its own: `@app.task(limit=Limit(10))`. When a worker with this code starts,
        it writes the limits to the database.

        Raises:
            InvalidLimit: it is not a `Limit`, or its name is taken.
        """
        rule = _limit(limit).on(queue=queue)
        _check_names((*self.declared(), rule))
        self._of_queues.append(rule)

    def marked(self) -> Callable[[], None]:
        """Return a function that withdraws all declarations from now on."""
        count = len(self._of_queues)

        def restore() -> None:
            del self._of_queues[count:]

        return restore

    def check(self, task: Task[..., Any]) -> None:
        """Raise InvalidLimit if the limits of a task have names that are taken."""
        _check_names((*self.declared(), *_limits_of(task)))

    def declared(self) -> tuple[Rule, ...]:
        """Return the limits in the code."""
        return (*chain.from_iterable(map(_limits_of, self._tasks())), *self._of_queues)

    # At run time

    async def aput(self, limit: Limit, *, queue: str | None = None, task: str | None = None) -> str:
        """Create a limit of a queue or a task, or change the one of that name; return its name.

        In force at once, for all workers. Running jobs are never stopped: if more run than the
        limit allows, no job starts until enough have ended. A change to a limit that the code
        declares lasts until the declaration changes.

        Raises:
            InvalidLimit: neither a queue nor a task is named, or both are; or the task or its
                argument is not known here. (An application without tasks may name any.)
        """
        rule = _limit(limit).on(queue=queue, task=task)
        self._check_known(task, rule.by)
        await self._app.store.limits.put(rule, origin=LimitOrigin.COMMAND)
        return rule.name

    put = blocking(aput)

    async def aremove(self, name: str) -> None:
        """Remove a limit; jobs that waited for it may run.

        If it is declared in code, the next worker that starts creates it again.

        Raises:
            UnknownLimit: there is none of that name.
        """
        if not await self._app.store.limits.remove(name):
            raise UnknownLimit(
                f"no limit is called {name!r}; `mutirao limits list` shows those there are"
            )

    remove = blocking(aremove)

    async def alist(self, *, most: int | None = None) -> tuple[LimitRecord, ...]:
        """List the limits by name, with a record for each value that they count separately.

        Parameters:
            most: how many; those for which most jobs wait come first. None: all.
        """
        return tuple(await self._app.store.limits.listed(most))

    list = blocking(alist)

    async def apaused_queues(self) -> tuple[str, ...]:
        """List the queues that are paused, by name: all of each, not one value of an argument."""
        return tuple(await self._app.store.limits.paused_queues())

    paused_queues = blocking(apaused_queues)

    async def apause(self, **where: Unpack[Paused]) -> None:
        """Pause a queue, a task, or one value of an argument: none of its jobs start any more.

        In force at once, for all workers, until resumed. Running jobs continue. Pausing twice is
        harmless.

        Parameters:
            where: the fields of `Paused`: queue or task, key, by.

        Raises:
            InvalidLimit: neither a queue nor a task is named, or both are; or the task or `by` is
                not known.
        """
        self._check_known(where.get("task"), where.get("by"))
        rule = await self._pause(**where)
        await self._app.store.limits.put(rule, origin=LimitOrigin.PAUSE)

    pause = blocking(apause)

    async def aresume(self, **where: Unpack[Paused]) -> None:
        """Resume what was paused with the same arguments.

        Raises:
            UnknownLimit: it is not paused.
            InvalidLimit: neither a queue nor a task is named, or both are; or `by` is not known.
        """
        rule = await self._pause(**where)
        if not await self._app.store.limits.remove(rule.name):
            what = rule.name.removeprefix("pause ")
            raise UnknownLimit(f"{what} is not paused; `mutirao limits list` shows what is")

    resume = blocking(aresume)

    async def _pause(
        self,
        queue: str | None = None,
        task: str | None = None,
        key: str | None = None,
        by: str | None = None,
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

    def _check_known(self, task: str | None, by: str | None) -> None:
        known = {each.name: each for each in self._tasks()}
        if task is None or not known:
            return
        if task not in known:
            raise InvalidLimit(
                f"no task {task!r} is registered here; there are: {', '.join(sorted(known))}"
            )
        if by is not None and by not in Whose._fields and not known[task].signature.takes(by):
            raise InvalidLimit(
                f"by is {by!r}, which is no argument of task {task!r}; name the one whose values"
                " are counted separately"
            )

    async def _counted_by(self, where: Rule) -> str:
        """Return the one argument by which the limits of a queue or a task count."""
        known: list[Rule | LimitRecord] = [*self.declared(), *await self._app.store.limits.listed()]
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
