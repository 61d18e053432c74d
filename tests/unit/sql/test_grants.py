"""What is printed for roles is what the documents show, and says each thing once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mutirao.errors import ConfigurationError
from mutirao.sql.dialects.postgresql import grant_statements, grants
from mutirao.sql.schema import views

PAGE = Path(__file__).parents[3] / "docs/sql.md"


def test_the_table_of_roles() -> None:
    """docs/sql.md shows every role with what it needs, in order."""
    _, _, section = PAGE.read_text(encoding="utf-8").partition("\n## Roles\n")
    rows = re.findall(r"^\| `(\w+)` \| (.*) \| (.*) \|$", section, re.MULTILINE)
    assert rows == [(name, role.does, shown(role)) for name, role in grants.ROLES.items()]


def shown(role: grants.Role) -> str:
    """Return what a role needs in the words of the document."""
    beyond = [f"as `{name}`" for name in role.beyond]
    groups = grants.grouped(role.own()).items()
    own = [f"`{kinds}` on {', '.join(f'`{each}`' for each in on)}" for kinds, on in groups]
    return "; ".join(beyond + own)


def test_a_reader_sees_all_views() -> None:
    """And nothing but views."""
    assert set(grants.privileges("reader")) == set(views.metadata.tables)


def test_together() -> None:
    """What a role goes beyond is in its own section; a whole table is more than its columns."""
    assert grants.privileges("keys")["mutirao_live"] == dict.fromkeys(
        ("SELECT", "INSERT", "UPDATE", "DELETE"), frozenset()
    )
    columns = {"args", "group", "id", "priority", "queue", "run_at", "task", "tenant", "version"}
    assert grants.privileges("keys")["mutirao_job"]["SELECT"] == columns
    assert grant_statements.sql(["keys"]).count("mutirao_job TO") == 1


def test_an_unknown_role() -> None:
    """The error names those there are."""
    with pytest.raises(ConfigurationError, match=r"'boss'.*there are enqueue, keys"):
        grant_statements.sql(["boss"])
