"""What was measured: one record a run, and nothing that could be computed from others.

Everything that is printed is computed from these, so a file of results can be printed again.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

Figures = dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One run of one work by one peer, or why there is none.

    Parameters:
        work: "drain", "enqueue many", "enqueue one", "latency", "pinned", "backlog" or "SQLite".
        variant: what distinguishes runs of a work, such as "1 kB".
        jobs: how many jobs the figures are about.
        figures: seconds, cpu, server_cpu (all in seconds), wal_bytes, commits, dead_tuples; or the
            quantiles of a latency in milliseconds. What could not be measured is missing.
        failed: why there are no figures.
    """

    peer: str
    work: str
    variant: str
    run: int = 1
    jobs: int = 0
    figures: Figures = field(default_factory=dict)
    failed: str | None = None


@dataclass(slots=True)
class Results:
    """All records of one session, with what they were measured on."""

    machine: dict[str, str]
    peers: dict[str, dict[str, Any]] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)

    def of(self, peer: str, work: str, variant: str) -> list[Record]:
        """Return the records of runs that gave figures."""
        wanted = (peer, work, variant)
        return [
            r for r in self.records if (r.peer, r.work, r.variant) == wanted and r.failed is None
        ]

    def median(
        self, peer: str, work: str, variant: str, figure: Callable[[Record], float | None]
    ) -> float | None:
        """Return the median of a figure over the runs; None where it was not measured."""
        found = [figure(record) for record in self.of(peer, work, variant)]
        values = [value for value in found if value is not None]
        return median(values) if values else None

    def variants(self, work: str) -> list[str]:
        """Return the variants of a work, in the order they were measured in."""
        return list(dict.fromkeys(r.variant for r in self.records if r.work == work))

    def names(self, work: str) -> list[str]:
        """Return who was asked to do a work, in order; those that could not be installed too."""
        asked = {r.peer for r in self.records if r.work == work}
        return [name for name in self.peers if name in asked]

    def save(self, path: Path) -> None:
        """Write everything as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = {
            "machine": self.machine,
            "peers": self.peers,
            "records": [asdict(record) for record in self.records],
        }
        path.write_text(json.dumps(whole, indent=1) + "\n")


def load(path: Path) -> Results:
    """Read what `Results.save` wrote."""
    whole = json.loads(path.read_text())
    return Results(
        whole["machine"], whole["peers"], [Record(**record) for record in whole["records"]]
    )


def rate(record: Record) -> float | None:
    """Jobs a second."""
    seconds = record.figures.get("seconds")
    return record.jobs / seconds if seconds else None


def a_job(name: str, scale: float = 1.0) -> Callable[[Record], float | None]:
    """Return a figure's share of one job, times `scale`."""

    def figure(record: Record) -> float | None:
        value = record.figures.get(name)
        return None if value is None or not record.jobs else value / record.jobs * scale

    return figure


def plain(name: str) -> Callable[[Record], float | None]:
    """Return a figure as it was measured."""
    return lambda record: record.figures.get(name)


def figures_of(answer: dict[str, Any], names: Iterable[str]) -> Figures:
    """Take the figures out of an adapter's answer."""
    return {name: float(answer[name]) for name in names if answer.get(name) is not None}
