"""A dashboard in Grafana's format: rows of panels, each with its queries.

The names of the JSON are Grafana's (schema 39). The JSON has little, so that it holds for
several versions: Grafana fills in the rest.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["stat", "timeseries", "table"]
SCHEMA_VERSION = 39
WIDTH = 24  # columns of a dashboard
HEIGHTS: Mapping[Kind, int] = {"stat": 4, "timeseries": 8, "table": 8}


@dataclass(frozen=True, slots=True)
class Query:
    """A query, and the names of its series; for Prometheus a template, `{{queue}}`."""

    text: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel.

    Parameters:
        kind: a number, lines, or a table.
        unit: of its values, as Grafana calls it.
        width: of 24 columns.
        reds: the value from which it is red; None: no colours.
        says: what it shows, if the title is not enough.
    """

    title: str
    kind: Kind
    queries: Sequence[Query]
    unit: str = "short"
    width: int = 8
    reds: float | None = None
    says: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """A heading, and the panels beneath it."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class DataSource:
    """The data source of queries.

    Parameters:
        kind: the type of the data source.
        title: its name for people.
        targets: fields of its queries, besides the common ones.
    """

    kind: str
    title: str
    targets: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Variable:
    """A selection at the top: the values that a query finds; all of them at first."""

    name: str
    label: str
    query: str


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard. `since`: the time range that it shows at first."""

    uid: str
    title: str
    source: DataSource
    variables: Sequence[Variable]
    rows: Sequence[Row]
    since: str = "now-3h"
    refresh: str = "30s"

    def queries(self) -> Iterator[Query]:
        """Yield the queries of all panels."""
        for row in self.rows:
            for panel in row.panels:
                yield from panel.queries

    def as_json(self) -> dict[str, Any]:
        """Return the JSON that Grafana imports."""
        return {
            "uid": self.uid,
            "title": self.title,
            "tags": ["mutirao"],
            "timezone": "browser",
            "editable": True,
            "graphTooltip": 1,
            "schemaVersion": SCHEMA_VERSION,
            "refresh": self.refresh,
            "time": {"from": self.since, "to": "now"},
            "templating": {"list": [_source(self.source), *map(self._variable, self.variables)]},
            "panels": list(self._panels()),
        }

    def _variable(self, variable: Variable) -> dict[str, Any]:
        return {
            "type": "query",
            "name": variable.name,
            "label": variable.label,
            "datasource": self._asked(),
            "query": variable.query,
            "refresh": 2,  # whenever the time range changes
            "multi": True,
            "includeAll": True,
            "current": {"text": "All", "value": "$__all"},
            "sort": 1,
        }

    def _panels(self) -> Iterator[dict[str, Any]]:
        number, top = 0, 0
        for row in self.rows:
            number += 1
            yield _heading(number, row.title, top)
            top += 1
            for panel, place in _placed(row.panels, top):
                number += 1
                yield self._panel(number, panel, place)
                top = max(top, place["y"] + place["h"])

    def _panel(self, number: int, panel: Panel, place: Mapping[str, int]) -> dict[str, Any]:
        colours = {} if panel.reds is None else {"thresholds": _thresholds(panel.reds)}
        return {
            "id": number,
            "type": panel.kind,
            "title": panel.title,
            **({"description": panel.says} if panel.says else {}),
            "datasource": self._asked(),
            "gridPos": dict(place),
            "fieldConfig": {"defaults": {"unit": panel.unit, **colours}, "overrides": []},
            "targets": [
                self._target(panel, chr(ord("A") + place), query)
                for place, query in enumerate(panel.queries)
            ],
        }

    def _target(self, panel: Panel, ref: str, query: Query) -> dict[str, Any]:
        own = self.source.targets[panel.kind]
        text = "expr" if self.source.kind == "prometheus" else "rawSql"
        legend = {"legendFormat": query.legend} if query.legend else {}
        return {"refId": ref, "datasource": self._asked(), text: query.text, **legend, **own}

    def _asked(self) -> dict[str, str]:
        return {"type": self.source.kind, "uid": "${datasource}"}


def _source(source: DataSource) -> dict[str, Any]:
    return {
        "type": "datasource",
        "name": "datasource",
        "label": source.title,
        "query": source.kind,
        "refresh": 1,
    }


def _heading(number: int, title: str, top: int) -> dict[str, Any]:
    place = {"h": 1, "w": WIDTH, "x": 0, "y": top}
    return {
        "id": number, "type": "row", "title": title, "collapsed": False, "gridPos": place,
        "panels": [],
    }  # fmt: skip


def _placed(panels: Iterable[Panel], top: int) -> Iterator[tuple[Panel, dict[str, int]]]:
    """Yield panels with their places, from left to right and then further down."""
    left, highest = 0, 0
    for panel in panels:
        height = HEIGHTS[panel.kind]
        if left + panel.width > WIDTH:
            left, top, highest = 0, top + highest, 0
        yield panel, {"h": height, "w": panel.width, "x": left, "y": top}
        left, highest = left + panel.width, max(highest, height)


def _thresholds(reds: float) -> dict[str, Any]:
    steps = [{"color": "green", "value": None}, {"color": "red", "value": reds}]
    return {"mode": "absolute", "steps": steps}
