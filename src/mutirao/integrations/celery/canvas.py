"""Signatures, chains, groups and chords: Celery's canvas, as far as our graphs say the same.

The result of what comes before is the first argument of each that follows, unless its signature is
immutable (`si`). A graph is written whole: the database knows it from the beginning.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from mutirao import PREVIOUS
from mutirao.errors import ConfigurationError
from mutirao.integrations.celery.refusing import refusal
from mutirao.integrations.celery.results import AsyncResult, GroupResult
from mutirao.model.graphs.graph import (
    Chain,
    Group,
    Part,
    Step,
    chain as our_chain,
    group as our_group,
    step as our_step,
)

if TYPE_CHECKING:
    from mutirao.client.graphs import GraphHandle
    from mutirao.integrations.celery.celery_task import CeleryTask

_NOTHING: Any = object()


class Canvas:
    """A part that can be called, and joined with `|`."""

    def __or__(self, other: "Canvas") -> "chain":
        if not isinstance(other, Canvas):
            return NotImplemented
        return chain(*_parts(self), *_parts(other))

    def delay(self, *args: Any, **kwargs: Any) -> Any:
        """Enqueue it, with further arguments for its first task."""
        return self.apply_async(args, kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.apply_async(args, kwargs)

    def apply_async(
        self,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        """Enqueue it as one graph; `conn=` is the connection whose transaction it joins."""
        conn = {"conn": options.pop("conn")} if "conn" in options else {}
        whole = self._with(tuple(args or ()), dict(kwargs or {}), options)
        app = whole._first()._task.app
        steps: list[tuple[CelerySignature, Step]] = []
        part = whole._part(_NOTHING, steps)
        handle = app.enqueue_graph(part, **conn)
        return whole._result(handle, {id(signature): step for signature, step in steps}, None)

    def on_error(self, errback: object) -> NoReturn:
        """Refuse it."""
        raise refusal(f"{type(self).__name__}.on_error(…)", "use @task.on_dead", "canvas")

    link_error = on_error

    def _with(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], options: dict[str, Any]
    ) -> "Canvas":
        """Return it with further arguments and options for its first task."""
        raise NotImplementedError

    def _first(self) -> "CelerySignature":
        raise NotImplementedError

    def _part(self, before: Any, steps: "list[tuple[CelerySignature, Step]]") -> Part:
        """Return the part of a graph; `before` is a placeholder for the previous result."""
        raise NotImplementedError

    def _result(
        self, handle: "GraphHandle", steps: Mapping[int, Step], parent: AsyncResult | None
    ) -> Any:
        raise NotImplementedError


@dataclass(eq=False)
class CelerySignature(Canvas):
    """A call of a task that is not made yet; `task.s(…)` and `task.si(…)` make one."""

    _task: "CeleryTask"
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    immutable: bool = False

    @property
    def task(self) -> str:
        """The name of the task."""
        return self._task.name

    def set(self, immutable: bool | None = None, **options: Any) -> "CelerySignature":
        """Return it with more options, which are those of `apply_async`."""
        fixed = self.immutable if immutable is None else immutable
        options = {**self.options, **options}
        return CelerySignature(self._task, self.args, self.kwargs, options, fixed)

    def clone(
        self, args: Iterable[Any] = (), kwargs: Mapping[str, Any] | None = None, **options: Any
    ) -> "CelerySignature":
        """Return it with more arguments: those by place come first."""
        return self._with(tuple(args), dict(kwargs or {}), options)

    def apply_async(
        self,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        """Enqueue it, with more arguments: those by place come first."""
        whole = self._with(tuple(args or ()), dict(kwargs or {}), options)
        return whole._task.apply_async(whole.args, whole.kwargs, **whole.options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, as in Celery."""
        whole = self._with(args, kwargs, {})
        return self._task(*whole.args, **whole.kwargs)

    def _with(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], options: dict[str, Any]
    ) -> "CelerySignature":
        if not self.immutable:
            args, kwargs = (*args, *self.args), {**self.kwargs, **kwargs}
        else:
            args, kwargs = self.args, self.kwargs
        options = {**self.options, **options}
        return CelerySignature(self._task, args, kwargs, options, self.immutable)

    def _first(self) -> "CelerySignature":
        return self

    def _part(self, before: Any, steps: "list[tuple[CelerySignature, Step]]") -> Step:
        args = self.args if self.immutable or before is _NOTHING else (before, *self.args)
        made = our_step(self._task.job(args, self.kwargs, self.options))
        steps.append((self, made))
        return made

    def _result(
        self, handle: "GraphHandle", steps: Mapping[int, Step], parent: AsyncResult | None
    ) -> AsyncResult:
        return AsyncResult(handle[steps[id(self)]].id, self._task.app, parent)


