"""`python -m tests.acceptance.django_shop`: exit status 0 if each order was paid once."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tests.acceptance.django_shop.run import DATABASES, Plan, run


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the options, run, print the figures."""
    parser = argparse.ArgumentParser(prog="python -m tests.acceptance.django_shop")
    parser.add_argument("--database", choices=DATABASES, default=Plan.database)
    for name in ("orders", "workers"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Plan, name))
    for name in ("kill-every", "deadline"):
        default = getattr(Plan, name.replace("-", "_"))
        parser.add_argument(f"--{name}", type=float, default=default, help="seconds")
    report = run(Plan(**vars(parser.parse_args(arguments))), lambda line: print(line, flush=True))
    problems = [*report.problems()]
    print(*report.lines(), *(f"NOT AS PROMISED: {each}" for each in problems), sep="\n")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
