"""Parses outside input within bounds: the query of a URL, and the fields of a form."""

from collections.abc import Mapping
from urllib.parse import parse_qs

from starlette.requests import Request

LONGEST_BODY, MOST_FIELDS, LONGEST_FIELD = 65_536, 1_000, 2_000
MOST_IDS = 500
LARGEST_ID = 2**63 - 1
_FORM = "application/x-www-form-urlencoded"


class Misread(Exception):
    """Input that cannot be read. `status`: of the answer; `key`: of the text with the reason."""

    def __init__(self, key: str, status: int = 400) -> None:
        super().__init__(key)
        self.key, self.status = key, status


class Fields:
    """Fields by their names, each with all its values."""

    def __init__(self, given: Mapping[str, list[str]]) -> None:
        self._given = given

    def text(self, name: str, most: int = LONGEST_FIELD, *, strip: bool = True) -> str:
        """Return a field, without space around it; empty if it is missing.

        Raises:
            Misread: it is longer than `most` characters, or has a NUL or half a character.
        """
        value = self._given.get(name, [""])[0]
        value = value.strip() if strip else value
        if len(value) > most:
            raise Misread("refused.long_field")
        if not is_text(value):
            raise Misread("refused.bad_field")
        return value

    def one_of(self, name: str, *known: str) -> str:
        """Return a field whose value is known; the first of the known ones if it is missing."""
        value = self.text(name, 100) or known[0]
        if value not in known:
            raise Misread("refused.bad_field")
        return value

    def several(self, name: str, longest: int = 100) -> tuple[str, ...]:
        """Return all values of a field, each once; at most 100, none longer than that."""
        given = self._given.get(name, [])
        if len(given) > 100 or any(len(each) > longest or not is_text(each) for each in given):
            raise Misread("refused.long_field")
        return tuple(dict.fromkeys(given))

    def has(self, name: str) -> bool:
        """Return whether a field was sent."""
        return name in self._given

    def ids(self, name: str = "id") -> tuple[int, ...]:
        """Return the ids of jobs, each once.

        Raises:
            Misread: one is no id, or there are too many.
        """
        given = self._given.get(name, [])
        if len(given) > MOST_IDS:
            raise Misread("refused.many_ids")
        return tuple(dict.fromkeys(id_in(each) for each in given))


def is_text(value: str) -> bool:
    """Return whether a value has no NUL and no half of a character."""
    return "\x00" not in value and not any("\ud800" <= each <= "\udfff" for each in value)


def id_in(text: str) -> int:
    """Return the id in a text; raise Misread if it is none."""
    if len(text) > 19 or not (text.isascii() and text.isdecimal()):
        raise Misread("refused.bad_id")
    id = int(text)
    if not 0 < id <= LARGEST_ID:
        raise Misread("refused.bad_id")
    return id


def query_of(request: Request) -> Fields:
    """Return the query of a URL."""
    return Fields(_parsed(request.scope.get("query_string", b"")))


async def form_of(request: Request) -> Fields:
    """Return the form that was sent.

    Raises:
        Misread: it is no form of a browser, or too large.
    """
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise Misread("refused.no_form", 415)
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > LONGEST_BODY:
            raise Misread("refused.large_form", 413)
    return Fields(_parsed(body))


def _parsed(text: bytes) -> dict[str, list[str]]:
    if len(text) > LONGEST_BODY:
        raise Misread("refused.large_form", 413)
    try:
        return parse_qs(
            text.decode("ascii"), keep_blank_values=True, max_num_fields=MOST_FIELDS,
            errors="strict",
        )  # fmt: skip
    except ValueError:  # not ASCII, not UTF-8 within, or too many fields
        raise Misread("refused.bad_field") from None
