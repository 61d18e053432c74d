"""The only place that decodes JSON from rows, which other programs may have written.

Databases accept JSON that Python does not: numbers of 5,000 digits, lists a thousand deep, halves
of characters. Decoding raises `UnreadableRow` and nothing else: the caller makes it the outcome of
that one row. A test keeps other decoding out of the package.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

NO_READING = (ValueError, RecursionError, TypeError, AttributeError)


class UnreadableRow(Exception):
    """A value in a row cannot be read; the text says which one, and why."""


def read(text: str | bytes, what: str = "JSON") -> Any:
    """Return the decoded JSON of a row; `what`: its name, for the error.

    Raises:
        UnreadableRow: Python cannot decode it.
    """
    try:
        return json.loads(text)
    except NO_READING as error:
        raise unreadable(what, error) from error


def read_object(text: str | bytes, what: str = "JSON") -> dict[str, Any]:
    """Return the decoded JSON object of a row.

    Raises:
        UnreadableRow: Python cannot decode it, or it is something else.
    """
    found = read(text, what)
    if not isinstance(found, dict):
        raise UnreadableRow(f"{what} is no object, but {type(found).__name__}")
    return found


def read_list(text: str | bytes, what: str = "JSON") -> list[Any]:
    """Return the decoded JSON array of a row.

    Raises:
        UnreadableRow: Python cannot decode it, or it is something else.
    """
    found = read(text, what)
    if not isinstance(found, list):
        raise UnreadableRow(f"{what} is no array, but {type(found).__name__}")
    return found


def shown(text: str | bytes) -> Any:
    """Return the decoded JSON for people, or an object with the error, so that others are shown."""
    try:
        return read(text)
    except UnreadableRow as error:
        return {"unreadable": str(error)}


def shown_object(text: str | bytes, what: str) -> dict[str, Any]:
    """Return the decoded JSON object for people, or one with the error; see `shown`."""
    try:
        return read_object(text, what)
    except UnreadableRow as error:
        return {"unreadable": str(error)}


def check_storable(value: Any, what: str) -> None:
    """Raise UnreadableRow if a decoded value cannot be written again.

    It may contain half a character, or a number so large that it became infinite.
    """
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except NO_READING as error:
        raise unreadable(what, error) from error


def in_words(value: Any, longest: int) -> str:
    """Return a decoded value as text that every database can store, cut to `longest` characters.

    Raises:
        UnreadableRow: it is too deep.
    """
    if not isinstance(value, str):
        try:
            value = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        except NO_READING as error:
            raise unreadable("a value", error) from error
    return storable(value[:longest])[:longest]


def storable(text: str) -> str:
    """Return text that every database can store: without NUL and halves of characters."""
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()


def as_texts(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with texts in place of bytes, which SQLite keeps where a text is declared."""
    return {
        name: storable(value.decode(errors="backslashreplace"))
        if isinstance(value, bytes)
        else value
        for name, value in row.items()
    }


def only_texts(names: Iterable[Any]) -> list[str]:
    """Return the names that are text: whatever is called in bytes, nothing can ask for."""
    return [name for name in names if isinstance(name, str)]


def unreadable(what: str, error: BaseException) -> UnreadableRow:
    """Return the error that says why something cannot be read, with a short part of the cause."""
    return UnreadableRow(
        f"{what} cannot be read: {type(error).__name__}: {storable(str(error))[:200]}"
    )
