"""Databases of both kinds, with Mutirão's tables and nothing in them."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.integration.databases.kit import Company

Files = Callable[[int], list[str]]


@pytest.fixture
def files(migrated_file: Path, tmp_path: Path) -> Files:
    """Return what gives so many migrated SQLite files, as URLs."""

    def made(number: int) -> list[str]:
        paths = (tmp_path / f"shop-{n}.db" for n in range(number))
        return [f"sqlite:///{shutil.copy(migrated_file, path)}" for path in paths]

    return made


@pytest.fixture
async def company(files: Files, migrated_postgresql_url: str) -> AsyncIterator[Company]:
    """Two SQLite files and a PostgreSQL database."""
    made = Company(*files(2), migrated_postgresql_url)
    yield made
    await made.close()
