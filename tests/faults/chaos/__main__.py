"""`python -m tests.faults.chaos`: exit status 0 if nothing was lost and nothing done twice."""

from __future__ import annotations

from tests.faults.chaos.run import Plan, run
from tests.faults.kit.program import end_with, parser_of, say, verdict


def main() -> int:
    """Read the options, run, print the figures."""
    parser = parser_of("tests.faults.chaos", Plan, logs="a directory for what the workers say")
    options = vars(parser.parse_args())
    logs = options.pop("logs")
    has_broker = options["carried"] or options["inbox"] or options["alone"]
    if options["database"] == "sqlite" and not has_broker:
        options["restarts"] = 0  # a file has no server to crash
    report = run(Plan(**options), say, logs)
    return verdict(report.lines(), report.problems)


if __name__ == "__main__":
    end_with(main)
