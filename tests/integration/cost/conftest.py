"""Databases whose statements are counted: PostgreSQL through each asynchronous driver, SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from shutil import copy
from typing import NamedTuple

import pytest
from sqlalchemy import make_url

from tests.integration.cost.meters import Meter, SqliteMeter, WireMeter
from tests.integration.cost.simulated import clock
from tests.integration.plans.test_round_trips import IN_PLAIN_TEXT
from tests.integration.plans.wire import Wire
from tests.support.postgresql import PostgresServer

__all__ = ["clock"]

SQLITE = "sqlite"


class Metered(NamedTuple):
    """A migrated database, and the meter of what is done to it. `kind`: a driver, or "sqlite"."""

    kind: str
    url: str
    meter: Meter


@pytest.fixture(scope="session")
def wire(postgres: PostgresServer) -> Iterator[Wire]:
    """A relay in front of the server."""
    with Wire(postgres.port) as wire:
        yield wire


@pytest.fixture(params=[*IN_PLAIN_TEXT, SQLITE])
def metered_database(request: pytest.FixtureRequest) -> Metered:
    """A migrated database of each kind, with nothing in it."""
    name = "metered_sqlite" if request.param == SQLITE else "metered_postgresql"
    metered: Metered = request.getfixturevalue(name)
    return metered


@pytest.fixture
def metered_postgresql(
    request: pytest.FixtureRequest, wire: Wire, postgres: PostgresServer, migrated_template: str
) -> Iterator[Metered]:
    """A database behind the relay, for the driver that is asked for."""
    driver = request.node.callspec.params["metered_database"]
    with postgres.database(migrated_template) as name:
        straight = make_url(postgres.url(name, driver))
        relayed = straight.set(port=wire.port, query=IN_PLAIN_TEXT[driver])
        yield Metered(driver, relayed.render_as_string(hide_password=False), WireMeter(wire))


@pytest.fixture
def metered_sqlite(migrated_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Metered:
    """A file whose connections are metered."""
    path = copy(migrated_file, tmp_path / "mutirao.db")
    meter = SqliteMeter()
    meter.install(monkeypatch)
    return Metered(SQLITE, f"sqlite:///{path}", meter)
