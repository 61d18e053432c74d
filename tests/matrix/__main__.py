"""Run the matrix: `make matrix`, or `make matrix ARGS="--only postgresql-18 --only python-3.14"`.

The results go to `results.json`, row by row, and the tables of the documents are made of them.
Exits with 1 if a test failed.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

from tests.matrix import results, tables
from tests.matrix.rows import ROWS, Row
from tests.matrix.running import run

_NAMES = [row.name for row in ROWS]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; return the exit status."""
    asked = _parser().parse_args(arguments)
    if asked.list:
        print("\n".join(f"{row.name}{row.missing and f': {row.missing}'}" for row in ROWS))
        return 0
    rows = [row for row in ROWS if not asked.only or row.name in asked.only]
    # Whoever starts it in the background has it ignored, by all that the tests interrupt, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    failed = [_try(row, asked.processes).failed for row in rows]
    tables.main()
    return int(any(failed))


def _try(row: Row, processes: int) -> results.Result:
    result = run(row, processes)
    results.keep(result, _NAMES)
    print(tables.line(result), end="", flush=True)
    for name in result.failures:
        print(f"  failed: {name}", flush=True)
    return result


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=__doc__)
    parser.add_argument("--only", action="append", choices=_NAMES, metavar="ROW")
    parser.add_argument("--list", action="store_true", help="name the rows, and run none")
    parser.add_argument("--processes", type=int, default=2, help="for the tests of a row")
    return parser


if __name__ == "__main__":
    sys.exit(main())
