"""Writes many objects by one call: checks all, then writes parts, each in one commit."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

# Rows of one transaction: locked for less than a second, and not more parameters than fit in one
# statement.
PUT_AT_ONCE = 1_000
Given = TypeVar("Given", bound=Mapping[str, Any])
T = TypeVar("T")


def checked(
    kind: str,
    key: str,
    given: Iterable[Given],
    check: Callable[[Given], T],
    refuse: type[Exception],
) -> dict[str, T]:
    """Return the given objects, checked, by key, in the given order.

    Parameters:
        kind: the name of one object, for messages.
        key: the name of the parameter that distinguishes them.
        check: returns one in its written form, or raises.
        refuse: the error for one that is given twice, or that is no mapping with a key.
    """
    found: dict[str, T] = {}
    for number, each in enumerate(given, 1):
        if not isinstance(each, Mapping) or not isinstance(each.get(key), str):
            raise refuse(
                f"{kind} number {number} of this call is {each!r:.200}; give the parameters of put"
                f' by their names, such as {{"{key}": "…"}}'
            )
        if each[key] in found:
            raise refuse(
                f"{kind} {each[key]!r} is given twice in one call; give it once, as it is to be"
            )
        with _noted(f"{kind} number {number} of this call, {each[key]!r:.200}"):
            found[each[key]] = check(each)
    return found


def parts(whole: Mapping[str, T]) -> Iterator[list[tuple[str, T]]]:
    """Yield the parts that are written in one transaction each."""
    each = list(whole.items())
    for start in range(0, len(each), PUT_AT_ONCE):
        yield each[start : start + PUT_AT_ONCE]


@contextmanager
def written(done: Sequence[Any], total: int) -> Iterator[None]:
    """Add to an error how many objects of a call were written before it."""
    try:
        yield
    except Exception as error:
        if total > PUT_AT_ONCE:
            error.add_note(
                f"{len(done):,} of the {total:,} of this call were written. The same call again"
                " changes nothing of them, and goes on"
            )
        raise


@contextmanager
def _noted(which: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        error.add_note(which)
        raise
