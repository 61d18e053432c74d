"""The conversion of placeholders for drivers that number them."""

from functools import lru_cache
from itertools import count


@lru_cache(maxsize=32)
def numbered(sql: str) -> str:
    """Return a statement with `$1`, `$2` … instead of `%s`."""
    first, *rest = sql.split("%s")
    return first + "".join(f"${n}{part}" for n, part in zip(count(1), rest, strict=False))
