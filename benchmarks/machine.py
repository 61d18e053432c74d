"""What figures depend on: a figure without its machine and its settings says nothing."""

import os
import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from sqlalchemy import Connection

from benchmarks.ground import closing_ground, ground


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Where a benchmark ran, and on what.

    `settings` are the database's own about speed and durability; `driver` with its version.
    """

    mutirao: str
    python: str
    sqlalchemy: str
    database: str
    driver: str
    settings: dict[str, Any]
    cores: int
    platform: str


async def machine(url: str, *, as_it_is: bool = False) -> Machine:
    """Ask a database that a benchmark may use (see `Ground.prepare`), and the system.

    Parameters:
        as_it_is: leave what is in the database.
    """
    async with closing_ground(url) if as_it_is else ground(url) as place:
        database = await place.ask(place.instruments.version)
        settings = await place.ask(place.instruments.settings)
        driver = await place.ask(_driver)
    return Machine(
        mutirao=version("mutirao"),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        sqlalchemy=version("sqlalchemy"),
        database=database,
        driver=driver,
        settings=settings,
        cores=os.cpu_count() or 1,
        platform=platform.platform(),
    )


def _driver(conn: Connection) -> str:
    name = conn.dialect.driver
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:  # a part of Python itself, or of another distribution's name
        return name