class chain(Canvas):  # noqa: N801 (as it is called there)
    """Calls one after the other: each gets the result of the one before it."""

    def __init__(self, *parts: Any) -> None:
        self.tasks = _several(parts, "chain")

    def _with(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], options: dict[str, Any]
    ) -> "chain":
        first, *rest = self.tasks
        return chain(first._with(args, kwargs, options), *(_copied(each) for each in rest))

    def _first(self) -> CelerySignature:
        first: CelerySignature = self.tasks[0]._first()
        return first

    def _part(self, before: Any, steps: list[tuple[CelerySignature, Step]]) -> Chain:
        parts = []
        for each in self.tasks:
            parts.append(each._part(before, steps))
            before = PREVIOUS
        return our_chain(*parts)

    def _result(self, handle: "GraphHandle", steps: Mapping[int, Step], parent: Any) -> Any:
        for each in self.tasks:
            parent = each._result(handle, steps, parent)
        return parent


class group(Canvas):  # noqa: N801 (as it is called there)
    """Calls that do not wait for each other."""

    def __init__(self, *parts: Any) -> None:
        self.tasks = _several(parts, "group")

    def _with(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], options: dict[str, Any]
    ) -> "group":
        return group([each._with(args, kwargs, options) for each in self.tasks])

    def _first(self) -> CelerySignature:
        first: CelerySignature = self.tasks[0]._first()
        return first

    def _part(self, before: Any, steps: list[tuple[CelerySignature, Step]]) -> Group:
        return our_group(*(each._part(before, steps) for each in self.tasks))

    def _result(
        self, handle: "GraphHandle", steps: Mapping[int, Step], parent: AsyncResult | None
    ) -> GroupResult:
        return GroupResult([each._result(handle, steps, parent) for each in self.tasks], parent)


class chord:  # noqa: N801 (as it is called there)
    """A group, and a call that gets the list of its results: `chord(header)(body)`."""

    def __new__(cls, header: Any, body: Canvas | None = None) -> Any:
        """Return the chain of both; without a body what waits for it."""
        whole = header if isinstance(header, group) else group(header)
        return chain(whole, body) if body is not None else _Header(whole)


class _Header:
    """A chord without its body."""

    def __init__(self, header: group) -> None:
        self._header = header

    def __call__(self, body: Canvas, **options: Any) -> Any:
        return chain(self._header, body).apply_async(**options)


def _several(given: tuple[Any, ...], what: str) -> list[Any]:
    one = given[0] if len(given) == 1 else None
    several = list(one) if isinstance(one, Iterable) and not isinstance(one, Canvas) else [*given]
    for each in several:
        if not isinstance(each, Canvas):
            raise ConfigurationError(
                f"a part of a {what} is {each!r:.100}; give signatures, as task.s(…) makes them"
            )
    if not several:
        raise refusal(f"an empty {what}", "give it a part", "canvas")
    return [_copied(each) for each in several]


def _copied(each: Canvas) -> Canvas:
    """Return a copy of a signature: the same one may be used in several places."""
    return each._with((), {}, {}) if isinstance(each, CelerySignature) else each


def _parts(each: Canvas) -> list[Canvas]:
    return list(each.tasks) if isinstance(each, chain) else [each]
