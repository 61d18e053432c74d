"""`python -m tests.acceptance.chaos`: exit status 0 if nothing was lost and nothing done twice."""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields
from pathlib import Path

from tests.acceptance.chaos.run import Plan, run


def main() -> int:
    """Read the options, run, print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.acceptance.chaos")
    given = {field.name: field for field in fields(Plan)}
    parser.add_argument(
        "--database", choices=("postgresql", "mysql", "sqlite"), default="postgresql"
    )
    for name in ("jobs", "workers", "restarts", "publications", "subscriptions"):
        parser.add_argument(f"--{name}", type=int, default=given[name].default)
    for name in ("pause", "kill-every", "freeze-every", "deadline"):
        default = given[name.replace("-", "_")].default
        parser.add_argument(f"--{name}", type=float, default=default, help="seconds")
    parser.add_argument("--logs", type=Path, help="a directory for what the workers say")
    options = vars(parser.parse_args())
    logs = options.pop("logs")
    if options["database"] == "sqlite":
        options["restarts"] = 0
    report = run(Plan(**options), lambda line: print(line, flush=True), logs)
    print(*report.lines(), sep="\n")
    for problem in report.problems[:50]:
        print(f"NOT AS PROMISED: {problem}")
    if report.problems:
        print(f"{len(report.problems)} findings")
    else:
        print(f"{report.jobs:,} effects: each job wrote one row, and succeeded once")
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
