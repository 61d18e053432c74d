"""An application's own Alembic project, beside Mutirão's tables: it does not touch them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config

from mutirao import Mutirao
from mutirao.integrations.alembic import include_name, include_object
from mutirao.sql import migrations

MODELS = """
from sqlalchemy import Column, Integer, MetaData, Table, Text

metadata = MetaData()
Table("orders", metadata, Column("id", Integer, primary_key=True), Column("item", Text, index=True))
"""
OVER_A_VIEW = """
Table("mutirao_jobs", metadata, Column("id", Integer, primary_key=True), Column("task", Text))
"""
HOOKS = {
    "both": """
from mutirao.integrations.alembic import include_name, include_object
chosen = {"include_object": include_object, "include_name": include_name}
""",
    "one": """
from mutirao.integrations.alembic import include_object
chosen = {"include_object": include_object}
""",
    "composed": """
from mutirao.integrations import alembic as mutirao

def include_object(object, name, type_, reflected, compare_to):
    if name == "legacy":
        return False
    return mutirao.include_object(object, name, type_, reflected, compare_to)

chosen = {"include_object": include_object}
""",
    "every schema": """
from mutirao.integrations.alembic import include_object
chosen = {"include_object": include_object, "include_schemas": True}
""",
    "none": "chosen = {}",
}


class Project:
    """An Alembic project as `alembic init` makes it, with models of its own and our hooks.

    Commands are run in this process: a program for each took three quarters of the tests' time.
    """

    def __init__(self, directory: Path, url: str, hooks: str, models: str = MODELS) -> None:
        self._directory = directory
        self._told = StringIO()
        self._config = Config(directory / "alembic.ini", stdout=self._told)
        command.init(self._config, str(directory / "migrations"))
        (directory / "models.py").write_text(models)
        self._change("alembic.ini", {"driver://user:pass@localhost/dbname": url})
        self._change(
            "migrations/env.py",
            {
                "fileConfig(config.config_file_name)": "pass",  # the logging of all tests
                "target_metadata = None": f"{hooks}\nfrom models import metadata",
                "target_metadata=target_metadata": "target_metadata=metadata, **chosen",
            },
        )

    def upgrade(self) -> None:
        """Run what was written."""
        with self._at_home():
            command.upgrade(self._config, "head")

    def check(self) -> str:
        """Look for what is still to be written, which raises an error; return what is said."""
        with self._at_home():
            command.check(self._config)
        return self._told.getvalue()

    def autogenerate(self, message: str = "next") -> str:
        """Let Alembic write a revision; return it."""
        versions = self._directory / "migrations/versions"
        before = set(versions.glob("*.py"))
        with self._at_home():
            command.revision(self._config, message, autogenerate=True)
        (made,) = set(versions.glob("*.py")) - before
        return made.read_text()

    @contextmanager
    def _at_home(self) -> Iterator[None]:
        """Let the project's models be found, and forget them afterwards."""
        with pytest.MonkeyPatch.context() as patching:
            patching.syspath_prepend(self._directory)
            patching.chdir(self._directory)
            patching.delitem(sys.modules, "models", raising=False)
            try:
                yield
            finally:
                sys.modules.pop("models", None)

    def _change(self, name: str, changes: Mapping[str, str]) -> None:
        path = self._directory / name
        content = path.read_text()
        for old, new in changes.items():
            assert old in content
            content = content.replace(old, new)
        path.write_text(content)


@pytest.fixture
def url(database_url: str) -> str:
    """The URL of a database with the tables: without the hostile functions, which stop Alembic."""
    migrations.upgrade(database_url)
    return database_url


@pytest.mark.parametrize("hooks", ["both", "one", "composed"])
async def test_tables_and_jobs_live_on(url: str, tmp_path: Path, hooks: str) -> None:
    """What Alembic writes speaks of the application's tables only, and no job is lost by it."""
    await they_live_on(url, tmp_path, hooks)


async def test_in_every_schema(postgresql_url: str, tmp_path: Path) -> None:
    """On MySQL that would be every database of the server, system tables, too."""
    migrations.upgrade(postgresql_url)
    await they_live_on(postgresql_url, tmp_path, "every schema")


async def they_live_on(url: str, tmp_path: Path, hooks: str) -> None:
    """Let Alembic write a revision of the application's, and run it."""
    app = Mutirao(url)

    @app.task
    async def send() -> None: ...

    handle = await send.aenqueue()
    await app.aclose()
    project = Project(tmp_path, url, HOOKS[hooks])
    made = project.autogenerate()
    assert "op.create_table('orders'" in made
    assert "mutirao" not in made
    project.upgrade()
    assert "No new upgrade operations" in project.check()
    await app.acheck()
    assert (await app.ajob(handle.id)).task == "send"
    (seen,) = [found for found in await app.aexamine() if found.about == "migrations"]
    assert (seen.level, seen.advice) == ("ok", None)
    assert "mutirao.integrations.alembic" in seen.found
    await app.aclose()


def test_without_the_hooks(url: str, tmp_path: Path) -> None:
    """Alembic proposes to drop all tables: that is what they are for."""
    made = Project(tmp_path, url, HOOKS["none"]).autogenerate()
    for table in ("mutirao_job", "mutirao_live", "mutirao_version"):
        assert f"op.drop_table('{table}')" in made.split("def downgrade")[0]


def test_a_model_over_a_view(url: str, tmp_path: Path) -> None:
    """Whoever reads a view through a model of their own is not given a table of its name."""
    project = Project(tmp_path, url, HOOKS["both"], MODELS + OVER_A_VIEW)
    assert "mutirao" not in project.autogenerate()


def test_what_is_ours() -> None:
    """Tables of our prefix, in any schema; nothing else of anybody."""
    for schema in (None, "jobs"):
        assert not include_name("mutirao_job", "table", {"schema_name": schema})
        assert include_name("orders", "table", {"schema_name": schema})
    assert include_name("mutirao_of_orders", "column", {"table_name": "orders"})
    assert include_name(None, "schema", {})
    assert not include_object(object(), "mutirao_job", "table", True, None)
    assert include_object(object(), None, "unique_constraint", True, None)


async def test_the_doctor_says_nothing_without_alembic(url: str) -> None:
    """Where no Alembic but ours has been, there is nothing to say."""
    app = Mutirao(url)
    assert [found for found in await app.aexamine() if found.about == "migrations"] == []
    await app.aclose()
