"""Dependency injection: factories of values that a handler gets by annotation, and their order.

A factory provides the type that its return annotation names; a generator provides the type that it
yields. Its own parameters are provided, too, or are the `Job`.

    @app.provide
    def open_session() -> Iterator[Session]:
        with Session(engine) as session:
            yield session

    @app.task def settle(order_id: int, *, session: Session = PROVIDED) -> None: ...
"""

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
)
from dataclasses import dataclass
from enum import Enum
from inspect import (
    Parameter,
    isasyncgenfunction,
    isclass,
    iscoroutinefunction,
    isgeneratorfunction,
    signature,
)
from typing import Any, Final, get_args, get_origin, get_type_hints

from mutirao.errors import ConfigurationError, InvalidTask
from mutirao.model.jobs.job import Job

_STREAMS = (AsyncGenerator, AsyncIterable, AsyncIterator, Generator, Iterable, Iterator)


class _Provided(Enum):
    PROVIDED = "PROVIDED"

    def __repr__(self) -> str:
        return "PROVIDED"


# The default of a parameter that a factory provides, so that type checkers let callers leave it
# out. Typed as Any, because it replaces a value of any type.
PROVIDED: Final[Any] = _Provided.PROVIDED


@dataclass(frozen=True, slots=True)
class Factory:
    """A factory: the type that it provides, and its parameters.

    Parameters:
        takes: the types of its parameters by name.
        optional: the parameters that have a default.
        asynchronous: whether it needs an event loop.
        yields: whether it is a generator, which tears down what it has provided.
    """

    function: Callable[..., Any]
    kind: Any
    takes: Mapping[str, Any]
    optional: frozenset[str]
    asynchronous: bool
    yields: bool

    def __str__(self) -> str:
        return str(getattr(self.function, "__qualname__", self.function))


class Factories:
    """The factories of an application, by the type that each provides."""

    def __init__(self) -> None:
        self._by_kind: dict[Any, Factory] = {}
        self._arguments: dict[Any, str] = {}  # types that tasks take as arguments → such a task

    def add(self, function: Callable[..., Any]) -> None:
        """Add a factory.

        Raises:
            ConfigurationError: its annotations do not name what it provides or takes, its type is
                provided already, or a task takes that type as an argument.
        """
        factory = _factory(function)
        if other := self._by_kind.get(factory.kind):
            raise ConfigurationError(
                f"{factory} and {other} provide {named(factory.kind)}; one factory provides a type"
                ' (typing.Annotated[…, "replica"] is a type of its own)'
            )
        if task := self._arguments.get(factory.kind):
            raise ConfigurationError(
                f"{factory} provides {named(factory.kind)}, which task {task!r} takes as an"
                " argument, since there was no factory before; register factories before tasks, or"
                " give the parameter the default PROVIDED"
            )
        self._by_kind[factory.kind] = factory

    def has(self, kind: Any) -> bool:
        """Return whether a factory provides a type."""
        return isinstance(kind, Hashable) and _hashes(kind) and kind in self._by_kind

    def leave(self, kind: Any, task: str) -> None:
        """Record that a task takes a type as an argument: no factory may provide it from now on."""
        if _hashes(kind):
            self._arguments.setdefault(kind, task)

    def plan(self, wanted: Mapping[str, Any], task: str, *, loop: bool) -> tuple[Factory, ...]:
        """Return the factories to call for a task, each after those that it needs.

        Parameters:
            wanted: the provided types by parameter.
            task: the task's name, for messages.
            loop: whether there is an event loop.

        Raises:
            InvalidTask: a factory is missing, or asynchronous without a loop, or some depend on
                each other in a circle.
        """
        found: dict[Any, Factory] = {}
        for name, kind in wanted.items():
            self._collect(kind, f"parameter {name!r}", _Walk(task, loop, found), ())
        return tuple(found.values())

    def _collect(self, kind: Any, where: str, walk: "_Walk", path: tuple[Any, ...]) -> None:
        if kind in walk.found or kind is Job:
            return
        if kind in path:
            circle = " → ".join(map(named, (*path[path.index(kind) :], kind)))
            raise walk.refused(f"its factories go in a circle: {circle}")
        if not self.has(kind):
            raise walk.refused(
                f"{where} is to be provided, and no factory provides {named(kind)}; register one"
                " with @app.provide"
            )
        factory = self._by_kind[kind]
        if factory.asynchronous and not walk.loop:
            raise walk.refused(
                f"the factory {factory} is asynchronous, and the handler is a plain function, which"
                " has no event loop; make the one a plain function or the other a coroutine"
            )
        for name, needed in factory.takes.items():
            if name not in factory.optional or self.has(needed) or needed is Job:
                self._collect(needed, f"parameter {name!r} of {factory}", walk, (*path, kind))
        walk.found[kind] = factory


@dataclass(frozen=True, slots=True)
class _Walk:
    task: str
    loop: bool
    found: dict[Any, Factory]

    def refused(self, why: str) -> InvalidTask:
        return InvalidTask(f"task {self.task!r}: {why}")


def given_to(factory: Factory, values: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the arguments of a factory; parameters with a default and no factory are left out."""
    return {name: values[kind] for name, kind in factory.takes.items() if kind in values}


def named(kind: Any) -> str:
    """Return the name of a type, for messages."""
    return kind.__qualname__ if isclass(kind) else str(kind)


def _factory(function: Callable[..., Any]) -> Factory:
    asynchronous = isasyncgenfunction(function) or iscoroutinefunction(function)
    yields = isasyncgenfunction(function) or isgeneratorfunction(function)
    wrapped = getattr(function, "__wrapped__", None)
    hidden = isgeneratorfunction(wrapped) or isasyncgenfunction(wrapped)
    if isclass(function) or (hidden and not yields):
        raise ConfigurationError(
            f"the factory is {function!r}; give a function, or a generator function without"
            " @contextmanager"
        )
    hints = _hints(function)
    parameters = signature(function).parameters
    return Factory(
        function=function,
        kind=_kind(function, hints.get("return"), yields),
        takes={name: _taken(function, each, hints) for name, each in parameters.items()},
        optional=frozenset(n for n, each in parameters.items() if each.default is not each.empty),
        asynchronous=asynchronous,
        yields=yields,
    )


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (NameError, AttributeError, TypeError) as unknown:
        raise ConfigurationError(
            f"an annotation of the factory {function!r} cannot be resolved: {unknown}; import the"
            " type at run time, not only under TYPE_CHECKING"
        ) from unknown


def _kind(function: Callable[..., Any], returned: Any, yields: bool) -> Any:
    kind = returned
    if yields:
        kind = get_args(returned)[0] if get_origin(returned) in _STREAMS else None
    if kind in (None, type(None), Any, Job) or not _hashes(kind):
        form = "-> Iterator[Session]" if yields else "-> Session"
        raise ConfigurationError(
            f"the factory {function!r} provides {named(returned)}; annotate the type that it"
            f" provides, as in {form}"
        )
    return kind


def _taken(function: Callable[..., Any], each: Parameter, hints: Mapping[str, Any]) -> Any:
    by_name = each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)
    if not by_name or each.name not in hints or not _hashes(hints[each.name]):
        raise ConfigurationError(
            f"parameter {each.name!r} of the factory {function!r} has no type that could be"
            " provided; annotate it with Job, or with a type that another factory provides"
        )
    return hints[each.name]


def _hashes(kind: Any) -> bool:
    try:
        hash(kind)
    except TypeError:
        return False
    return True
