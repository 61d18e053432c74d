"""`migrate`, `schema`, and what every command says where the schema or the database is missing."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text

from mutirao.sql.schema import version
from tests.integration.cli.conftest import Shell, make_shop

COMMANDS = [
    ["list", "shop:app"],
    ["show", "shop:app", "1"],
    ["enqueue", "shop:app", "send"],
    ["retry", "shop:app", "1"],
    ["cancel", "shop:app", "1"],
    ["redrive", "shop:app", "1"],
    ["stats", "shop:app"],
    ["prune", "shop:app"],
    ["worker", "shop:app"],
]


def test_migrate(empty_shell: Shell) -> None:
    """The tables are there afterwards, however often; the password stays unsaid."""
    for _ in range(2):
        said = empty_shell.ok("migrate", "shop:app")
        assert said.endswith(f"is at revision {version.head()}\n")
        assert (make_url(empty_shell.url).password or "****") not in said
    assert empty_shell.json("migrate", "shop:app")["revision"] == version.head()
    assert empty_shell.ok("list", "shop:app") == "no such jobs\n"


def test_schema(sqlite_shell: Shell, tmp_path: Path) -> None:
    """What is printed makes the schema, and nothing else is printed."""
    printed = sqlite_shell.ok("schema", "--dialect", "sqlite")
    with closing(sqlite3.connect(tmp_path / "printed.db")) as connection:
        connection.executescript(printed)
    assert "CREATE FUNCTION mutirao_enqueue" in sqlite_shell.ok("schema", "--dialect", "postgresql")
    tables = sqlite_shell.ok("schema", "--dialect", "singlestore")
    assert "Not run by us" in tables
    assert "SHARD KEY (schedule)" in tables
    said = sqlite_shell.refused(2, "schema", "--dialect", "oracle")
    assert "it knows postgresql, sqlite" in said
    assert "--grants" in sqlite_shell.refused(2, "schema")


def test_a_schema_of_their_own(sqlite_shell: Shell) -> None:
    """For tables and for roles; not where there are none, nor with a name that is none."""
    tables = sqlite_shell.ok("schema", "--dialect", "postgresql", "--schema", "jobs")
    assert tables.index('CREATE SCHEMA IF NOT EXISTS "jobs"') < tables.index("CREATE TABLE")
    assert not re.search(r"\bpublic\b", tables)
    rights = sqlite_shell.ok("schema", "--grants", "reader,migrator", "--schema", "jobs")
    assert 'GRANT USAGE ON SCHEMA "jobs" TO mutirao_reader;' in rights
    assert '"jobs".mutirao_jobs' in rights
    assert 'CREATE SCHEMA IF NOT EXISTS "jobs" AUTHORIZATION mutirao_migrator;' in rights
    assert not re.search(r"\bpublic\b", rights)
    said = sqlite_shell.refused(2, "schema", "--dialect", "sqlite", "--schema", "jobs")
    assert "has no schemas" in said
    said = sqlite_shell.refused(2, "schema", "--grants", "--schema", "My jobs")
    assert "lower-case letters" in said


def test_grants(sqlite_shell: Shell) -> None:
    """A section for each role, or for some; for a login of the reader's own."""
    every = sqlite_shell.ok("schema", "--grants")
    assert [line.split(":")[0] for line in every.splitlines() if line.startswith("-- worker:")]
    some = sqlite_shell.ok("schema", "--grants", "enqueue, reader", "--to", "Shop's role")
    assert "GRANT SELECT ON\n    mutirao_attempts, " in some
    assert set(re.findall("TO (.*);", some)) == {'"Shop\'s role"'}
    assert "there are enqueue, keys" in sqlite_shell.refused(2, "schema", "--grants", "boss")
    said = sqlite_shell.refused(2, "schema", "--grants", "worker", "--dialect", "sqlite")
    assert "has no roles" in said
    assert "--grants" in sqlite_shell.refused(2, "schema", "--dialect", "sqlite", "--to", "me")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_without_tables(empty_shell: Shell, command: list[str]) -> None:
    """Status 3, and the command that makes them."""
    said = empty_shell.refused(3, *command)
    assert "`mutirao migrate module:app`" in said


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_file_that_does_not_exist(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 3, which file, and what makes it; nothing was made."""
    file = tmp_path / "nosuch.db"
    shell = make_shop(f"sqlite:///{file}", tmp_path, monkeypatch)
    said = shell.refused(3, *command)
    assert f"There is no file {file}, and none was made. Run `mutirao migrate module:app`" in said
    doctor = shell.run("doctor", "shop:app")
    assert (doctor.exit_code, "There is no file" in doctor.stdout) == (3, True)
    assert not file.exists()
    shell.ok("migrate", "shop:app")
    assert file.exists()


def test_a_newer_schema(shell: Shell) -> None:
    """Status 3, and which package to upgrade, for migrate too."""
    engine = create_engine(shell.url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE mutirao_version SET version_num = '0999'"))
    engine.dispose()
    for command in ("list", "migrate", "worker"):
        assert "`pip install --upgrade mutirao`" in shell.refused(3, command, "shop:app")


@pytest.mark.parametrize("driver", ["psycopg", "psycopg2", "asyncpg"])
@pytest.mark.parametrize("command", [*COMMANDS, ["migrate", "shop:app"], ["doctor", "shop:app"]],
                         ids=lambda command: command[0])  # fmt: skip
def test_an_unreachable_database(
    driver: str, command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Status 4, and one line that says so."""
    url = f"postgresql+{driver}://nobody@127.0.0.1:1/nothing"
    said = make_shop(url, tmp_path, monkeypatch).refused(4, *command)
    lines = [line for line in said.splitlines() if line.startswith("mutirao: ")]
    assert lines[0].startswith("mutirao: the database cannot be reached")


def test_a_url_of_another_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Status 2, and the ones that are known."""
    shell = make_shop("oracle://host/db", tmp_path, monkeypatch)
    assert "known are" in shell.refused(2, "list", "shop:app")
