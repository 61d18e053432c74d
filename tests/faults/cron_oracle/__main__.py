"""`python -m tests.faults.cron_oracle`: exit status 0 if every tick is where the rule puts it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence

from tests.faults.cron_oracle.compare import Plan, compare
from tests.faults.kit.program import end_with, parser_of, say, verdict

LONG = {"lines": 50_000, "dates": 2_000, "since": 1840, "step": 1.0, "margin": 30.0}


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the options, compare, print the figures and the seed."""
    parser = parser_of("tests.faults.cron_oracle", Plan)
    parser.set_defaults(seed=secrets.randbelow(1_000_000), **LONG)
    plan = Plan(**vars(parser.parse_args(arguments)))
    say(f"--seed {plan.seed}")
    began = time.process_time()
    report = compare(plan)
    figures = (
        f"{report.lines:,} lines with {report.ticks:,} ticks, around {report.changes:,} changes"
        f" ({report.odd:,} odd) in {len(report.zones)} zones:"
        f" {len(report.differences)} differences, {time.process_time() - began:.1f} s of CPU"
    )
    return verdict([figures], report.differences)


if __name__ == "__main__":
    end_with(main)
