"""The tables for SingleStore keep its rules; nobody runs them, and nobody connects to it."""

from __future__ import annotations

import re
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from mutirao.errors import ConfigurationError
from mutirao.sql.dialects import singlestore
from mutirao.sql.dialects.singlestore import REFERENCE, RULES, SHARD_KEYS
from mutirao.sql.migrations import ddl
from mutirao.sql.registry import DIALECTS, TABLES_ONLY
from tests.support.singlestore import Table, lint

MYSQL = ddl("mysql")
STATEMENTS = ddl("singlestore").split(";\n")
TABLES = [table for each in STATEMENTS if (table := Table.of(each)) is not None]

BREAKS = {
    "unique keys contain the shard key": "CREATE TABLE t (\n id int PRIMARY KEY,\n UNIQUE (a)\n)",
    "reference tables have a primary key": "CREATE REFERENCE TABLE t (\n id int\n)",
    "AUTO_INCREMENT is of a bigint": "CREATE TABLE t (\n id int PRIMARY KEY AUTO_INCREMENT\n)",
    "no UPDATE of a shard key": "UPDATE mutirao_live SET id = 1 WHERE id = 2",
    "no UPDATE with LIMIT": "UPDATE mutirao_live SET run = 1 LIMIT 5",
    "no foreign keys": "CREATE TABLE t (\n id int PRIMARY KEY REFERENCES u (id)\n)",
    "no triggers": "CREATE TRIGGER t",
    "no ids of an INSERT of many rows": "SELECT last_insert_id()",
    "no CHECK": "CREATE TABLE t (\n id int CHECK (id > 0)\n)",
    "no expression as DEFAULT": "CREATE TABLE t (\n id int DEFAULT (1)\n)",
    "no index in a hint": "SELECT 1 FROM t FORCE INDEX (PRIMARY)",
    "no SKIP LOCKED, no NOWAIT": "SELECT 1 FROM t FOR UPDATE SKIP LOCKED",
    "no LOCK IN SHARE MODE": "SELECT 1 FROM t LOCK IN SHARE MODE",
    "no JSON_TABLE, no JSON_ARRAYAGG": "SELECT id FROM json_table('[]', '$') ids",
    "no GET_LOCK": "SELECT GET_LOCK('a', 1)",
}  # fmt: skip


def test_the_tables_keep_the_rules() -> None:
    """All of MySQL's are there; what a view breaks is said where it would stand."""
    assert {table.name for table in TABLES} == {*re.findall(r"CREATE TABLE .*?(\w+) \(", MYSQL)}
    assert lint((each for each in STATEMENTS if not each.lstrip().startswith("--")), TABLES) == []
    left_out = [each for each in STATEMENTS if "Left out" in each]
    assert "the view mutirao_workers (no JSON_TABLE, no JSON_ARRAYAGG)" in "".join(left_out)


def test_where_rows_are() -> None:
    """What is declared is in the tables, and no more: each such table has a reason."""
    assert {table.name for table in TABLES if table.reference} == REFERENCE
    apart = {table.name for table in TABLES if not table.reference and table.shard != table.primary}
    assert apart == SHARD_KEYS.keys()
    assert {name: {*key} for name, key in SHARD_KEYS.items()} == {
        table.name: table.shard for table in TABLES if table.name in SHARD_KEYS
    }


def test_each_rule_can_be_broken() -> None:
    """The linter sees each, and no other one in the same statement."""
    assert [rule.says for rule in RULES] == [*BREAKS]
    for says, statement in BREAKS.items():
        assert lint([statement], TABLES) == [(says, statement)]


def test_nobody_connects() -> None:
    """It is in no list of databases that are served."""
    assert TABLES_ONLY.keys() & DIALECTS.keys() == set()


def answering(answer: Any) -> Any:
    """Return a connection whose server says this of its version, or raises it."""

    def execute(sql: str) -> None:
        assert sql == "SELECT @@memsql_version"
        if isinstance(answer, Exception):
            raise answer

    @contextmanager
    def cursor() -> Any:
        yield SimpleNamespace(execute=execute, fetchone=lambda: (answer,))

    return SimpleNamespace(cursor=cursor)


def test_a_server_is_told_apart() -> None:
    """One sentence says what it is, that we have not run it, and with which command to do so."""
    said = "SingleStore 8.9.12, which was not run by us .* MUTIRAO_TEST_MYSQL_URL=.* pytest tests"
    with pytest.raises(ConfigurationError, match=said):
        singlestore.refuse(answering("8.9.12"))
    singlestore.refuse(answering(OSError(1193, "Unknown system variable 'memsql_version'")))
    with pytest.raises(OSError, match="gone"):
        singlestore.refuse(answering(OSError(2006, "gone")))
