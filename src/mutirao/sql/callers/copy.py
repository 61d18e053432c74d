"""PostgreSQL's COPY in its text format: the fastest way in that every driver offers."""

from typing import Any

from mutirao.sql.callers.steps import Load

NULL = "\\N"


def statement(load: Load) -> str:
    """Return the COPY that reads what `encode` writes, whatever encoding the client has set."""
    columns = ", ".join(f'"{column}"' for column in load.columns)
    return f"COPY \"{load.table}\" ({columns}) FROM STDIN (FORMAT text, ENCODING 'UTF8')"


def encode(load: Load) -> bytes:
    """Return the rows as COPY's text format, in UTF-8."""
    lines = ["\t".join([_field(value) for value in row]) for row in load.rows]
    lines.append("")
    return "\n".join(lines).encode()


def _field(value: Any) -> str:
    if value is None:
        return NULL
    if isinstance(value, str):
        return _escaped(value)
    return str(value)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
