"""`python -m tests.faults.hammer`: exit status 0 if nobody met a deadlock, nothing is lost."""

from __future__ import annotations

import argparse
import signal
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from tests.faults.hammer.plan import Plan
from tests.faults.hammer.run import run

HELP = {
    "seed": "what each connection does",
    "seconds": "how long operations are begun",
    "connections": "how many do operations at the same time",
    "workers": "processes",
    "circle": "seconds after which the server looks for a deadlock",
}


def main() -> int:
    """Read the options, run, print the report."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # workers and servers are to end, too
    plan, logs = _options()
    if logs is not None:
        logs.mkdir(parents=True, exist_ok=True)
    report = run(plan, lambda line: print(line, flush=True), logs)
    print(*report.lines(), sep="\n")
    problems = report.problems()
    for problem in problems:
        print(f"NOT AS PROMISED: {problem}")
    return 1 if problems else 0


def _options() -> tuple[Plan, Path | None]:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.hammer")
    databases = ("postgresql", "mysql", "real-mysql", "sqlite")
    parser.add_argument("--database", choices=databases, default=databases[0])
    parser.add_argument("--driver", choices=("psycopg", "asyncpg"), default="psycopg")
    given: dict[str, Any] = {field.name: field.default for field in fields(Plan)}
    for name, text in HELP.items():
        kind, default = type(given[name]), given[name]
        parser.add_argument(f"--{name}", type=kind, default=default, help=f"{text} ({default:g})")
    parser.add_argument("--leave-out", default="", help="operations, with commas: not to be done")
    parser.add_argument("--logs", type=Path, help="a directory for what workers and the server say")
    options = vars(parser.parse_args())
    logs = options.pop("logs")
    options["leave_out"] = tuple(filter(None, options["leave_out"].split(",")))
    return Plan(**options), logs


if __name__ == "__main__":
    sys.exit(main())
