"""Plots of what is a curve rather than a figure, as SVG or PNG. Needs the extra `bench`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.backlog import Backlog
from benchmarks.pinned import Pinned
from mutirao.errors import ConfigurationError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".svg", ".png")


def check(path: Path) -> None:
    """Raise ConfigurationError if nothing could be plotted there: before hours of measuring."""
    if path.suffix not in SUFFIXES:
        raise ConfigurationError(
            f"the plot's file is {str(path)!r}; its name must end with {' or '.join(SUFFIXES)}"
        )
    if not path.absolute().parent.is_dir():
        raise ConfigurationError(f"there is no directory {str(path.parent)!r} to write a plot to")
    _figure()


def plot_pinned(path: Path, runs: Sequence[Pinned]) -> None:
    """Draw the rate of every round, a line for each run."""
    figure, axes = _axes("round", "jobs/s drained")
    for run in runs:
        held = "snapshot held" if run.held else "no snapshot"
        rounds = range(1, len(run.rounds) + 1)
        label = f"{held}, {run.jobs:,} a round"
        axes.plot(rounds, [each.drained for each in run.rounds], marker="o", label=label)
    _finish(figure, axes, path)


def plot_backlog(path: Path, runs: Sequence[Backlog]) -> None:
    """Draw the rate and the 99th percentile of claims by the number of jobs that wait."""
    figure, axes = _axes("jobs waiting", "jobs/s drained")
    times = axes.twinx()
    times.set_ylabel("claim of 100 jobs: p99, ms (dashed)")
    axes.set_xscale("log")
    for run in runs:
        sizes = [point.waiting for point in run.points]
        axes.plot(sizes, [point.rate for point in run.points], marker="o", label=_spread(run))
        times.plot(sizes, [point.claim.p99 for point in run.points], marker="x", linestyle="--")
    times.set_ylim(bottom=0)
    _finish(figure, axes, path)


def _spread(run: Backlog) -> str:
    later = f", {run.scheduled:,} more for later" if run.scheduled else ""
    return f"{run.queues} queues × {run.priorities} priorities{later}"


def _axes(x: str, y: str) -> "tuple[Figure, Axes]":
    figure = _figure()
    axes = figure.subplots()
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    return figure, axes


def _finish(figure: "Figure", axes: "Axes", path: Path) -> None:
    axes.set_ylim(bottom=0)
    axes.legend(loc="lower left")
    figure.savefig(path)


def _figure() -> "Figure":
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as missing:
        raise ConfigurationError(
            f"plots need matplotlib, which is not installed ({missing});"
            " run: pip install matplotlib"
        ) from missing
    return Figure(figsize=(8, 4.5), layout="constrained")
