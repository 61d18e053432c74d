"""PostgreSQL's COPY in its text format: the fastest way in that every driver offers.

Rows are sent in pieces: while the server writes one, the next is made.
"""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from mutirao.sql.callers.steps import Load, Row

PIECE = 200  # rows
NULL = "\\N"
_SPECIAL = "\\\n\t\r"


def statement(load: Load) -> str:
    """Return the COPY that reads what `pieces` writes, whatever encoding the client has set."""
    columns = ", ".join(f'"{column}"' for column in load.columns)
    return f"COPY \"{load.table}\" ({columns}) FROM STDIN (FORMAT text, ENCODING 'UTF8')"


def pieces(load: Load) -> Iterator[bytes]:
    """Yield the rows as COPY's text format, in UTF-8."""
    rows = iter(load.rows)
    while piece := list(islice(rows, PIECE)):
        yield _encode(piece)


def _encode(rows: list[Row]) -> bytes:
    columns = [_column(values) for values in zip(*rows, strict=True)]
    lines = ["\t".join(row) for row in zip(*columns, strict=True)]
    lines.append("")
    return "\n".join(lines).encode()


def _column(values: tuple[Any, ...]) -> Sequence[str]:
    try:
        text = "".join(values)
    except TypeError:
        return [_field(value) for value in values]
    # Looked for in all of them together, what must be escaped is mostly not there.
    special = any(character in text for character in _SPECIAL)
    return [_escaped(value) for value in values] if special else values


def _field(value: Any) -> str:
    if value is None:
        return NULL
    return _escaped(value) if isinstance(value, str) else str(value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
