"""`python -m tests.faults.hammer`: exit status 0 if nobody met a deadlock, nothing is lost."""

from __future__ import annotations

from tests.faults.hammer.plan import Plan
from tests.faults.hammer.run import run
from tests.faults.kit.program import end_with, parser_of, say, verdict


def main() -> int:
    """Read the options, run, print the report."""
    logs = "a directory for what workers and the server say"
    options = vars(parser_of("tests.faults.hammer", Plan, logs=logs).parse_args())
    place = options.pop("logs")
    report = run(Plan(**options), say, place)
    return verdict(report.lines(), report.problems())


if __name__ == "__main__":
    end_with(main)
