"""Dashboards: Grafana's types read them, and each SQL query of theirs returns data.

No Grafana has rendered them: there is none to be had here. What it does to a query before it asks,
macros and variables, is done here as its documentation says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard, Panel

from mutirao.cli import main
from mutirao.telemetry.grafana.sql_board import Database, board
from mutirao.telemetry.grafana.writing import documents
from tests.integration.telemetry.watching import add_endpoint, idle, rows, watched

plugins.register_default_plugins()
BOARDS = [name for name in documents() if name.endswith(".json")]
HOUR = timedelta(hours=1)


def lost(ours: Any, theirs: Any, where: str = "") -> Iterator[str]:
    """Yield where what was read and written again lacks something of ours, or has it otherwise."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            yield from lost(value, theirs.get(key, "nothing"), f"{where}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from lost(one, other, f"{where}[{place}]")
    elif ours != theirs:
        yield f"{where}: {ours!r} became {theirs!r}"


@pytest.mark.parametrize("name", BOARDS)
def test_grafana_knows_all_that_is_in_it(name: str) -> None:
    """Read by the types that Grafana publishes, and written again, a dashboard is what it was."""
    given = json.loads(documents()[name])
    read = Dashboard.from_json(given)
    assert [*lost(given, json.loads(json.dumps(read, cls=JSONEncoder)))] == []
    panels = [each for each in read.panels or [] if isinstance(each, Panel)]
    ids = [each["id"] for each in given["panels"]]
    assert len(set(ids)) == len(ids)
    assert all(each.targets and each.title and each.datasource for each in panels)
    assert not [*overlaps(given["panels"])]


def overlaps(panels: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """Yield panels of which one lies on another, or outside of the 24 columns."""
    cells: dict[tuple[int, int], str] = {}
    for each in panels:
        place = each["gridPos"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                if x >= 24 or (x, y) in cells:
                    yield each["title"], cells.get((x, y), "outside")
                cells[x, y] = each["title"]


@pytest.mark.parametrize("database", ["postgresql", "mysql"])
async def test_each_query_returns_data(
    database: Database, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a database with jobs, a schedule, a limit, a subscription and an endpoint."""
    url = str(request.getfixturevalue(f"migrated_{database}_url"))
    program = watched(url, monkeypatch)
    await add_endpoint(program)
    async with program.app.worker(poll=0.2):
        await program.fill(20)
        await idle(program)
        await program.send.using(delay=3600).aenqueue(1)
        empty = [each.text for each in board(database).queries() if not asked(url, each.text)]
        assert empty == []
        [[succeeded]] = asked(url, text_of(database, "succeed"))
        assert 0 < float(str(succeeded)) < 1
    variable = board(database).variables[0].query
    assert {row[0] for row in rows(url, variable)} == {"mail", "reports", "default"}
    await program.app.aclose()


def text_of(database: Database, title: str) -> str:
    """Return the query of the panel whose title has a word."""
    panels = [each for row in board(database).rows for each in row.panels]
    [found] = [each for each in panels if title in each.title]
    return found.queries[0].text


def asked(url: str, query: str) -> list[tuple[object, ...]]:
    """Ask as Grafana does: with its macros and variables replaced."""
    since, until = datetime.now(UTC) - 24 * HOUR, datetime.now(UTC) + HOUR
    said = {
        "$__timeFilter(hour)": f"hour BETWEEN '{since.isoformat()}' AND '{until.isoformat()}'",
        "$__unixEpochFrom()": str(int(since.timestamp())),
        "$__unixEpochTo()": str(int(until.timestamp())),
        "${queue:sqlstring}": "'mail','reports','default'",
    }
    for macro, words in said.items():
        query = query.replace(macro, words)
    assert "$" not in query, query
    return rows(url, query)


def test_the_command_writes_them(tmp_path: Path) -> None:
    """Where it is told to; a place that cannot be is one clear error."""
    runner = CliRunner()
    printed = runner.invoke(main, ["grafana", "--to", str(tmp_path / "made" / "here")]).output
    assert [Path(line).name for line in printed.splitlines()] == [*documents()]
    for path in map(Path, printed.splitlines()):
        assert path.read_text(encoding="utf-8") == documents()[path.name]
    (tmp_path / "file").touch()
    refused = runner.invoke(main, ["grafana", "--to", str(tmp_path / "file" / "below")])
    assert refused.exit_code == 2
    assert re.search(r"--to is .*, where nothing can be written", refused.output)
