"""Computes how many jobs fit into a statement: servers refuse a longer one, and hang up.

Values stand in the text of a statement, quoted, in UTF-8; in that of a caller's connection as
digits, if they are not ASCII.
"""

from collections.abc import Iterator, Sequence

from mutirao.errors import StoreRefused
from mutirao.sql.drivers.steps import Row

MAX_ROWS = 500  # at most in a statement
MIN_PACKET = 1 << 16  # bytes that a server has to take
SAFE_BYTES = MIN_PACKET // 2  # of rows, which fit in digits, too; for more the server is asked
MAX_BYTES = 1 << 22  # bytes of a statement, however much the server takes: they are held in memory
SPARE_BYTES = 1 << 12  # bytes that are left for all but values
MAX_PACKET = "SELECT @@max_allowed_packet"

_BYTES_OF_OTHERS = 24  # bytes of a number, and of the separators between two values
_SHORT = 64  # characters of a text that is not looked at: each takes 4 bytes at most
_ESCAPED = "\0\n\r\x1a\"'\\"  # takes a backslash more


def size(row: Row, *, in_digits: bool = False) -> int:
    """Return how many bytes a row takes in a statement, at most.

    `in_digits`: a character beyond ASCII takes two bytes for each of its own.
    """
    total = _BYTES_OF_OTHERS * len(row)
    for value in row:
        if isinstance(value, str) and in_digits and not value.isascii():
            total += 2 * len(value.encode(errors="replace")) + _BYTES_OF_OTHERS
        elif isinstance(value, str) and len(value) <= _SHORT:
            total += 4 * len(value)
        elif isinstance(value, str):
            total += len(value.encode(errors="replace")) + sum(map(value.count, _ESCAPED))
    return total


def refuse_large(sizes: Sequence[int], most: int, tasks: Sequence[str]) -> None:
    """Raise StoreRefused if one row is more than a server takes."""
    largest = max(sizes)
    if largest + SPARE_BYTES > most:
        task, needed = tasks[sizes.index(largest)], largest + SPARE_BYTES
        raise StoreRefused(
            f"a job of {task} takes {needed:,} bytes in its INSERT, and the server accepts"
            f" {most:,} (max_allowed_packet). Keep large data elsewhere and enqueue where they are,"
            " or raise max_allowed_packet. Nothing was enqueued."
        )


def portions(rows: Sequence[Row], sizes: Sequence[int], most: int) -> Iterator[Sequence[Row]]:
    """Yield the rows, as many at once as fit into a statement, and not more than MAX_ROWS."""
    most = min(most, MAX_BYTES) - SPARE_BYTES
    first, total = 0, 0
    for n, each in enumerate(sizes):
        total += each
        if n > first and (n - first >= MAX_ROWS or total > most):
            yield rows[first:n]
            first, total = n, each
    if rows[first:]:
        yield rows[first:]
