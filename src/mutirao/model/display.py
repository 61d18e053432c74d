"""Formats foreign text for people: names in one line, and URLs without passwords.

A name with a line break could forge the next line of a log, one with an escape sequence could clear
a terminal, and a character that reverses the direction of writing could show another text. A URL
may be malformed and still contain a password, so nothing here relies on parsing it.
"""

import re

MIGRATE = "`mutirao migrate module:app` (in Django: `manage.py migrate`)"  # in errors

_SCHEME = re.compile(r"\s*[A-Za-z][A-Za-z0-9+.-]*://")
_PLAIN_USER = re.compile(r"[\w.%+~-]*")
_HIDDEN = "***"
# In a query, or in a settings line in the form of libpq.
_PARAMETER = re.compile(
    r"((?:\w*pass(?:word|wd|phrase)?|\w*pwd|\w*token|\w*secret\w*|\w*signature)\s*=\s*)"
    r"('(?:[^'\\]|\\.)*'|[^&;\s]*)",
    re.IGNORECASE,
)


def one_line(text: str) -> str:
    """Return text as one line without effects: characters that are not printable are escaped."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escape(each) for each in text)


def without_password(url: object) -> str:
    """Return what may be a URL, as one line, without what may be a password in it.

    All between the first `:` after the scheme and the last `@` is hidden; all before the `@`, if
    that is not plainly a user. Parameters whose names mean a password are hidden, too.
    """
    text = str(url)
    scheme = _SCHEME.match(text)
    start, at = scheme.end() if scheme else 0, text.rfind("@")
    if at >= start:
        user, colon, _ = text[start:at].partition(":")
        shown = user if _PLAIN_USER.fullmatch(user) else _HIDDEN
        text = f"{text[:start]}{shown}{colon and f':{_HIDDEN}'}{text[at:]}"
    return one_line(_PARAMETER.sub(rf"\1{_HIDDEN}", text))


def is_ambiguous(url: str) -> bool:
    """Return whether it is unclear where the password of a URL with a user ends.

    Of several `@` any may be the last character of the password: the part behind it would be shown.
    """
    return url.count("@") > 1


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
