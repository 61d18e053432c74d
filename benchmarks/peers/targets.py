"""The promises about speed, and whether a run of the benchmark kept them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median

from benchmarks.peers import series, works
from benchmarks.peers.records import Record, Results, a_job, plain, rate

OURS, LIMIT, PYTHON, NODE = "mutirao", "raw", "pgqueuer", "graphile-worker"
ELSEWHERE = (
    "sustained load; 16 producers beside a busy worker; jobs over many lanes and scheduled ones;"
    " the idle worker, and fleets of them; schedules; transactional jobs; memory"
)


@dataclass(frozen=True, slots=True)
class Target:
    """One promise: `found` against `bound`, which it must reach or, if `at_most`, not pass."""

    work: str
    what: str
    bound: float
    found: float | None
    at_most: bool = False

    @property
    def verdict(self) -> str:
        """Met, not met, or not measured in this run."""
        if self.found is None:
            return "not measured"
        kept = self.found <= self.bound if self.at_most else self.found >= self.bound
        return "met" if kept else "**not met**"


def table(results: Results) -> str:
    """Return the promises as a table in Markdown."""
    lines = ["## Targets", "", "| work | target | measured | |", "|---|---|---|---|"]
    for target in targets(results):
        sign = "≤" if target.at_most else "≥"
        found = "—" if target.found is None else f"{target.found:.2f}"
        lines.append(
            f"| {target.work} | {target.what} {sign} {target.bound} | {found} | {target.verdict} |"
        )
    lines += ["", f"Not covered here, but by `make measure`: {ELSEWHERE}."]
    return "\n".join(lines)


def targets(results: Results) -> Iterator[Target]:
    """Yield all promises that this benchmark can tell about."""
    if results.machine.get("database") in ("mysql", "real-mysql"):
        yield from _on_mysql(results)
        return
    yield from _draining(results)
    yield from _enqueueing(results)
    p50, p99 = (
        results.median(OURS, works.LATENCY, "idle worker", plain(q)) for q in ("p50", "p99")
    )
    yield Target("latency, idle worker", "p50, ms,", 1.5, p50, at_most=True)
    yield Target("latency, idle worker", "p99, ms,", 5.0, p99, at_most=True)
    yield from _steadiness(results)
    yield from _cost(results)
    huey = _ratio(_sqlite(results, OURS), _sqlite(results, "huey"))
    yield Target("SQLite, draining", "× huey", 3.0, huey)


def _on_mysql(results: Results) -> Iterator[Target]:
    cases = [
        ("drain", works.DRAIN, "60 B"),
        ("drain, payload 8 kB", works.DRAIN, "8 kB"),
        ("enqueue many, in a transaction", works.MANY, "60 B"),
        ("enqueue one, 1 producer", works.ONE, "1 producer"),
    ]
    for what, work, variant in cases:
        ours, limit = (results.median(name, work, variant, rate) for name in (OURS, LIMIT))
        yield Target(what, "× raw SQL", 0.7, _ratio(ours, limit))
    yield from _steadiness(results)


def _draining(results: Results) -> Iterator[Target]:
    def of(peer: str, variant: str = "60 B") -> float | None:
        return results.median(peer, works.DRAIN, variant, rate)

    ours = of(OURS)
    yield Target("drain, one process", "× raw SQL", 0.7, _ratio(ours, of(LIMIT)))
    yield Target("drain, one process", f"× {NODE}", 1.0, _ratio(ours, of(NODE)))
    yield Target("drain, one process", f"× {PYTHON}", 2.0, _ratio(ours, of(PYTHON)))
    yield Target("drain, two processes", "× one process", 1.3, _ratio(of(OURS, works.TWO), ours))
    threads = _ratio(of(OURS, works.THREADS), ours)
    yield Target("drain, plain function in threads", "× coroutine", 0.4, threads)
    command = _ratio(of(OURS, works.COMMAND), ours)
    yield Target("drain, `mutirao worker` with its defaults", "× embedded", 0.85, command)
    for size in ("1 kB", "8 kB"):
        share = _ratio(of(OURS, size), of(LIMIT, size))
        yield Target(f"drain, payload {size}", "× raw SQL", 0.7, share)
    wal = [results.median(OURS, works.DRAIN, v, a_job("wal_bytes")) for v in ("8 kB", "60 B")]
    yield Target("drain, payload 8 kB", "WAL, × that at 60 B,", 1.1, _ratio(*wal), at_most=True)


def _enqueueing(results: Results) -> Iterator[Target]:
    def of(peer: str, work: str, variant: str) -> float | None:
        return results.median(peer, work, variant, rate)

    many = of(OURS, works.MANY, "60 B")
    raw = of(LIMIT, works.MANY, "60 B")
    others = [n for n in results.names(works.MANY) if n not in (OURS, LIMIT)]
    rates = [value for n in others if (value := of(n, works.MANY, "60 B")) is not None]
    yield Target("enqueue many, in a transaction", "× raw COPY", 0.7, _ratio(many, raw))
    best = _ratio(many, max(rates, default=None))
    yield Target("enqueue many, in a transaction", "× the best peer", 1.5, best)
    for variant in ("1 producer", "16 producers"):
        share = _ratio(of(OURS, works.ONE, variant), of(LIMIT, works.ONE, variant))
        yield Target(f"enqueue one, {variant}", "× raw INSERTs", 0.8, share)


def _steadiness(results: Results) -> Iterator[Target]:
    held = ends(results, OURS)
    share = None if held is None else held[2]
    yield Target("pinned", "last five rounds, × the first five,", 0.95, share)
    sizes = results.variants(series.BACKLOG)
    rates = [(int(s), results.median(OURS, series.BACKLOG, s, rate)) for s in sizes]
    few, usual = rates[0] if rates else (0, None)
    for size, found in rates[1:]:
        yield Target(f"backlog of {size:,}", f"× that of {few:,}", 0.8, _ratio(found, usual))


def _cost(results: Results) -> Iterator[Target]:
    for what, name in (("server CPU", "server_cpu"), ("WAL bytes", "wal_bytes")):
        ours = _whole_life(results, OURS, a_job(name))
        for peer, bound in ((PYTHON, 0.5), (NODE, 1.0)):
            share = _ratio(ours, _whole_life(results, peer, a_job(name)))
            yield Target(f"{what}, enqueue and drain", f"× {peer}", bound, share, at_most=True)


def _whole_life(
    results: Results, peer: str, figure: Callable[[Record], float | None]
) -> float | None:
    parts = [results.median(peer, work, "60 B", figure) for work in (works.MANY, works.DRAIN)]
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _sqlite(results: Results, peer: str) -> float | None:
    return results.median(peer, series.SQLITE, series.SQLITE_DRAIN, rate)


def rounds(results: Results, peer: str) -> list[list[float]]:
    """Return the rates of each series of rounds."""
    variants = results.variants(series.PINNED)
    every = [[rate(r) for r in results.of(peer, series.PINNED, variant)] for variant in variants]
    return [[found for found in one if found] for one in every if one]


def ends(results: Results, peer: str) -> tuple[float, float, float] | None:
    """Return the rate of the first five rounds, of the last five, and their ratio.

    Medians in a series, and then over the series; None if all had too few rounds.
    """
    found = [(median(one[:5]), median(one[-5:])) for one in rounds(results, peer) if len(one) >= 10]
    if not found:
        return None
    firsts, lasts = zip(*found, strict=True)
    return median(firsts), median(lasts), median(last / first for first, last in found)


def _ratio(ours: float | None, theirs: float | None) -> float | None:
    return ours / theirs if ours is not None and theirs else None
