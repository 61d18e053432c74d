"""A connection to SQLite that is lent begins with what is said first, and ends by its lender."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiosqlite
import pytest

from mutirao.errors import StoreError, WrongState
from mutirao.sql.drivers.lendable import lendable
from mutirao.sql.drivers.lending import would_end
from mutirao.sql.drivers.sqlite3 import OwnConnection

INSERT = "INSERT INTO receipt VALUES (?, x'00')"
WAYS: dict[str, Callable[[Any], object]] = {
    "execute": lambda conn: conn.execute(INSERT, (2,)),
    "executemany": lambda conn: conn.executemany(INSERT, [(2,), (3,)]),
    "cursor": lambda conn: conn.cursor().execute(INSERT, (2,)),
    "blobopen": lambda conn: conn.blobopen("receipt", "image", 1).close(),
}
VISITS: dict[str, Callable[[Any], Awaitable[object]]] = {
    "execute": lambda conn: conn.execute(INSERT, (2,)),
    "execute_insert": lambda conn: conn.execute_insert(INSERT, (2,)),
    "execute_fetchall": lambda conn: conn.execute_fetchall(INSERT, (2,)),
    "executemany": lambda conn: conn.executemany(INSERT, [(2,), (3,)]),
    "cursor": lambda conn: conn.cursor(),
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with one receipt."""
    path = tmp_path / "lent.db"
    conn = sqlite3.connect(path)
    conn.execute("CREATE TABLE receipt (id integer PRIMARY KEY, image blob)")
    conn.execute(INSERT, (1,))
    conn.commit()
    conn.close()
    return path


@pytest.fixture
def own(file: Path) -> Iterator[OwnConnection]:
    """A connection to it, of our class."""
    conn = sqlite3.connect(file, isolation_level=None, factory=OwnConnection, timeout=0)
    yield conn
    conn.close()


def refuse(name: str) -> None:
    """Refuse what would end the transaction."""
    raise would_end(name)


@pytest.mark.parametrize("way", WAYS)
def test_whatever_is_said_first(own: OwnConnection, way: str) -> None:
    """Is in a transaction, as is all after it."""
    own.lend()
    before = own.in_transaction
    WAYS[way](own)
    assert (before, own.in_transaction) == (False, True)
    own.rollback()
    assert own.execute("SELECT id FROM receipt").fetchall() == [(1,)]


@pytest.mark.parametrize("visit", VISITS)
async def test_whatever_aiosqlite_says_first(file: Path, visit: str) -> None:
    """The same, in its thread."""
    async with aiosqlite.connect(file, isolation_level=None, factory=OwnConnection) as conn:
        own = lendable(conn)
        assert own is not None
        own.lend()
        await VISITS[visit](conn)
        assert conn.in_transaction
        own.refuse = refuse
        with pytest.raises(WrongState, match="commit"):
            await conn.commit()
        own.refuse = None
        await conn.rollback()


def test_nothing_was_said(own: OwnConnection) -> None:
    """There is nothing to roll back, and what comes later begins nothing."""
    own.lend()
    assert not own.must_roll_back()
    own.execute(INSERT, (2,))
    assert not own.in_transaction
    assert own.is_idle()


def test_ends_are_refused(own: OwnConnection) -> None:
    """Those by a method, a script and a block; until it is taken back."""
    own.refuse = refuse
    for end in (own.commit, own.rollback, lambda: own.executescript("SELECT 1"), own.__enter__):
        with pytest.raises(WrongState, match="is committed when its block ends"):
            end()
    own.refuse = None
    with own:
        own.commit()


def test_another_process_writes(own: OwnConnection, file: Path) -> None:
    """The first statement says so in a word of ours, and lets the next one write."""
    given_up: list[bool] = []
    own.lock, own.unlock = lambda: True, lambda: given_up.append(True)
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    own.lend()
    with pytest.raises(StoreError, match="locked"):
        own.execute(INSERT, (2,))
    assert given_up == [True]
    assert not own.has_write_lock
    other.close()


def test_a_closed_one(own: OwnConnection) -> None:
    """It is lost, and holds no lock."""
    given_up: list[bool] = []
    own.lock, own.unlock = lambda: True, lambda: given_up.append(True)
    own.lend()
    own.execute(INSERT, (2,))
    own.close()
    assert own.is_lost()
    assert not own.is_open()
    assert not own.is_idle()
    assert given_up == [True]
