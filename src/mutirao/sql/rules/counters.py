"""Counters of limits: found, made, locked and read. Times are in microseconds."""

from collections.abc import Collection
from dataclasses import dataclass

from mutirao.model.limits.limits import CounterName, Rule, filled
from mutirao.sql.drivers.steps import Execute, Query, all_of
from mutirao.sql.rules.words import Condition, Words
from mutirao.sql.schema.types import from_micros

_COUNTER = """
SELECT c.id, c.name, c.key, c.running, c.tokens, c.touched_at, c.probe_at, c.proven,
    c.late_next
FROM mutirao_counter c {}
WHERE """
_READ = _COUNTER.format("")


@dataclass(slots=True)
class Counter:
    """A row of `mutirao_counter`."""

    id: int
    name: str
    key: str
    running: int
    tokens: float
    touched_at: int
    probe_at: int | None
    proven: int
    late_next: int

    def room(self, rule: Rule, moment: int) -> int:
        """Return how many more may start at a moment."""
        if rule.per is None:
            return max(0, rule.bound(self.proven) - self.running)
        return int(self.filled(rule, moment))

    def filled(self, rule: Rule, moment: int) -> float:
        """Return the tokens of a rate at a moment."""
        return filled(rule, self.tokens, from_micros(self.touched_at), from_micros(moment))


def read_counters(where: Condition) -> Query[list[Counter]]:
    """Return counters, by id. None is locked."""
    rows = yield Execute(f"{_READ}{where.sql} ORDER BY c.id", where.values)
    return [Counter(*row) for row in rows]


def hold_counters(
    words: Words, ids: Collection[int], *, free: bool = False
) -> Query[list[Counter]]:
    """Lock counters in the order of their ids, and no others; return them as they are then.

    `free`: without those that another transaction has locked.

    By another condition MariaDB and MySQL lock what they read to find them, out of order: a row
    that was waited for stays locked although it is not one of them.
    """
    if not ids:
        return []
    which, values = words.among("c.id", ids)
    end = words.hold_free if free else words.hold
    rows = yield Execute(f"{_COUNTER.format(words.by_key)}{which} ORDER BY c.id{end}", values)
    return [Counter(*row) for row in rows]


def find_counters(
    words: Words, names: Collection[CounterName]
) -> Query[dict[CounterName, Counter]]:
    """Return those of these counters that there are."""
    keys: dict[str, list[str]] = {}
    for name in sorted(names):
        keys.setdefault(name.limit, []).append(name.key)
    found = yield from all_of([_named(words, limit, some) for limit, some in keys.items()])
    counters = [Counter(*row) for rows in found for row in rows]
    return {CounterName(each.name, each.key): each for each in counters}


def _named(words: Words, limit: str, keys: Collection[str]) -> Execute:
    which, values = words.among("c.key", keys)
    return Execute(f"{_READ}c.name = ? AND {which}", (limit, *values))


def make_counters(
    words: Words, names: Collection[CounterName], by_name: dict[str, Rule], moment: int
) -> Query[None]:
    """Make counters, unless others do."""
    columns = ("name", "key", "running", "tokens", "touched_at")
    sql = words.upsert("mutirao_counter", columns, ("name", "key"))
    for name in sorted(names):
        values = (*name, 0, by_name[name.limit].burst or 0, moment)
        yield Execute(sql, values, answers=False)


def lock_counters(
    words: Words, found: dict[CounterName, Counter]
) -> Query[dict[CounterName, Counter]]:
    """Lock counters; return them as they are now."""
    if not words.locks or not found:
        return found
    held = yield from hold_counters(words, [counter.id for counter in found.values()])
    return {CounterName(each.name, each.key): each for each in held}
