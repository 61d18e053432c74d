"""SingleStore, which speaks MySQL's protocol: its restrictions, and MySQL's tables made for them.

This is no dialect: nothing connects to it, and none of this was run there. docs/singlestore.md
lists what is open.
"""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from mutirao.errors import ConfigurationError


class Restriction(NamedTuple):
    """A feature that SQL must not use, or one that a table must have.

    Parameters:
        says: the rule, as docs/singlestore.md has it.
        forbidden: what a statement that breaks it has in it; None: a rule about keys, for which the
            tables have to be known.
        documented: SingleStore's documentation states it; otherwise it is unknown.
    """

    says: str
    forbidden: re.Pattern[str] | None = None
    documented: bool = False


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


UNIQUE_KEYS = Restriction("unique keys contain the shard key", documented=True)
REFERENCE_KEYS = Restriction("reference tables have a primary key", documented=True)
NUMBERS = Restriction("AUTO_INCREMENT is of a bigint", documented=True)
NOT_MOVED = Restriction("no UPDATE of a shard key", documented=True)
RULES = (
    UNIQUE_KEYS,
    REFERENCE_KEYS,
    NUMBERS,
    NOT_MOVED,
    Restriction("no UPDATE with LIMIT", _words(r"\A\s*UPDATE\b.*\bLIMIT\b"), documented=True),
    Restriction("no foreign keys", _words(r"\bFOREIGN KEY\b|\bREFERENCES\b"), documented=True),
    Restriction("no triggers", _words(r"\bTRIGGER\b"), documented=True),
    Restriction("no ids of an INSERT of many rows", _words(r"\bRETURNING\b|last_insert_id"), True),
    Restriction("no CHECK", _words(r"\bCHECK\s*\(")),
    Restriction("no expression as DEFAULT", _words(r"\bDEFAULT\s*\(")),
    Restriction("no index in a hint", _words(r"\b(FORCE|USE|IGNORE) INDEX\b")),
    Restriction("no SKIP LOCKED, no NOWAIT", _words(r"\bSKIP LOCKED\b|\bNOWAIT\b")),
    Restriction("no LOCK IN SHARE MODE", _words(r"\bLOCK IN SHARE MODE\b")),
    Restriction("no JSON_TABLE, no JSON_ARRAYAGG", _words(r"\bjson_table\b|\bjson_arrayagg\b")),
    Restriction("no GET_LOCK", _words(r"\bGET_LOCK\b")),
)

# Their unique keys have no column in common, or every claim of every node asks for them.
REFERENCE = frozenset(
    f"mutirao_{name}" for name in ("schedule", "limit", "counter", "step", "delivery")
)
# Of the others, where that is not the primary key: the unique keys of `tick` have the schedule in
# common, what is about a job stands beside it, and `kept` has no key.
SHARD_KEYS = {
    "mutirao_tick": ("schedule",),
    "mutirao_attempt": ("job",),
    "mutirao_slot": ("job",),
    "mutirao_kept": ("queue",),
}

SUITE = (
    "MUTIRAO_TEST_MYSQL_URL=mysql://user:password@host/"
    " python -m pytest tests/conformance/test_mariadb.py"
)
_HEAD = """\
-- Tables for SingleStore, made of those for MySQL. Not run by us: Mutirão refuses to connect there.
-- docs/singlestore.md says which statements are open, and how the owner of a server tries them.
"""
_UNKNOWN_VARIABLE = 1193
_COLLATION = "COLLATE utf8mb4_bin"
_NAME = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)|CREATE OR REPLACE VIEW (\w+)")
_MOVED = re.compile(r"UPDATE mutirao_version SET version_num=('\w+') WHERE .* = ('\w+')")
_LITERAL_OR_BRACKET = re.compile(r"'(?:[^'\\]|\\.)*'|[()]")


def broken(statement: str) -> Iterator[Restriction]:
    """Yield the rules about words that a statement breaks."""
    for rule in RULES:
        if rule.forbidden is not None and rule.forbidden.search(statement):
            yield rule


def derived(script: str) -> str:
    """Return the tables and views for SingleStore, from the script for MySQL.

    A view that breaks a rule is left out, which a comment says.
    """
    statements = (_one_text(each) for each in script.split(";\n\n"))
    made = [_made(each) for each in statements if each not in ("", "BEGIN", "COMMIT")]
    return _HEAD + "".join(f"\n{each}\n" for each in made)


def refuse(connection: Any) -> None:
    """Refuse a server that is SingleStore.

    Parameters:
        connection: a new one of any driver for MySQL.

    Raises:
        ConfigurationError: it is. Other errors are the driver's.
    """
    with connection.cursor() as cursor:
        try:
            cursor.execute("SELECT @@memsql_version")
            [version] = cursor.fetchone()
        except Exception as error:
            if error.args[:1] == (_UNKNOWN_VARIABLE,):
                return
            raise
    raise ConfigurationError(
        f"the server is SingleStore {version}, which was not run by us and is not served: use MySQL"
        " or MariaDB. docs/singlestore.md says what is open; an owner of a server tries the"
        f" conformance suite on it: {SUITE}"
    )


def _one_text(statement: str) -> str:
    """Return a statement without comments, for MySQL only, and without hints."""
    lines = (re.sub(r"(^|\s)--( .*)?$", "", line) for line in statement.splitlines())
    text = "\n".join(line.rstrip() for line in lines if line.strip())
    text = re.sub(r"/\*M!.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"\n\s*/\*!80023.*?\*/", "", text)  # of a later MySQL than this speaks for
    text = re.sub(r"/\*!80000 (.*?) \*/", r"\1", text, flags=re.DOTALL)
    text = re.sub(r" FORCE INDEX \(\w+\)", "", text)
    return re.sub(r"COLLATE utf8mb4_0900_bin", _COLLATION, text)


def _made(statement: str) -> str:
    found = _NAME.match(statement)
    if moved := _MOVED.fullmatch(statement.strip()):  # its key is its shard key
        return (
            f"DELETE FROM mutirao_version WHERE version_num = {moved[2]};\n\n"  # noqa: S608 (of ours)
            f"INSERT INTO mutirao_version (version_num) VALUES ({moved[1]});"
        )
    if found is None:
        return f"{statement};"
    table, view = found.groups()
    if table is not None:
        return f"{_table(table, statement)};"
    if wrong := [rule.says for rule in broken(statement)]:
        return f"-- Left out: the view {view} ({'; '.join(wrong)})."
    return f"{statement};"


def _table(name: str, statement: str) -> str:
    """Return the statement of a table in memory: in others whole partitions may be locked."""
    kind = "ROWSTORE REFERENCE TABLE" if name in REFERENCE else "ROWSTORE TABLE"
    body = statement.replace("CREATE TABLE", f"CREATE {kind}", 1)
    for clause in ("CHECK", "DEFAULT"):
        body = _without(body, clause)
    body = re.sub(r"\s*\)(\s*ENGINE InnoDB.*)?\Z", "", body, flags=re.DOTALL)
    if name in SHARD_KEYS:
        body += f",\n    SHARD KEY ({', '.join(SHARD_KEYS[name])})"
    return f"{body}\n) {_COLLATION}"


def _without(sql: str, clause: str) -> str:
    """Return it without the clauses that are this word and something in brackets."""
    while found := re.search(rf",?\s*\b{clause}\s*\(", sql):
        depth = 1
        for each in _LITERAL_OR_BRACKET.finditer(sql, found.end()):
            depth += {"(": 1, ")": -1}.get(each[0], 0)
            if not depth:
                sql = sql[: found.start()] + sql[each.end() :]
                break
    return sql
