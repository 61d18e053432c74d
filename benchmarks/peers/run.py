"""The same work for everybody, measured in turns: `python -m benchmarks.peers.run`.

Starts a PostgreSQL of its own, or a MariaDB, with default settings, hence default durability; gives
every peer a fresh database for every run; and goes round all peers before it begins the next run,
so that a machine that slows down does so for everybody. In the series, which compare a peer with
itself, one peer follows the other. Writes all figures as JSON, tables as Markdown and plots as SVG.
"""

import argparse
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from benchmarks.peers import envs, report, series, works
from benchmarks.peers.bench import Bench, Peer
from benchmarks.peers.calling import CallFailed
from benchmarks.peers.records import Record, Results
from benchmarks.peers.sites import SITES, Site, site

RESULTS = Path(__file__).parents[1] / "results"
PINNED = "pinned"  # thirty rounds are no quick look; fewer are made when they are asked for
_UNCALIBRATED = {"one", "latency", "sqlite"}  # nobody gets fewer jobs there for being slow
_NAMES = {"drain": works.DRAIN, "one": works.ONE, "latency": works.LATENCY}


def main() -> None:
    """Install, measure, print and write."""
    options = _options()
    results = Results(machine={})
    suffix = "" if options.database == "postgresql" else f"-{options.database}"
    path = options.out / f"{datetime.now(UTC):%Y-%m-%d}{suffix}.json"
    with site(options.database) as place:
        bench = Bench(
            place, 0.5 if options.quick else 1.0, 30_000 if options.quick else 100_000, _tell
        )
        results.machine.update(_machine(place))
        peers = _install(bench, options.only, results)
        for record in _measure(bench, peers, options):
            results.records.append(record)
            _tell(_line(record))
            results.save(path)
    results.save(path)
    print(report.write(results, path))


def _measure(bench: Bench, peers: Sequence[Peer], options: argparse.Namespace) -> Iterator[Record]:
    on_server = [peer for peer in peers if peer.name not in series.SQLITE_ONLY]
    if not {*options.works} <= _UNCALIBRATED:
        yield from _calibrated(bench, on_server)
        on_server = [peer for peer in on_server if peer.rates]
    wanted = {_NAMES.get(name) for name in options.works}
    chosen = [case for case in works.cases(options.quick) if case.work in wanted]
    for number in range(1, options.runs + 1):
        for case in chosen:
            for peer in on_server:
                yield from works.do(case, bench, peer, number)
    if "sqlite" in options.works:
        yield from series.sqlite(peers, options.runs)
    if "backlog" in options.works:
        most = series.SIZES[-2] if options.quick else series.SIZES[-1]
        yield from series.backlog(bench, on_server, options.runs, most)
    if "pinned" in options.works:
        yield from series.pinned(bench, on_server, options.runs, 6 if options.quick else 30)


def _calibrated(bench: Bench, peers: Sequence[Peer]) -> Iterator[Record]:
    for peer in peers:
        try:
            bench.calibrate(peer)
        except CallFailed as error:
            yield Record(peer=peer.name, work=works.DRAIN, variant="60 B", failed=str(error))


def _install(bench: Bench, names: Sequence[str], results: Results) -> list[Peer]:
    peers = []
    for name in names:
        try:
            peer = bench.peer(name)
        except (envs.NotInstalled, CallFailed) as error:
            results.peers[name] = {"name": name, "failed": str(error)}
            _tell(f"{name}: not installed: {error}")
        else:
            results.peers[name] = peer.about
            peers.append(peer)
            _tell(f"{name} {peer.about['version']} on {peer.about['runtime']}")
    return peers


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--database", choices=[*SITES], default="postgresql")
    everybody = tuple(dict.fromkeys((*envs.EVERYBODY, *envs.ON_MARIADB)))
    parser.add_argument("--only", type=_several(everybody), help="all that work there by default")
    works = SITES["postgresql"].works
    parser.add_argument("--works", type=_several(works), help="all by default")
    parser.add_argument("--runs", type=int, help="3 by default, 1 when quick")
    parser.add_argument("--quick", action="store_true", help="a look, not a measurement")
    parser.add_argument("--out", type=Path, default=RESULTS, help="the folder for what is written")
    options = parser.parse_args()
    options.runs = options.runs or (1 if options.quick else 3)
    chosen = SITES[options.database]
    quick = [work for work in chosen.works if work != PINNED]
    options.works = options.works or (quick if options.quick else chosen.works)
    options.only = [name for name in options.only or chosen.peers if name in chosen.peers]
    return options


class _several:  # noqa: N801 (argparse names it in its messages)
    """Reads some of the `known` names, separated by commas."""

    def __init__(self, known: Sequence[str]) -> None:
        self._known = known

    def __call__(self, text: str) -> list[str]:
        names = text.split(",")
        if unknown := [name for name in names if name not in self._known]:
            raise argparse.ArgumentTypeError(
                f"{', '.join(unknown)} is not known; there are {', '.join(self._known)}"
            )
        return [name for name in self._known if name in names]


def _machine(place: Site) -> dict[str, str]:
    return {
        "database": place.name,
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "system": platform.platform(),
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        "python": platform.python_version(),
        "load before": f"{os.getloadavg()[0]:.1f}",
        **place.settings(),
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _line(record: Record) -> str:
    what = f"{record.peer}: {record.work}, {record.variant}"
    if record.failed is not None:
        return f"{what}: {record.failed}"
    figures = ", ".join(f"{name} {value:.4g}" for name, value in record.figures.items())
    return f"{what}: {record.jobs:,} jobs, {figures}"


_STARTED = monotonic()


def _tell(line: str) -> None:
    print(f"{monotonic() - _STARTED:6.0f} s  {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
