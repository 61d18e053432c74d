"""What came of each row, kept in `results.json` beside this file from one run to the next."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

FILE = Path(__file__).with_name("results.json")


@dataclass(frozen=True)
class Result:
    """What came of a row.

    Parameters:
        name, product: of the row.
        version: the whole of it, as the server said; of a row that was not run, what was wanted.
        date: of the run, such as `2026-11-27`.
        python: which ran the tests.
        tests: arguments of pytest, of the tests that ran.
        passed, failed: how many tests; `failures` names those that failed.
        again: which of those that passed did so only when they ran a second time, alone.
        missing: why the row was not run.
    """

    name: str
    product: str
    version: str
    date: str
    python: str = ""
    tests: tuple[str, ...] = ()
    passed: int = 0
    failed: int = 0
    failures: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    missing: str = ""


def read(file: Path = FILE) -> list[Result]:
    """Return what is kept, in the order of the rows."""
    if not file.exists():
        return []
    return msgspec.json.decode(file.read_bytes(), type=list[Result])


def keep(new: Result, order: Iterable[str], file: Path = FILE) -> None:
    """Write a result in place of that row's earlier one; rows that are gone from `order` go."""
    kept = {each.name: each for each in read(file)} | {new.name: new}
    rows = [asdict(kept[name]) for name in order if name in kept]
    file.write_text(json.dumps(rows, indent=1) + "\n")
