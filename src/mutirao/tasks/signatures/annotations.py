"""The parts of annotations: their own text, and the fields of the classes in it."""

import inspect
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import is_dataclass
from types import ModuleType, SimpleNamespace
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

import msgspec

UNRESOLVED = (NameError, AttributeError, TypeError, SyntaxError)  # errors of reading annotations


def hints_one_by_one(
    function: Callable[..., Any],
) -> tuple[dict[str, Any], dict[str, Exception]]:
    """Return the annotations of a function that can be resolved, and why others cannot, by name."""
    found: dict[str, Any] = {}
    unresolved: dict[str, Exception] = {}
    named = globals_of(function)
    for name, annotation in inspect.get_annotations(function).items():
        one = SimpleNamespace(__annotations__={name: annotation})
        try:
            found |= get_type_hints(one, globalns=dict(named), include_extras=True)
        except UNRESOLVED as why:
            unresolved[name] = why
    return found, unresolved


def may_come(why: Exception, function: Callable[..., Any]) -> bool:
    """Return whether an unresolved name may be defined later.

    That is possible for a module whose body is being executed now.
    """
    if isinstance(why, NameError):
        return _is_executed(globals_of(function))
    missing = why.obj if isinstance(why, AttributeError) else None
    return isinstance(missing, ModuleType) and _is_executed(vars(missing))


def globals_of(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the names of the module in which a function was defined."""
    return getattr(inspect.unwrap(function), "__globals__", {})


def _is_executed(names: Mapping[str, Any]) -> bool:
    frame = sys._getframe()
    while frame := frame.f_back:  # type: ignore[assignment]
        if frame.f_code.co_name == "<module>" and frame.f_globals is names:
            return True
    return False


def parts(annotation: Any, *, but: Callable[[Any], bool] | None = None) -> Iterator[Any]:
    """Yield an annotation and all its parts, once each, including the types of fields.

    Parameters:
        but: returns True for parts to be left out, with all their own parts.

    Raises:
        NameError: the annotation of a field names a type that is not defined (yet).
    """
    seen: list[Any] = []
    left = [annotation]
    while left:
        part = left.pop()
        if any(part is each for each in seen) or (but is not None and but(part)):
            continue
        seen.append(part)
        yield part
        left += [*get_args(aliased(part)), *fields_of(get_origin(part) or part).values()]


def named_in(annotation: Any) -> Iterator[Any]:
    """Yield the types in the text of an annotation, without the fields of classes."""
    yield annotation
    for part in get_args(aliased(annotation)):
        yield from named_in(part)


def fields_of(kind: Any) -> dict[str, Any]:
    """Return the annotations of the fields of a dataclass, Struct, TypedDict or NamedTuple."""
    if not isinstance(kind, type):
        return {}
    named_tuple = issubclass(kind, tuple) and hasattr(kind, "_fields")
    if is_dataclass(kind) or issubclass(kind, msgspec.Struct) or is_typeddict(kind) or named_tuple:
        return get_type_hints(kind, include_extras=True)
    return {}


def aliased(annotation: Any) -> Any:
    """Return the type behind `type X = …`; other annotations unchanged."""
    return getattr(annotation, "__value__", annotation)


def is_union(annotation: Any) -> bool:
    """Return whether this is `A | B`, in either spelling."""
    return get_origin(annotation) in (Union, types.UnionType)


def of_parts(annotation: Any, new: tuple[Any, ...]) -> Any:
    """Return a generic annotation with other arguments."""
    if new == get_args(annotation):
        return annotation
    if is_union(annotation):
        return Union[new]  # noqa: UP007 (it is made here)
    copy_with = getattr(annotation, "copy_with", None)
    return copy_with(new) if copy_with else get_origin(annotation)[new]
