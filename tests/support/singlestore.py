"""A small linter: holds SQL against the rules of SingleStore, as `mutirao` declares them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Self

from mutirao.sql.dialects import singlestore
from mutirao.sql.dialects.singlestore import (
    NOT_MOVED,
    NUMBERS,
    REFERENCE_KEYS,
    UNIQUE_KEYS,
    Restriction,
)

_TABLE = re.compile(r"CREATE (?P<kind>[A-Z ]*)TABLE (?:IF NOT EXISTS )?(?P<name>\w+) \(")
_KEY = re.compile(r"(?P<kind>PRIMARY KEY|UNIQUE|SHARD KEY)(?: \w+)? \((?P<columns>[^)]*)\)")
_OWN_KEY = re.compile(r"^ *`?(?P<column>\w+)`? .*\b(?:PRIMARY KEY|UNIQUE)\b(?! \w* ?\()", re.M)
_CHANGE = re.compile(
    r"\A\s*(?:UPDATE\b(?P<updated>.*?)\bSET\b|"
    r"INSERT INTO (?P<inserted>\w+).*\bON DUPLICATE KEY UPDATE\b)(?P<changes>.*)",
    re.DOTALL | re.IGNORECASE,
)


class Table(NamedTuple):
    """The keys of a table; columns that the shard key is made of are `shard`."""

    name: str
    reference: bool
    primary: frozenset[str]
    unique: tuple[frozenset[str], ...]
    shard: frozenset[str]

    @classmethod
    def of(cls, statement: str) -> Self | None:
        """Read a CREATE TABLE."""
        if (head := _TABLE.search(statement)) is None:
            return None
        keys = [(each["kind"], _columns(each["columns"])) for each in _KEY.finditer(statement)]
        own = [frozenset({each["column"]}) for each in _OWN_KEY.finditer(statement)]
        primaries = [*own, *(key for kind, key in keys if kind == "PRIMARY KEY")]
        primary = primaries[0] if primaries else frozenset[str]()
        shard = next((key for kind, key in keys if kind == "SHARD KEY"), primary)
        unique = tuple(dict.fromkeys((*own, *(key for kind, key in keys if kind != "SHARD KEY"))))
        return cls(head["name"], "REFERENCE" in head["kind"], primary, unique, shard)


def lint(statements: Iterable[str], tables: Iterable[Table] = ()) -> list[tuple[str, str]]:
    """Return which rule is broken, by which statement; `tables` are those that it may name."""
    known = {table.name: table for table in tables}
    return [
        (rule.says, statement)
        for statement in statements
        for rule in (*singlestore.broken(statement), *_about_keys(statement, known))
    ]


def _about_keys(statement: str, known: dict[str, Table]) -> Iterator[Restriction]:
    if (table := Table.of(statement)) is not None:
        if table.reference and not table.primary:
            yield REFERENCE_KEYS
        if not table.reference and not all(table.shard <= key for key in table.unique):
            yield UNIQUE_KEYS
        lines = [line for line in statement.splitlines() if "AUTO_INCREMENT" in line]
        if not all(" bigint " in line for line in lines):
            yield NUMBERS
    elif (found := _CHANGE.search(statement)) is not None:
        where = re.findall(r"\w+", found["updated"] or found["inserted"])
        [changes, *_] = re.split(r"\bWHERE\b", found["changes"], flags=re.IGNORECASE)
        changed = {*re.findall(r"`?(\w+)`?\s*=", changes)}
        sharded = [known[name] for name in where if name in known and not known[name].reference]
        if any(changed & table.shard for table in sharded):
            yield NOT_MOVED


def _columns(listed: str) -> frozenset[str]:
    return frozenset(each.strip(" `") for each in listed.split(","))
