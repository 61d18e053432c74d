"""`python -m tests.faults.cron_oracle`: exit status 0 if every tick is where the rule puts it."""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections.abc import Sequence
from dataclasses import fields

from tests.faults.cron_oracle.compare import Plan, compare

LONG = {"lines": 50_000, "dates": 2_000, "since": 1840, "step": 1.0, "margin": 30.0}


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the options, compare, print the figures and the seed."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.cron_oracle")
    for each in fields(Plan):
        usual = secrets.randbelow(1_000_000) if each.name == "seed" else each.default
        default = LONG.get(each.name, usual)
        parser.add_argument(f"--{each.name}", type=type(each.default), default=default)
    plan = Plan(**vars(parser.parse_args(arguments)))
    print(f"--seed {plan.seed}", flush=True)
    began = time.process_time()
    report = compare(plan)
    for difference in report.differences[:50]:
        print(f"NOT BY THE RULE: {difference}")
    print(
        f"{report.lines:,} lines with {report.ticks:,} ticks, around {report.changes:,} changes"
        f" ({report.odd:,} odd) in {len(report.zones)} zones:"
        f" {len(report.differences)} differences, {time.process_time() - began:.1f} s of CPU"
    )
    return 1 if report.differences else 0


if __name__ == "__main__":
    sys.exit(main())
