"""What annotations are made of: their own text, and the fields of the classes in it."""

import types
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

import msgspec


def parts(annotation: Any, *, but: Callable[[Any], bool] | None = None) -> Iterator[Any]:
    """Yield an annotation and all it is made of, once each, the types of fields included.

    Parameters:
        but: returns True for what is left out, with all that it is made of.

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
    """Yield what the text of an annotation names, the fields of classes left out."""
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
    """Return what `type X = …` stands for; others as they are."""
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
