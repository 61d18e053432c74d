"""What is printed: tables of figures, of ratios and of targets. What is kept: their medians.

`python -m benchmarks.peers.report FILE.json` prints the tables of an earlier session again.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.peers import plots, series, targets, works
from benchmarks.peers.records import Record, Results, a_job, load, plain, rate

Figure = Callable[[Record], float | None]
OURS, LIMIT = "mutirao", "raw"


# What is kept of a run in git: the column's name, the work, its variant, and the figure.
MEDIANS: list[tuple[str, str, str, Figure]] = [
    ("enqueue many, jobs/s", works.MANY, "60 B", rate),
    ("enqueue one, jobs/s", works.ONE, "1 producer", rate),
    ("16 producers", works.ONE, "16 producers", rate),
    ("drain, jobs/s", works.DRAIN, "60 B", rate),
    ("2 processes", works.DRAIN, "60 B, 2 processes", rate),
    ("threads", works.DRAIN, "60 B, threads", rate),
    ("8 kB", works.DRAIN, "8 kB", rate),
    ("100,000 others wait", series.BACKLOG, "100000", rate),
    ("commit to handler, p50, ms", works.LATENCY, "idle worker", plain("p50")),
    ("p99", works.LATENCY, "idle worker", plain("p99")),
    ("drain: server CPU, µs", works.DRAIN, "60 B", a_job("server_cpu", 1e6)),
    ("drain: WAL, B", works.DRAIN, "60 B", a_job("wal_bytes")),
    ("SQLite: enqueue many", series.SQLITE, "enqueue many", rate),
    ("SQLite: drain", series.SQLITE, series.SQLITE_DRAIN, rate),
]


def write(results: Results, path: Path) -> str:
    """Write the medians and the plots beside the JSON at `path`; return all tables."""
    path.with_suffix(".md").write_text(medians(results))
    plots.draw(results, path.parent)
    return tables(results)


def medians(results: Results) -> str:
    """Return one table, as Markdown: of each system what it is, and its medians."""
    rows = [
        [
            f"{name} {about['version']}",
            "yes" if about["history"] else "no",
            *(
                number(results.median(name, work, variant, figure))
                for _, work, variant, figure in MEDIANS
            ),
        ]
        for name, about in results.peers.items()
        if "failed" not in about
    ]
    head = ["system", "keeps history", *(column[0] for column in MEDIANS)]
    machine = "; ".join(f"{name} {value}" for name, value in results.machine.items())
    return f"# Medians of one run\n\n{machine}.\n\n{markdown(head, rows)}\n"


def tables(results: Results) -> str:
    """Return everything as Markdown."""
    parts = [
        _machine(results),
        _peers(results),
        _rates(results, works.MANY),
        _rates(results, works.DRAIN),
        _spent(results),
        _rates(results, works.ONE),
        _latency(results),
        _rates(results, series.SQLITE),
        _pinned(results),
        _rates(results, series.BACKLOG),
        _failures(results),
        targets.table(results),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _machine(results: Results) -> str:
    return "# The same work for everybody\n\n" + "\n".join(
        f"- {name}: {value}" for name, value in results.machine.items()
    )


def _peers(results: Results) -> str:
    rows = []
    for name, about in results.peers.items():
        if "failed" in about:
            rows.append([name, "not installed", "", "", "", ""])
            continue
        keeps = "yes" if about["history"] else "no"
        retries = "yes" if about["retries"] else "no"
        version = f"{about['version']} ({about['runtime']})"
        rows.append([name, version, keeps, retries, about["connections"], about["tuned_by"]])
    head = ["system", "version", "keeps history", "retries", "connections of a worker", "tuned by"]
    return "## Systems\n\n" + markdown(head, rows)


def _rates(results: Results, work: str) -> str:
    """Return a table of jobs/s, and one of ratios to ourselves."""
    variants, names = results.variants(work), results.names(work)
    if not names:
        return ""
    rows, ratios = [], []
    for name in names:
        values = [results.median(name, work, variant, rate) for variant in variants]
        rows.append(
            [
                name,
                *(_cell(results, name, work, v, x) for v, x in zip(variants, values, strict=True)),
            ]
        )
        ours = [results.median(OURS, work, variant, rate) for variant in variants]
        ratios.append([name, *(_ratio(o, v) for o, v in zip(ours, values, strict=True))])
    text = f"## {_title(work)}: jobs a second (jobs in a run)\n\n"
    text += markdown(["system", *variants], rows)
    if OURS in names:
        text += f"\n\n### {_title(work)}: {OURS} / system\n\n"
        text += markdown(["system", *variants], ratios)
    return text


def _spent(results: Results) -> str:
    """Return what a job costs, enqueueing and draining apart."""
    rows = []
    columns: list[tuple[str, str, Figure]] = [
        (work, f"{work.removesuffix(' many')}: {what}", figure)
        for work in (works.MANY, works.DRAIN)
        for what, figure in (
            ("client CPU µs", a_job("cpu", 1e6)),
            ("server CPU µs", a_job("server_cpu", 1e6)),
            ("WAL bytes", a_job("wal_bytes")),
            ("commits per 1,000", a_job("commits", 1e3)),
        )
    ]
    for name in results.names(works.DRAIN):
        values = [results.median(name, work, "60 B", figure) for work, _, figure in columns]
        rows.append([name, *(number(value) for value in values)])
    if not rows:
        return ""
    return "## What a job of 60 B costs\n\n" + markdown(["system", *(c[1] for c in columns)], rows)


def _latency(results: Results) -> str:
    rows = []
    for name in results.names(works.LATENCY):
        values = [
            results.median(name, works.LATENCY, "idle worker", plain(quantile))
            for quantile in ("p50", "p90", "p99", "max")
        ]
        rows.append([name, *(number(value) for value in values)])
    if not rows:
        return ""
    head = ["system", "p50", "p90", "p99", "max"]
    return "## Latency: from commit to handler, idle worker, ms\n\n" + markdown(head, rows)


def _pinned(results: Results) -> str:
    rows = []
    for name in results.names(series.PINNED):
        made = " / ".join(str(len(one)) for one in targets.rounds(results, name))
        if (ends := targets.ends(results, name)) is None:
            rows.append([name, made, "", "", "", "too few rounds"])
            continue
        jobs = results.of(name, series.PINNED, results.variants(series.PINNED)[0])[0].jobs
        rows.append([name, made, f"{jobs:,}", *map(number, ends)])
    if not rows:
        return ""
    head = ["system", "rounds", "jobs in a round", "first five, jobs/s", "last five, jobs/s",
            "last / first"]  # fmt: skip
    title = "## Pinned: rounds while a snapshot and a transaction id are held\n\n"
    return title + markdown(head, rows)


def _failures(results: Results) -> str:
    rows = [
        [name, "everything", about["failed"]]
        for name, about in results.peers.items()
        if "failed" in about
    ]
    failed = [(r.peer, f"{r.work}, {r.variant}", r.failed) for r in results.records if r.failed]
    rows += [[*each] for each in dict.fromkeys(failed)]
    if not rows:
        return ""
    return "## Not measured\n\n" + markdown(["system", "what", "why"], rows)


def _cell(results: Results, name: str, work: str, variant: str, value: float | None) -> str:
    if value is None:
        return "—"
    return f"{number(value)} ({results.of(name, work, variant)[0].jobs:,})"


def _ratio(ours: float | None, theirs: float | None) -> str:
    return number(ours / theirs) if ours and theirs else "—"


def _title(work: str) -> str:
    return work[0].upper() + work[1:]


def number(value: float | None) -> str:
    """Return a number with three significant digits or none after the point."""
    if value is None:
        return "—"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_escaped(cell) for cell in line) + " |" for line in lines)


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    print(tables(load(Path(sys.argv[1]))))
