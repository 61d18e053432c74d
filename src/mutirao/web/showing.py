"""What jobs carry, made harmless and short before it is shown.

Templates escape markup. Signs that no browser shows, but that turn the direction of writing, hide
text or end a line elsewhere, are written out here: each value that a template prints passes
`harmless`.
"""

import json
import re
from datetime import UTC, datetime
from typing import Any

LONGEST_CELL, LONGEST_BLOCK = 160, 20_000  # characters
CUT = "…"

# Controls but tab and line feed, soft hyphens, signs of direction and of no width, half characters.
_ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200c\u200e"
    "\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e0fff"
    "\ud800-\udfff]"
)


def harmless(value: Any) -> Any:
    """Return a text in which nothing acts: such signs are escapes, as Python writes them."""
    if type(value) is not str:  # markup of our own, numbers, nothing
        return "" if value is None else value
    return _ACTING.sub(_escaped, value)


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def cell(value: object, most: int = LONGEST_CELL) -> str:
    """Return a value as one short line, for a table."""
    text = value if isinstance(value, str) else compact(value)
    line = " ".join(text[: most * 4].split())
    return line if len(line) <= most and len(text) <= most * 4 else line[:most] + CUT


def block(text: str, most: int = LONGEST_BLOCK) -> tuple[str, int]:
    """Return the beginning of a long text, and how many characters are left out."""
    return text[:most], max(0, len(text) - most)


def compact(value: object) -> str:
    """Return a value as JSON in one line."""
    return json.dumps(value, ensure_ascii=False, default=str)


def pretty(value: object) -> str:
    """Return a value as JSON over several lines."""
    return json.dumps(value, ensure_ascii=False, default=str, indent=2)


def iso(moment: datetime) -> str:
    """Return a moment as machines read it."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def utc(moment: datetime) -> str:
    """Return a moment as people read it, in UTC."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
