"""A set of jobs in a schema of its own: put that schema before the names in a text of SQL.

Several sets may stand in one database. Channels and settings of a transaction, which PostgreSQL
knows without a schema, have that of the set in their names.
"""

import re
from functools import lru_cache

_NAME = re.compile(r"(?!pg_)[a-z_][a-z0-9_]*")
_MAX_SCHEMA_NAME_BYTES = 49  # bytes: the longest channel, mutirao_ended.…, has 63

_TOKEN = re.compile(
    r"""
    (?P<kept> \bSAVEPOINT\ \w+ | \bOF\ \w+(?:,\ \w+)*   # names within the statement
        | "(?:[^"]|"")*" | %\(\w+\)s )
    | '(?P<literal>mutirao | mutirao_ended | mutirao\.(?:ahead|called))'
    | '(?P<object>mutirao_\w+)'                         # regclass
    | (?P<text>'(?:[^']|'')*')
    | (?<![\w.]) (?P<name>mutirao_\w+)
    """,
    re.VERBOSE,
)
_ANONYMOUS = re.compile(r"_\d+$")  # an alias that SQLAlchemy makes
_CHANNEL_OR_SETTING = re.compile(r"'(mutirao|mutirao_ended|mutirao\.(?:ahead|called))'")


def schema_refusal(schema: str) -> str | None:
    """Return why a schema cannot be chosen, or None."""
    if len(schema) <= _MAX_SCHEMA_NAME_BYTES and _NAME.fullmatch(schema):
        return None
    return (
        f"schema={schema!r} cannot be the schema of a set of jobs; expected lower-case letters,"
        f" digits and _, beginning with a letter or _, but not with pg_,"
        f" at most {_MAX_SCHEMA_NAME_BYTES} of them"
    )


def quoted(schema: str) -> str:
    """Return the name of a schema for a statement, quoted if it is a keyword of SQL."""
    return f'"{schema}"'


def in_set(name: str, schema: str | None) -> str:
    """Return a channel or a setting of the set in `schema`; None: as it is."""
    return name if schema is None else f"{name}.{schema}"


@lru_cache(maxsize=2_048)
def qualified(sql: str, schema: str) -> str:
    """Return a statement about the set in `schema`; a second call leaves it as it is."""

    def place(found: re.Match[str]) -> str:
        if (literal := found["literal"]) is not None:
            return f"'{in_set(literal, schema)}'"
        if (relation := found["object"]) is not None:
            return f"'{quoted(schema)}.{relation}'"
        name = found["name"]
        if name is None or _ANONYMOUS.search(name):
            return found[0]
        return f"{quoted(schema)}.{name}"

    return _TOKEN.sub(place, sql)


def with_own_channels(statement: str, schema: str) -> str:
    """Return a statement of a migration with the channels and settings of the set in `schema`."""
    return _CHANNEL_OR_SETTING.sub(lambda found: f"'{in_set(found[1], schema)}'", statement)
