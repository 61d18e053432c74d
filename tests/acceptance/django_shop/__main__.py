"""`python -m tests.acceptance.django_shop`: exit status 0 if each order was paid once."""

from __future__ import annotations

from tests.acceptance.django_shop.run import Plan, run
from tests.faults.kit.program import end_with, parser_of, say, verdict


def main() -> int:
    """Read the options, run, print the figures."""
    plan = Plan(**vars(parser_of("tests.acceptance.django_shop", Plan).parse_args()))
    report = run(plan, say)
    return verdict(report.lines(), report.problems())


if __name__ == "__main__":
    end_with(main)
