"""`python -m tests.faults.ordeal`: exit status 0 if everything was as promised."""

from __future__ import annotations

from tests.faults.kit.program import end_with, parser_of, say, verdict
from tests.faults.ordeal.plan import Plan
from tests.faults.ordeal.run import run, troubles_of


def main() -> int:
    """Read the options, run, print the report."""
    parser = parser_of("tests.faults.ordeal", Plan, logs="a directory for what the workers say")
    parser.add_argument("--list", action="store_true", help="name the troubles, and end")
    options = vars(parser.parse_args())
    logs, listed = options.pop("logs"), options.pop("list")
    plan = Plan(**options)
    if listed:
        print(*sorted(troubles_of(plan)), sep="\n")
        return 0
    report = run(plan, say, logs)
    return verdict(report.lines(), report.problems())


if __name__ == "__main__":
    end_with(main)
