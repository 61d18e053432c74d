"""`python -m tests.faults.chaos`: exit status 0 if nothing was lost and nothing done twice."""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields
from pathlib import Path

from tests.faults.chaos.run import Plan, run


def main() -> int:
    """Read the options, run, print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.chaos")
    given = {field.name: field for field in fields(Plan)}
    parser.add_argument(
        "--database",
        choices=("postgresql", "mysql", "real-mysql", "sqlite"),
        default="postgresql",
        help="mysql is a MariaDB, real-mysql a MySQL",
    )
    parser.add_argument(
        "--carried", action="store_true", help="RabbitMQ carries the jobs, and is what is troubled"
    )
    whole = "jobs workers restarts publications subscriptions inbox alone purges cuts"
    for name in whole.split():
        parser.add_argument(f"--{name}", type=int, default=given[name].default)
    for name in ("pause", "kill-every", "freeze-every", "cut-for", "deadline"):
        default = given[name.replace("-", "_")].default
        parser.add_argument(f"--{name}", type=float, default=default, help="seconds")
    parser.add_argument("--logs", type=Path, help="a directory for what the workers say")
    options = vars(parser.parse_args())
    logs = options.pop("logs")
    if logs is not None:
        logs.mkdir(parents=True, exist_ok=True)
    has_broker = options["carried"] or options["inbox"] or options["alone"]
    if options["database"] == "sqlite" and not has_broker:
        options["restarts"] = 0
    report = run(Plan(**options), lambda line: print(line, flush=True), logs)
    print(*report.lines(), sep="\n")
    for problem in report.problems[:50]:
        print(f"NOT AS PROMISED: {problem}")
    if report.problems:
        print(f"{len(report.problems)} findings")
    else:
        print(f"{report.jobs:,} effects, none lost, and none twice that was to be once")
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
