"""Lists what the server read for a statement, by the plans that it carried out.

`auto_explain` tells them, also those of statements inside functions: EXPLAIN of a function's call
says nothing of those.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from psycopg.errors import Diagnostic
from sqlalchemy import Connection, event

TABLES = ("mutirao_job", "mutirao_live", "mutirao_attempt")
TELL = """
LOAD 'auto_explain';
SET auto_explain.log_min_duration = 0;
SET auto_explain.log_nested_statements = on;
SET auto_explain.log_analyze = on;
SET auto_explain.log_timing = off;
SET auto_explain.log_buffers = on;
SET auto_explain.log_format = json;
SET auto_explain.log_level = notice
"""
_PLAN = re.compile(r"duration: [\d.]+ ms  plan:\n(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Node:
    """One node of a plan that was carried out."""

    facts: dict[str, Any]

    @property
    def reads(self) -> str | None:
        """The index of jobs' tables that it reads, or the scan without one; None: neither."""
        kind, index = self.facts["Node Type"], self.facts.get("Index Name")
        table = self.facts.get("Relation Name")
        if index is not None:
            return index if index.startswith(TABLES) else None
        if table not in TABLES or not kind.endswith("Scan") or kind == "Bitmap Heap Scan":
            return None
        return f"{kind} of {table}"

    @property
    def rows(self) -> int:
        """How many rows it read, with those it threw away."""
        thrown = ("Rows Removed by Filter", "Rows Removed by Index Recheck")
        each = self.facts["Actual Rows"] + sum(self.facts.get(fact, 0) for fact in thrown)
        return round(float(each * self.facts["Actual Loops"]))

    @property
    def pages(self) -> int:
        """How many pages it touched."""
        return int(self.facts["Shared Hit Blocks"] + self.facts["Shared Read Blocks"])


class Overheard(list[Node]):
    """All nodes of all plans that were carried out.

    `compiled`: the statements whose expressions the server compiled first (JIT), which takes longer
    than all of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.compiled: list[str] = []

    def hear(self, said: Diagnostic) -> None:
        """Take up a notice."""
        if plan := _PLAN.match(said.message_primary or ""):
            told = json.loads(plan[1])
            self.extend(_nodes(told["Plan"]))
            if "JIT" in told:
                self.compiled.append(told["Query Text"])

    @property
    def reads(self) -> set[str]:
        """The indexes of jobs' tables that were read, and the scans without one."""
        return {node.reads for node in self if node.reads is not None}

    def rows(self, index: str) -> int:
        """Return how many rows were read through an index."""
        return sum(node.rows for node in self if node.reads == index)

    def pages(self, index: str) -> int:
        """Return how many pages were touched to read through an index."""
        return sum(node.pages for node in self if node.reads == index)


def _nodes(plan: dict[str, Any]) -> Iterator[Node]:
    yield Node(plan)
    for child in plan.get("Plans", ()):
        yield from _nodes(child)


def plan_generically(connection: Connection) -> None:
    """Prepare every statement at once, and plan it without looking at its values."""
    driver: Any = connection.connection.driver_connection
    driver.prepare_threshold = 0
    connection.exec_driver_sql("SET plan_cache_mode = force_generic_plan")
    connection.commit()


@contextmanager
def overheard(connection: Connection) -> Iterator[Overheard]:
    """Collect the plans of everything that the connection executes."""
    heard = Overheard()
    driver: Any = connection.connection.driver_connection
    for statement in TELL.split(";"):
        driver.execute(statement, prepare=False)
    driver.add_notice_handler(heard.hear)
    try:
        yield heard
        # Only the next statement ends the one before, and lets its plan be told.
        driver.execute("SET auto_explain.log_min_duration = -1", prepare=False)
    finally:
        driver.remove_notice_handler(heard.hear)


@contextmanager
def said(connection: Connection) -> Iterator[list[tuple[str, Any]]]:
    """List the statements that are executed meanwhile, with their values, of many the first."""
    heard: list[tuple[str, Any]] = []

    def hear(_: Any, __: Any, statement: str, values: Any, ___: Any, many: bool) -> None:
        if re.match(r"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)", statement):
            heard.append((statement, values[0] if many else values))

    event.listen(connection, "before_cursor_execute", hear)
    try:
        yield heard
    finally:
        event.remove(connection, "before_cursor_execute", hear)


@contextmanager
def steps_of_sqlite(connection: Connection) -> Iterator[list[int]]:
    """Count the steps of SQLite's virtual machine, in hundreds."""
    steps = [0]

    def count() -> None:
        steps[0] += 100

    driver: Any = connection.connection.driver_connection
    driver.set_progress_handler(count, 100)
    try:
        yield steps
    finally:
        driver.set_progress_handler(None, 0)
