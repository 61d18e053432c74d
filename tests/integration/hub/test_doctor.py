"""What `doctor` says of a hub: whether it is there, and whether it looks at the database."""

from __future__ import annotations

import pytest

from mutirao import Mutirao
from mutirao.model.findings import Finding, Level
from mutirao.notifiers import hub_access
from tests.support.hubs import hub
from tests.support.servers import free_port


async def examined(url: str, place: str | None) -> list[Finding]:
    """Return what is said of the hub."""
    app = Mutirao(url, hub=place)
    found = await app.aexamine()
    await app.aclose()
    return [each for each in found if each.about == "hub"]


async def test_without_one(lite_url: str) -> None:
    """Nothing."""
    assert await examined(lite_url, None) == []


async def test_it_looks(lite_url: str) -> None:
    """All is well."""
    async with hub(lite_url, every=0.02) as place:
        [found] = await examined(lite_url, place)
    assert (found.level, found.advice) == (Level.OK, None)


async def test_it_looks_elsewhere(lite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is told by which it knows the database, and what to do."""
    monkeypatch.setattr(hub_access, "_FIRST_LOOK", 0.05)
    async with hub() as place:
        [found] = await examined(lite_url, f"{place}?name=shop")
    assert found.level is Level.WARNING
    assert "does not look at this database, which it knows as 'shop'" in found.found
    assert "mutirao hub" in str(found.advice)


async def test_it_is_away(lite_url: str) -> None:
    """Or refuses us: workers poll."""
    async with hub(token="secret") as place:
        [found] = await examined(lite_url, place)
        assert (found.level, "no token was given" in found.found) == (Level.WARNING, True)
    [found] = await examined(lite_url, f"tcp://127.0.0.1:{free_port()}")
    assert (found.level, "is away" in found.found) == (Level.WARNING, True)
