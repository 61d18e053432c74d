"""`python -m tests.faults.ordeal`: exit status 0 if everything was as promised."""

from __future__ import annotations

import argparse
import signal
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

from tests.faults.ordeal.plan import Plan
from tests.faults.ordeal.run import run, troubles_of

DATABASES = ("postgresql", "mysql", "real-mysql", "sqlite")
HELP = {
    "seed": "the order of troubles and what they do",
    "seconds": "no trouble begins later",
    "rounds": "of all troubles, however long they take",
    "rate": "jobs enqueued a second",
    "heartbeat": "of the workers, in seconds",
    "expiry": "of the workers, in seconds",
    "poll": "of the workers, in seconds",
    "grace": "of the workers, in seconds",
    "shortest": "seconds that a trouble lasts",
    "longest": "seconds that a trouble lasts",
    "margin": "seconds that a recovery may take beyond expiry and poll",
    "calm": "seconds between a recovery and the next trouble",
    "late": "seconds that a due job may wait beyond poll",
}


def main() -> int:
    """Read the options, run, print the report."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # workers and servers are to end, too
    plan, logs, listed = _options()
    if listed:
        print(*sorted(troubles_of(plan)), sep="\n")
        return 0
    if logs is not None:
        logs.mkdir(parents=True, exist_ok=True)
    report = run(plan, lambda line: print(line, flush=True), logs)
    print(*report.lines(), sep="\n")
    return 1 if report.findings else 0


def _options() -> tuple[Plan, Path | None, bool]:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.ordeal")
    parser.add_argument("--database", choices=DATABASES, default=DATABASES[0])
    parser.add_argument("--driver", choices=("psycopg", "asyncpg"), default="psycopg")
    parser.add_argument(
        "--carried", action="store_true", help="RabbitMQ carries jobs, and is troubled, too"
    )
    given: dict[str, Any] = {field.name: field.default for field in fields(Plan)}
    for name, text in HELP.items():
        kind, default = type(given[name]), given[name]
        shown = f"{text} ({default:g})"
        parser.add_argument(f"--{name}", type=kind, default=default, help=shown)
    parser.add_argument("--troubles", default="", help="names with commas; all if left out")
    parser.add_argument("--logs", type=Path, help="a directory for what the workers say")
    parser.add_argument("--list", action="store_true", help="name the troubles, and end")
    options = vars(parser.parse_args())
    logs, listed = options.pop("logs"), options.pop("list")
    options["troubles"] = tuple(filter(None, options["troubles"].split(",")))
    return Plan(**options), logs, listed


if __name__ == "__main__":
    sys.exit(main())
