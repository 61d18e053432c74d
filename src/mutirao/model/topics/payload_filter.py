"""Filters that subscriptions have for a publication's payload: compared data, never code.

`{"status": "paid", "ship_to.country": {"in": ["BR", "PT"]}, "coupon": {"exists": false}}`: every
field has to match.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, TypeGuard

from mutirao.errors import InvalidSubscription
from mutirao.model.jobs.job import MAX_KEY

MAX_FILTER = 10_000  # characters of JSON
IN, EXISTS = "in", "exists"

_MISSING = object()


def check_filter(given: object) -> dict[str, Any]:
    """Return a filter; raise InvalidSubscription if it cannot be one.

    A field is a name, or several with dots between them: the way into objects. Its condition is a
    value that it equals, `{"in": [values]}` or `{"exists": true}` (or false). Values are text,
    numbers, true, false and null.
    """
    if not isinstance(given, Mapping) or not given:
        raise InvalidSubscription(
            f"the filter is {given!r:.200}; give an object of at least one field, such as"
            ' {"status": "paid"}, or leave it out'
        )
    for field, asked in given.items():
        check_field(field)
        _check_asked(field, asked)
    if (size := len(json.dumps(dict(given)))) > MAX_FILTER:
        raise InvalidSubscription(
            f"the filter has {size:,} characters of JSON; at most {MAX_FILTER:,} are allowed"
        )
    return dict(given)


def matches(filter: Mapping[str, Any], payload: object) -> bool:
    """Return whether a payload matches a filter."""
    return all(_is_as_asked(_found(payload, field), asked) for field, asked in filter.items())


def check_field(field: object, of: str = "the filter") -> None:
    """Raise InvalidSubscription for a text that cannot name a field of a payload."""
    if not isinstance(field, str) or not all(field.split(".")):
        raise InvalidSubscription(
            f"{of} has a field {field!r:.200}; give a name, or several with dots between them"
        )


def value_at(payload: object, field: str) -> str:
    """Return the value of a payload's field, as text that distinguishes it; empty: no value.

    Text of at most 200 characters, as keys are; a digest for longer ones, or those that cannot be a
    key.
    """
    found = _found(payload, field)
    if found is _MISSING or found is None:
        return ""
    if isinstance(found, float) and found.is_integer():
        found = int(found)  # 1.0 is 1
    value = found if isinstance(found, str) else json.dumps(found, sort_keys=True)
    if len(value) <= MAX_KEY and value.isprintable():
        return value
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def first_names(filter: Mapping[str, Any]) -> set[str]:
    """Return the names of the payload's own fields that a filter tests."""
    return {field.partition(".")[0] for field in filter}


def asked_values(filter: Mapping[str, Any]) -> Iterator[tuple[str, str | int | float | None]]:
    """Yield each field with each value that a filter admits."""
    for field, asked in filter.items():
        admitted = asked.get(IN, ()) if isinstance(asked, Mapping) else (asked,)
        yield from ((field, value) for value in admitted)


def _check_asked(field: str, asked: object) -> None:
    if _is_value(asked):
        return
    if isinstance(asked, Mapping) and len(asked) == 1:
        [(how, what)] = asked.items()
        if how == EXISTS and isinstance(what, bool):
            return
        if how == IN and isinstance(what, list | tuple) and what and all(map(_is_value, what)):
            return
    raise InvalidSubscription(
        f"the filter asks of {field!r} that it is {asked!r:.200}; give text, a number, true, false"
        ' or null, or {"in": [some of these]}, or {"exists": true or false}'
    )


def _is_value(value: object) -> TypeGuard[str | int | float | None]:
    if isinstance(value, float):
        return isfinite(value)
    return value is None or isinstance(value, str | int)


def _found(payload: object, field: str) -> object:
    for name in field.split("."):
        if not isinstance(payload, Mapping) or name not in payload:
            return _MISSING
        payload = payload[name]
    return payload


def _is_as_asked(found: object, asked: Any) -> bool:
    if not isinstance(asked, Mapping):
        return _equal(found, asked)
    if EXISTS in asked:
        return (found is not _MISSING) is asked[EXISTS]
    return any(_equal(found, each) for each in asked[IN])


def _equal(found: object, asked: object) -> bool:
    """Compare as JSON does: 1 is 1.0, and true is not 1."""
    return isinstance(found, bool) is isinstance(asked, bool) and found == asked
