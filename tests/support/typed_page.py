"""Checks the programs of docs/first-steps.md with a strict type checker: `make check` runs mypy.

It must find the one call that is wrong on purpose, and nothing else: whoever copies a program and
is strict about types need not change it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from mypy import api

from tests.support.documents import Reader

ROOT = Path(__file__).parents[2]
MEANT = '"order_id" to "enqueue" of "Task" has incompatible type "str"'
# As `pyproject.toml` has them: what mypy has found of packages is used again then.
OPTIONS = (
    "--strict", "--warn-unreachable", "--python-version=3.11", "--config-file=",
    "--enable-error-code=ignore-without-code", "--enable-error-code=redundant-expr",
    "--enable-error-code=truthy-bool", f"--cache-dir={ROOT / '.mypy_cache'}",
)  # fmt: skip


def main() -> int:
    """Check the programs; return an exit status."""
    with TemporaryDirectory() as directory:
        Reader(Path(directory), {}, "", "").write(ROOT / "docs" / "first-steps.md")
        os.chdir(directory)
        said, failed, _ = api.run([*OPTIONS, "."])
    found = [line for line in said.splitlines() if ": error: " in line]
    if not failed and len(found) == 1 and MEANT in found[0]:
        return 0
    print(
        f"mypy, of the programs of first-steps.md, but for {MEANT}:\n{said}{failed}",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())
