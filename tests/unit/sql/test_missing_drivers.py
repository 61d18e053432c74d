"""A driver that is not installed: what the URL asks for, and what brings it."""

from __future__ import annotations

import sys

import pytest

from mutirao import Mutirao
from mutirao.errors import MissingDriver


@pytest.mark.parametrize(
    ("url", "package", "extra"),
    [
        ("postgresql://h/d", "psycopg", "postgresql"),
        ("postgresql+asyncpg://h/d", "asyncpg", "asyncpg"),
        ("postgresql+psycopg2://h/d", "psycopg2", "psycopg2"),
        ("mysql://h/d", "pymysql", "mysql"),
        ("mysql+mysqldb://h/d", "MySQLdb", "mysqlclient"),
    ],
)
def test_what_to_install(
    monkeypatch: pytest.MonkeyPatch, url: str, package: str, extra: str
) -> None:
    """Each command says it, before anything is connected to."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDriver, match=rf"{package}.* pip install 'mutirao\[{extra}\]'"):
        Mutirao(url).migrate()
