"""Tokens of programs, each with a scope: what its holder may do.

A file has one a line: the scope, a name for the record of what was done, the token, and, if it is
for some jobs only, their filter.

    read   grafana  b7c1…
    act    deploys  09fe…
    act    shop-5   5d2a…  tenant:5
    admin  ana      e41d…
"""

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Self

from mutirao.errors import InvalidFilter
from mutirao.model.filters.filter import parse
from mutirao.web.access import Access, Permission

SHORTEST_SECRET = 12  # characters
MOST_TOKENS = 1_000
_SCOPES = {role.name.lower(): role for role in Permission if role is not Permission.NONE}


@dataclass(frozen=True, slots=True)
class ScopedToken:
    """A token, and what its holder may do."""

    secret: str = field(repr=False)
    access: Access

    def __post_init__(self) -> None:
        if len(self.secret) < SHORTEST_SECRET:
            raise ValueError(
                f"the token has {len(self.secret)} characters; expected at least {SHORTEST_SECRET}"
            )
        if _is_filter(self.secret):
            raise ValueError(
                "a filter stands where the token should; give a scope, a name, a token, and then it"
            )


class ScopedTokens:
    """The tokens that are known. It is false if there are none."""

    def __init__(self, tokens: Iterable[ScopedToken] = ()) -> None:
        self._tokens = tuple(tokens)
        if len({each.secret for each in self._tokens}) < len(self._tokens):
            raise ValueError("two have the same token; make one for each")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text of a file. Empty lines, and those that begin with `#`, are left out.

        Raises:
            ValueError: a line cannot be read; the message says which, and not what is in it; or
                there is none.
        """
        lines = [
            (number, line.split(maxsplit=3))
            for number, line in enumerate(text.splitlines(), 1)
            if line.strip() and not line.lstrip().startswith("#")
        ]
        if not lines:
            raise ValueError("there are no tokens; write a scope, a name and a token a line")
        if len(lines) > MOST_TOKENS:
            raise ValueError(f"there are {len(lines):,} tokens; give at most {MOST_TOKENS:,}")
        found = [_token(number, words) for number, words in lines]
        named: dict[str, int] = {}
        for (number, _), token in zip(lines, found, strict=True):
            if (before := named.setdefault(token.access.user, number)) != number:
                raise ValueError(
                    f"lines {before} and {number} have the same name; give each token its own, as"
                    " actions and idempotency keys belong to it"
                )
        return cls(found)

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self._tokens)

    def access_of(self, header: str) -> Access | None:
        """Return what the token of an Authorization header allows; None if it is not known.

        Each is compared, in constant time, whichever the header has.
        """
        scheme, _, given = header[:4_000].partition(" ")
        if scheme.lower() != "bearer":
            return None
        fits = [each for each in self._tokens if is_secret(given.strip(), each.secret)]
        return fits[0].access if fits else None


def is_secret(given: str, secret: str) -> bool:
    """Return whether a text is the secret; an empty one is none. In constant time."""
    digests = (
        hashlib.sha256(each.encode("utf-8", "surrogatepass")).digest() for each in (given, secret)
    )
    return hmac.compare_digest(*digests) & bool(secret)


def _is_filter(text: str) -> bool:
    """Return whether a text is made as a filter is; a number alone may be a token."""
    try:
        return ":" in text or (bool(parse(text)) and not text.isdecimal())
    except InvalidFilter:
        return False


def _token(number: int, words: list[str]) -> ScopedToken:
    if len(words) < 3:
        raise ValueError(f"line {number} has {len(words)} words; expected a scope, a name, a token")
    scope, user, secret, *only = words
    if scope not in _SCOPES:
        raise ValueError(f"the scope of line {number} is none of {', '.join(_SCOPES)}")
    if scope == "admin" and only:
        raise ValueError(f"line {number}: an administrator sees all jobs; leave the filter out")
    try:
        access = Access(role=_SCOPES[scope], user=user, only=only[0] if only else "")
        return ScopedToken(secret, access)
    except InvalidFilter as unfit:
        raise ValueError(
            f"line {number}: the filter, at character {(unfit.position or 0) + 1}, cannot be read;"
            " it is not told here, as it may be a token: a name has no spaces"
        ) from None
    except ValueError as unfit:
        raise ValueError(f"line {number}: {unfit}") from None
