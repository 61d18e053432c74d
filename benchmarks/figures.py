"""Figures: what a work reports, by name, with the unit in the name."""

from dataclasses import dataclass
from math import ceil
from typing import Protocol, Self

from benchmarks.member import Share
from benchmarks.spent import Spent

Figures = dict[str, float | None]


class Result(Protocol):
    """What a work returns: a value whose fields are the JSON, and its figures for people."""

    def figures(self) -> Figures:
        """Return the figures by name; None where the database does not tell."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a number of jobs took. All but the first three are for one job.

    Parameters:
        jobs: how many.
        seconds: all of them.
        rate: jobs a second.
        client_cpu: microseconds of processor time of producers and workers.
        server_cpu: likewise of the database's server.
        statements: sent; COPY, BEGIN and COMMIT not counted. None where none were.
        wal_bytes, commits, dead_tuples: as in `Gauges`.
    """

    jobs: int
    seconds: float
    rate: float
    client_cpu: float
    server_cpu: float | None
    statements: float | None
    wal_bytes: float | None
    commits: float | None
    dead_tuples: float | None

    @classmethod
    def of(cls, jobs: int, spent: Spent, workers: Share | None = None) -> Self:
        """Divide what was spent here, and by workers in processes of their own, among jobs."""
        workers = workers or Share()
        return cls(
            jobs=jobs,
            seconds=spent.seconds,
            rate=jobs / spent.seconds,
            client_cpu=(spent.client_cpu + workers.cpu) / jobs * 1e6,
            server_cpu=share_of(spent.server_cpu, jobs / 1e6),
            statements=(spent.statements + workers.statements) / jobs or None,
            wal_bytes=share_of(spent.wal_bytes, jobs),
            commits=share_of(spent.commits, jobs),
            dead_tuples=share_of(spent.dead_tuples, jobs),
        )

    def figures(self) -> Figures:
        """Return them with their units."""
        return {"jobs/s": self.rate, "seconds": self.seconds} | self.each()

    def each(self) -> Figures:
        """Return what one job took, where the pace was not the jobs' own."""
        return {
            "client CPU, µs/job": self.client_cpu,
            "server CPU, µs/job": self.server_cpu,
            "WAL, bytes/job": self.wal_bytes,
            "commits/job": self.commits,
            "statements/job": self.statements,
            "dead tuples/job": self.dead_tuples,
        }


def prefixed(prefix: str, figures: Figures) -> Figures:
    """Return figures whose names say what they are of."""
    return {f"{prefix}: {name}": value for name, value in figures.items()}


@dataclass(frozen=True, slots=True)
class Quantiles:
    """How a length of time was distributed, in milliseconds."""

    p50: float
    p90: float
    p99: float
    max: float

    @classmethod
    def of(cls, seconds: list[float]) -> Self:
        """Return the quantiles of some lengths of time."""
        return cls(*(quantile(seconds, share) * 1e3 for share in (0.5, 0.9, 0.99, 1.0)))

    def figures(self) -> Figures:
        """Return them with their unit."""
        return {
            "p50, ms": self.p50,
            "p90, ms": self.p90,
            "p99, ms": self.p99,
            "max, ms": self.max,
        }


def quantile(values: list[float], share: float) -> float:
    """Return the smallest of `values` that at least a `share` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, ceil(len(ordered) * share) - 1)]


def share_of(total: float | None, parts: float) -> float | None:
    """Return one of so many parts of a figure, where there is a figure."""
    return None if total is None else total / parts
