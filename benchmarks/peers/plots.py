"""The plots of `pinned` and of `backlog`, all systems in each."""

from itertools import zip_longest
from pathlib import Path
from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.peers import series, targets
from benchmarks.peers.records import Results, rate

_SIZE = (9.0, 5.0)  # inches


def draw(results: Results, folder: Path) -> None:
    """Write `pinned.svg` and `backlog.svg` to `folder`, where such work was done.

    On another database than PostgreSQL its name is added: `pinned-mysql.svg`.
    """
    database = results.machine.get("database", "postgresql")
    suffix = "" if database == "postgresql" else f"-{database}"
    if names := results.names(series.PINNED):
        axes = _axes("round, while a snapshot and a transaction id are held")
        for name in names:
            _line(axes, name, _over_the_series(results, name))
        _save(axes, folder / f"pinned{suffix}.svg")
    if names := results.names(series.BACKLOG):
        axes = _axes("jobs waiting")
        axes.set_xscale("log")
        sizes = results.variants(series.BACKLOG)
        for name in names:
            found = [(int(s), results.median(name, series.BACKLOG, s, rate)) for s in sizes]
            _line(axes, name, [(size, jobs) for size, jobs in found if jobs is not None])
        _save(axes, folder / f"backlog{suffix}.svg")


def _axes(below: str) -> Axes:
    axes: Axes = Figure(figsize=_SIZE, layout="constrained").add_subplot()
    axes.set_xlabel(below)
    axes.set_ylabel("jobs a second")
    axes.set_yscale("log")
    axes.grid(visible=True, alpha=0.3)
    return axes


def _over_the_series(results: Results, name: str) -> list[tuple[int, float]]:
    """Return each round with its median rate; of slow systems not every series has them all."""
    made = zip_longest(*targets.rounds(results, name))
    return [
        (number, median(found for found in rates if found is not None))
        for number, rates in enumerate(made, 1)
    ]


def _line(axes: Axes, name: str, points: list[tuple[int, float]]) -> None:
    if points:
        axes.plot(*zip(*points, strict=True), marker=".", label=name)


def _save(axes: Axes, path: Path) -> None:
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure = axes.get_figure()
    assert isinstance(figure, Figure)
    figure.savefig(path, metadata={"Date": None})
