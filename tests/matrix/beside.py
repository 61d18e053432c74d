"""Measure the newest PostgreSQL beside the machine's, on a machine that does nothing else.

    python -m tests.matrix.beside [--rounds 3] [--works drain,latency,pinned]

Each round has both servers in turns, each with its usual settings, durable, and an empty database.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.matrix.interpreters import CLONE
from tests.matrix.roots import POSTGRESQL
from tests.support.binaries import ROOT, find_server, major_version
from tests.support.postgresql import PostgresServer

WORKS = "drain,latency,pinned"
OURS = ""  # the machine's servers


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what each work says on each server."""
    parser = argparse.ArgumentParser(prog="python -m tests.matrix.beside", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--works", default=WORKS, help="of `python -m benchmarks`, with commas")
    parser.add_argument("--more", default="", help="options for each work")
    asked = parser.parse_args(arguments)
    newest = str(POSTGRESQL.made())
    for round in range(asked.rounds):
        for root in (OURS, newest) if round % 2 == 0 else (newest, OURS):
            with servers_of(root):
                for work in asked.works.split(","):
                    _measure(work, shlex.split(asked.more))


@contextmanager
def servers_of(root: str) -> Iterator[None]:
    """Have servers be those of a directory, or the machine's."""
    before = os.environ.pop(ROOT, None)
    if root:
        os.environ[ROOT] = root
    try:
        yield
    finally:
        os.environ.pop(ROOT, None)
        if before is not None:
            os.environ[ROOT] = before


def _measure(work: str, more: Sequence[str]) -> None:
    print(f"== {work}, PostgreSQL {major_version(find_server())}", flush=True)
    with PostgresServer() as server:
        url = server.url(server.create_database())
        command = [sys.executable, "-m", "benchmarks", work, "--database", url, *more]
        subprocess.run(command, check=True, cwd=CLONE)


if __name__ == "__main__":
    main()
