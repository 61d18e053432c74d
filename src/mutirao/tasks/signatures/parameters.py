"""The parameters of a handler: the injected `Job`, those that factories provide, and arguments.

The kind depends on annotations, and those may name a type that a module defines further down, or
that a factory will provide. So parameters that are certain are checked when the handler is
registered (`decide`), and the others when it is first used (`provided`).
"""

import inspect
from collections.abc import Callable, Collection
from functools import cached_property
from inspect import Parameter
from typing import Any, NamedTuple, get_type_hints

from mutirao.errors import InvalidTask
from mutirao.model.jobs.job import Job
from mutirao.tasks.around.factories import PROVIDED, Factories
from mutirao.tasks.signatures.annotations import UNRESOLVED, hints_one_by_one, may_come
from mutirao.tasks.signatures.conversion import NoForm, readable


class Argument(NamedTuple):
    """An argument of a task, for a form that people fill in.

    Parameters:
        kind: its annotation as source text; "str" and "int" for those types.
        default: as source text; None: it is required.
        any_name: whether it takes arguments of any other name, as `**options` does.
    """

    name: str
    kind: str
    default: str | None
    any_name: bool = False


class Parameters:
    """The parameters of a handler.

    `unannotated` is the type of parameters that have no annotation.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        task: str,
        factories: Factories,
        unannotated: Any = Any,
    ) -> None:
        self._function = function
        self._task = task
        self._factories = factories
        self._unannotated = unannotated
        self.distinguished_by: list[str] = []  # arguments

    @cached_property
    def wants_job(self) -> bool:
        """True if the first parameter is annotated `Job`; raises InvalidTask if a later one is."""
        return self._takes_job(self._hints)

    @cached_property
    def provided(self) -> dict[str, Any]:
        """The types of the parameters that factories provide, by name.

        Those are the parameters whose default is PROVIDED, and those of a type that a factory
        provides by now. The others are arguments from now on.

        Raises:
            InvalidTask: such a parameter cannot be given by name, or jobs are distinguished by it;
                or an argument is of a type that JSON cannot carry.
        """
        found = {}
        for each in self._arguments:
            kind = self._hints.get(each.name, self._unannotated)
            if self._is_provided(each, kind):
                found[each.name] = kind
            else:
                self._readable(each.name, kind)
                self._factories.leave(kind, self._task)
        for name in found:
            self._check_provided(self._all[name], self._arguments)
        return found

    @cached_property
    def described(self) -> tuple[Argument, ...]:
        """The arguments that a caller gives by name, in order, without provided ones."""
        provided, found = self.provided, []
        for each in self._arguments:
            if each.name in provided or each.kind is Parameter.VAR_POSITIONAL:
                continue
            any_name = each.kind is Parameter.VAR_KEYWORD
            kind = self._hints.get(each.name, self._unannotated)
            default = "{}" if any_name else None
            if each.default is not Parameter.empty:
                default = repr(each.default)
            said = "dict" if any_name else inspect.formatannotation(kind).removeprefix("typing.")
            found.append(Argument(each.name, said, default, any_name))
        return tuple(found)

    def left_out(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
        """Return the provided parameters that a direct call of the handler leaves out."""
        marked = [each.name for each in self._all.values() if each.default is PROVIDED]
        if not marked:
            return []
        given = inspect.signature(self._function).bind_partial(*args, **kwargs).arguments
        return [name for name in marked if name not in given]

    def join(self, factories: Factories) -> None:
        """Use these factories from now on, and compute again what depends on them."""
        self._factories = factories
        for kind in type(self).__mro__:
            for name, each in vars(kind).items():
                if isinstance(each, cached_property):
                    self.__dict__.pop(name, None)

    def _takes_job(self, hints: dict[str, Any]) -> bool:
        names = [name for name, kind in hints.items() if kind is Job and name != "return"]
        if not names:
            return False
        first = next(iter(self._all.values()))
        by_place = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
        if names != [first.name] or first.kind not in by_place:
            raise InvalidTask(
                f"task {self._task!r}: `Job` annotates {', '.join(names)}; it is injected into"
                " the first positional parameter, so make that the one and only `Job`"
            )
        return True

    def _is_provided(self, parameter: Parameter, kind: Any) -> bool:
        return parameter.default is PROVIDED or self._factories.has(kind)

    def _check_provided(self, parameter: Parameter, among: list[Parameter]) -> None:
        why = self._why_not_provided(parameter, among)
        if why is not None:
            raise InvalidTask(f"task {self._task!r}: the parameter {parameter.name!r} {why}")

    def _why_not_provided(self, parameter: Parameter, among: list[Parameter]) -> str | None:
        """Return why no factory could provide this parameter, which is one of those; or None."""
        by_name, only_by_name = Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY
        place = parameter.kind
        if place not in (by_name, only_by_name) or (place is by_name and need_spreading(among)):
            return "is provided, which goes by name; put it behind a `*`"
        if any(each.kind is Parameter.VAR_KEYWORD for each in among):
            return (
                "is provided, and callers may give any name; name the arguments instead of the `**`"
            )
        if parameter.name in self.distinguished_by:
            return (
                "is provided, so jobs cannot be distinguished by it; name an argument of the call"
            )
        return None

    def decide(self, *, with_result: bool = False) -> bool:
        """Check what later factories and names cannot change.

        Returns:
            Whether that is all there is to check. Otherwise `check` decides later about parameters
            of types that JSON has no form for, which a factory may provide, and about names that a
            module may still define while it is being imported.

        Raises:
            InvalidTask: no job of this handler could run.
        """
        hints, unresolved = self._resolved_by_now()
        arguments = self._after_job(hints)
        left = bool(unresolved)
        for each in arguments:
            kind = hints.get(each.name, self._unannotated)
            if each.name in unresolved:
                continue
            if self._is_provided(each, kind):
                self._check_provided(each, arguments)
            else:
                left |= self._is_open(each.name, kind, self._why_not_provided(each, arguments))
        if with_result and "return" not in unresolved:
            left |= self._is_open("return", hints.get("return", Any), "is returned")
        return not left

    def _is_open(self, name: str, kind: Any, not_provided: str | None) -> bool:
        """Return whether it is still open if an annotation can be read."""
        try:
            self._readable(name, kind)
        except InvalidTask as refused:
            match refused.__cause__:
                case NameError() | AttributeError() as missing:
                    is_open = may_come(missing, self._function)
                case cause:
                    is_open = isinstance(cause, NoForm) and not_provided is None
            if not is_open:
                raise
            return True
        return False

    def _resolved_by_now(self) -> tuple[dict[str, Any], Collection[str]]:
        """Return the annotations that can be resolved, and the names of the others.

        Raises:
            InvalidTask: an annotation can never be resolved.
        """
        try:
            return self._hints, ()
        except InvalidTask as refused:
            if not isinstance(refused.__cause__, NameError | AttributeError):
                raise
        hints, unresolved = hints_one_by_one(self._function)
        for why in unresolved.values():
            if not may_come(why, self._function):
                raise self._unresolved(why) from why
        return hints, unresolved.keys()

    def takes(self, name: str) -> bool:
        """Return whether a call may have an argument of this name, as far as is known."""
        hints, _ = self._resolved_by_now()
        given = [
            each
            for each in self._after_job(hints)
            if not self._is_provided(each, hints.get(each.name, self._unannotated))
        ]
        named = (p.name for p in given if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD))
        return name in named or any(p.kind is p.VAR_KEYWORD for p in given)

    def require(self, parameter: str, why: str) -> None:
        """Raise InvalidTask unless each call names this parameter; `why` completes the message."""
        found = self._all.get(parameter)
        by_name = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        if found is None or found.kind not in by_name or found.default is not Parameter.empty:
            known = ", ".join(self._all) or "none"
            raise InvalidTask(
                f"{parameter!r} is {why}, but task {self._task!r} has no such parameter without a"
                f" default; its parameters are {known}"
            )

    @cached_property
    def _all(self) -> dict[str, Parameter]:
        return dict(inspect.signature(self._function).parameters)

    @cached_property
    def _hints(self) -> dict[str, Any]:
        try:
            return get_type_hints(self._function, include_extras=True)
        except UNRESOLVED as why:
            raise self._unresolved(why) from why

    @property
    def _arguments(self) -> list[Parameter]:
        """The parameters without the injected `Job`."""
        return [*self._all.values()][1 if self.wants_job else 0 :]

    def _after_job(self, hints: dict[str, Any]) -> list[Parameter]:
        return [*self._all.values()][1 if self._takes_job(hints) else 0 :]

    def _readable(self, name: str, annotation: Any) -> Any:
        """Return the annotation of a parameter, or of "return", in its form for JSON."""
        result = name == "return"
        what = "the result, which is kept," if result else f"the parameter {name!r}"
        try:
            return readable(annotation)
        except (NameError, AttributeError) as unknown:
            raise self._unresolved(unknown) from unknown
        except TypeError as unfit:
            advice = ""
            if isinstance(unfit, NoForm) and not result:
                advice = "; pass plain data, or register what provides it with @app.provide"
            raise InvalidTask(
                f"task {self._task!r}: {what} has an annotation that JSON cannot carry:"
                f" {unfit}{advice}"
            ) from unfit

    def _unresolved(self, why: Exception) -> InvalidTask:
        if isinstance(why, TypeError | SyntaxError):
            return InvalidTask(
                f"the annotations of task {self._task!r} cannot be read ({why}); register a"
                " function that was defined with def"
            )
        return InvalidTask(
            f"task {self._task!r} has an annotation that cannot be resolved: {why};"
            " import the type at run time, not only under TYPE_CHECKING"
        )


def need_spreading(arguments: list[Parameter]) -> bool:
    """Return whether a call cannot give all of these by name."""
    by_name = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    return any(each.kind not in by_name for each in arguments)
