"""The plots of `pinned` and of `backlog`, all systems in each."""

from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.peers import series
from benchmarks.peers.records import Record, Results, rate

_SIZE = (9.0, 5.0)  # inches


def draw(results: Results, folder: Path) -> None:
    """Write `pinned.svg` and `backlog.svg` to `folder`, where such work was done."""
    if names := results.names(series.PINNED):
        axes = _axes("round, while a snapshot and a transaction id are held")
        for name in names:
            rounds = results.of(name, series.PINNED, series.ROUNDS)
            _line(axes, name, [(record.run, record) for record in rounds])
        _save(axes, folder / "pinned.svg")
    if names := results.names(series.BACKLOG):
        axes = _axes("jobs waiting")
        axes.set_xscale("log")
        sizes = results.variants(series.BACKLOG)
        for name in names:
            found = [(int(s), r) for s in sizes for r in results.of(name, series.BACKLOG, s)]
            _line(axes, name, found)
        _save(axes, folder / "backlog.svg")


def _axes(below: str) -> Axes:
    axes: Axes = Figure(figsize=_SIZE, layout="constrained").add_subplot()
    axes.set_xlabel(below)
    axes.set_ylabel("jobs a second")
    axes.set_yscale("log")
    axes.grid(visible=True, alpha=0.3)
    return axes


def _line(axes: Axes, name: str, records: list[tuple[int, Record]]) -> None:
    points = [(x, found) for x, record in records if (found := rate(record)) is not None]
    if points:
        axes.plot(*zip(*points, strict=True), marker=".", label=name)


def _save(axes: Axes, path: Path) -> None:
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure = axes.get_figure()
    assert isinstance(figure, Figure)
    figure.savefig(path, metadata={"Date": None})
