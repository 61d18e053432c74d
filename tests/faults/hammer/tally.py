"""What was done, what failed, and with what: by operation."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

DEADLOCK, SERIALIZATION, NO_LOCK = "40P01", "40001", "55P03"
BUSY = "SQLITE_BUSY"  # and what begins with it
OTHER = "other"
SHOWN = 300  # characters of an error
_OF_MYSQL = {1213: DEADLOCK, 1020: SERIALIZATION, 1205: NO_LOCK}


@dataclass
class Line:
    """One operation's figures. `failed` is by SQLSTATE, of MySQL, too, or by SQLite's name."""

    made: int = 0
    failed: Counter[str] = field(default_factory=Counter)


class Tally:
    """Counts operations, and keeps what was said of each kind of failure first."""

    def __init__(self) -> None:
        self.lines: defaultdict[tuple[str, str], Line] = defaultdict(Line)
        self.said: dict[tuple[str, str, str], str] = {}

    @contextmanager
    def counting(self, who: str, what: str) -> Iterator[None]:
        """Count what is done in the block, and what it raises, which ends here."""
        line = self.lines[who, what]
        line.made += 1
        try:
            yield
        except Exception as error:  # noqa: BLE001 (whatever it is, it is told)
            state = state_of(error)
            line.failed[state] += 1
            self.said.setdefault((who, what, state), f"{type(error).__name__}: {error}"[:SHOWN])

    def made(self, who: str) -> int:
        """Return how many operations of somebody's kind were made."""
        return sum(line.made for (whose, _), line in self.lines.items() if whose == who)

    def failed(self, who: str, state: str) -> int:
        """Return how many of them failed with a state."""
        return sum(line.failed[state] for (whose, _), line in self.lines.items() if whose == who)


def state_of(error: BaseException) -> str:
    """Return the SQLSTATE of an error, or SQLite's name for it; `OTHER` where it has none."""
    seen: BaseException | None = error
    while seen is not None:
        for each in (seen, getattr(seen, "orig", None)):
            found = _code(each)
            if found is not None:
                return found
        seen = seen.__cause__ or seen.__context__
    return OTHER


def _code(error: BaseException | None) -> str | None:
    for name in ("sqlstate", "pgcode", "sqlite_errorname"):
        found = getattr(error, name, None)
        if isinstance(found, str):
            return BUSY if found.startswith(BUSY) else found
    first = error.args[0] if error is not None and error.args else None
    return _OF_MYSQL.get(first) if isinstance(first, int) else None
