"""Blanks secrets in texts for people: values by their names, and texts by their shape.

It is a rule about names and shapes, and no promise: a secret called `note` that looks like a word
passes. Applications add further names. Everything is bounded: a value that is too deep or too long
to be examined is not shown at all.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

BLANK = "•••"
DEEPEST = 40  # levels of objects and lists
LONGEST_TEXT = 50_000  # characters of one text that are examined
LONGEST_WORD = 4_000  # characters that are left out where a text is cut within a word
MOST_ITEMS, MOST_CHARACTERS = 2_000, 200_000  # of one value that are examined

# Words in a name that make its value a secret: user_password, apiKey, X-Auth-Token.
_SECRET_WORDS = frozenset({
    "password", "passwd", "pwd", "passphrase", "passcode", "senha", "secret", "secrets", "token",
    "tokens", "apikey", "authorization", "cookie", "credential", "credentials", "signature", "pin",
    "cvv", "cvc", "otp", "jwt", "dsn", "bearer", "pass", "auth",
})  # fmt: skip
# Names of two words, each of which is harmless alone: a primary key is no secret.
_SECRET_PAIRS = frozenset({
    ("api", "key"), ("private", "key"), ("access", "key"), ("signing", "key"), ("secret", "key"),
    ("encryption", "key"), ("session", "id"), ("pass", "phrase"), ("card", "number"),
    ("client", "key"), ("auth", "key"),
})  # fmt: skip
# Endings of names that are written as one word: dbpassword, accesstoken, but not secretary.
_SECRET_ENDS = (
    "password", "passwd", "pwd", "passphrase", "passcode", "senha", "secret", "token", "apikey",
    "secretkey", "privatekey", "accesskey", "signingkey", "encryptionkey", "credential",
    "sessionid",
)  # fmt: skip
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

_NAMED = (
    r"(?:[_-]pass(?![a-z])|pass(?:word|wd|phrase|code)|pwd|senha|secret|token|api[_-]?key|private[_-]?key"
    r"|access[_-]?key|signing[_-]?key|credentials?|signature|set-cookie|cookie|session[_-]?id)"
)
_AUTHORIZATION = re.compile(
    r"(?P<name>\b(?:proxy-)?authorization[\"']?\s{0,3}[=:]\s{0,3}[\"']?)[^\n\"']+", re.IGNORECASE
)
_SCHEME = re.compile(r"\b(?P<name>(?:Bearer|Basic|Digest)\s+)[A-Za-z0-9+/=._~-]{8,}")
# All bounded: a secret that begins and does not end would be searched again from each place in it.
_IN_URL = re.compile(
    r"(?P<name>\b[A-Za-z][A-Za-z0-9+.-]{0,30}://)"
    r"(?:[^\s/@:\"'<>]{0,200}:[^\s@\"'<>]{0,500}@|[^\s/@\"'<>]{1,500}@)"
)
_SHAPES = re.compile(
    r"\b(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{8,}"  # Stripe
    r"|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}"
    r"|\bxox[abeprs]-[A-Za-z0-9-]{10,}"  # Slack
    r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\bwh(?:sec|sk)_[A-Za-z0-9+/=]{8,}"
    r"|\beyJ[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]*"
    r"|-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)",
    re.DOTALL,
)

_TO_SPACE = re.compile(r"\S*")


@dataclass(slots=True)
class _Left:
    """How much of a value may still be examined."""

    items: int
    characters: int

    @property
    def is_used(self) -> bool:
        return self.items < 0 or self.characters < 0


def _singular(word: str) -> str:
    return word[:-1] if word.endswith("s") and not word.endswith("ss") else word


def _assigned(names: Collection[str]) -> re.Pattern[str]:
    """Return the pattern of `password=…`, `"apiKey": "…"`, `token: …`, and of further names.

    The value reaches to the end of its quotes, of the line if they do not end, or of the word.
    """
    added = "".join(rf"|(?<!\w){re.escape(each)}" for each in names if each)
    return re.compile(
        rf"(?P<name>(?:{_NAMED}\w{{0,20}}{added})[\"']?\s{{0,3}}[=:]\s{{0,3}})"
        r"(?:\"(?:[^\"\\\n]|\\.?)*\"?|'(?:[^'\\\n]|\\.?)*'?|[^\s&;,)\]}\"']+)",
        re.IGNORECASE,
    )


class Blanking:
    """The rule, with further names whose values are secrets.

    Parameters:
        names: of arguments, in any case: `("cpf", "iban")`.
    """

    def __init__(self, names: Collection[str] = ()) -> None:
        self._names = frozenset(each.casefold() for each in names)
        self._assigned = _assigned(names)

    def is_secret(self, name: str) -> bool:
        """Return whether the value of this name is blanked."""
        if name.casefold() in self._names:
            return True
        words = [_singular(each.lower()) for each in _WORD.findall(name[:200])]
        return (
            not _SECRET_WORDS.isdisjoint(words)
            or not _SECRET_PAIRS.isdisjoint(pairwise(words))
            or any(each.endswith(_SECRET_ENDS) for each in words)
        )

    def value(
        self, given: Any, *, items: int = MOST_ITEMS, characters: int = MOST_CHARACTERS
    ) -> Any:
        """Return a value of JSON with secrets blanked; numbers and booleans of such names, too.

        Parameters:
            given: the value.
            items: how many values within it are examined; the rest is blanked as a whole.
            characters: how many of its texts and names are examined; the rest is blanked, too.
        """
        return self._value(given, _Left(items, characters), 0)

    def _value(self, given: Any, left: _Left, deep: int) -> Any:
        left.items -= 1
        if left.is_used or (deep >= DEEPEST and isinstance(given, Mapping | list | tuple)):
            return BLANK
        if isinstance(given, str):
            return self._text(given, left)
        if isinstance(given, Mapping):
            return self._mapping(given, left, deep)
        if isinstance(given, Sequence):
            return self._list(given, left, deep)
        return given

    def _mapping(self, given: Mapping[Any, Any], left: _Left, deep: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, each in given.items():
            shown = self._text(str(name), left)
            if left.is_used:
                found[BLANK] = BLANK
                break
            secret = self.is_secret(str(name)) and each not in (None, "")
            found[shown] = BLANK if secret else self._value(each, left, deep + 1)
        return found

    def _list(self, given: Sequence[Any], left: _Left, deep: int) -> list[Any]:
        found: list[Any] = []
        for each in given:
            found.append(self._value(each, left, deep + 1))
            if left.is_used:
                break
        return found

    def _text(self, given: str, left: _Left) -> str:
        shown = self.text(given, max(0, min(LONGEST_TEXT, left.characters)))
        left.characters -= len(given)
        return shown

    def text(self, given: str, longest: int = LONGEST_TEXT) -> str:
        """Return a text with secrets in it blanked, by their shape; a very long text is cut first.

        Parameters:
            given: the text.
            longest: the characters after which it is cut.
        """
        looked_at = given[:longest]
        if len(looked_at) < len(given):
            # A secret may stand across the cut: the last word is left out with the rest.
            word = _TO_SPACE.match(looked_at[: -LONGEST_WORD - 1 : -1])
            looked_at = looked_at[: len(looked_at) - (word.end() if word else 0)] + "…"
        text = _SHAPES.sub(BLANK, looked_at)
        text = _IN_URL.sub(rf"\g<name>{BLANK}@", text)
        text = _AUTHORIZATION.sub(rf"\g<name>{BLANK}", text)
        text = _SCHEME.sub(rf"\g<name>{BLANK}", text)
        return self._assigned.sub(rf"\g<name>{BLANK}", text)
