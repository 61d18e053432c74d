"""The conversion of placeholders: for drivers that number them, or write values into the text."""

from functools import lru_cache
from itertools import count


@lru_cache(maxsize=32)
def numbered(sql: str) -> str:
    """Return a statement with `$1`, `$2` … instead of `%s`."""
    first, *rest = sql.split("%s")
    return first + "".join(f"${n}{part}" for n, part in zip(count(1), rest, strict=False))


@lru_cache(maxsize=256)
def with_percents(sql: str) -> str:
    """Return a statement with `%s` instead of `?`; a plain `%` becomes `%%`."""
    return sql.replace("%", "%%").replace("?", "%s")
