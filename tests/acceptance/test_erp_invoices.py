"""The example of orders that three are told of keeps its promise, and would say if it did not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.examples import demo_module, run_demo

PLACED = [number for number in range(1, 31) if number % 5]


@pytest.mark.repeats(decided="tests/integration/topics/test_crashes.py")
def test_each_is_told_whatever_becomes_of_the_others(postgresql_url: str) -> None:
    """Though one of three takes nothing, and workers are killed."""
    said = run_demo("erp_invoices", postgresql_url, timeout=250)
    assert said.count("is killed with SIGKILL") == 2
    assert "24 orders are in the index, each once; 12 that the ERP has not taken" in said


def row(order: int, **changed: object) -> tuple[Any, ...]:
    """Return an order in the report."""
    erp: dict[str, object]
    erp = {"deliveries": 2, "erp": None, "attempts": None, "delivery": None, "handler": None,
           "handled": None}  # fmt: skip
    if order % 2 == 0:
        erp = {"deliveries": 3, "erp": "dead", "attempts": 2, "delivery": 1000 + order,
               "handler": "erp.on_dead", "handled": "succeeded"}  # fmt: skip
    known = {"order": order, "tenant": "globex" if order % 2 else "acme", "cents": 100 * order,
             **erp, "search": "succeeded", "partner": "succeeded", "status": 204}  # fmt: skip
    columns = ("order", "tenant", "cents", "deliveries", "search", "erp", "attempts", "delivery",
               "handler", "handled", "partner", "status")  # fmt: skip
    return tuple({**known, **changed}[column] for column in columns)


def webhook(order: int, cents: int | None = None, body: bytes = b"1") -> tuple[Any, ...]:
    """Return what the partner has got of an order."""
    data = {"order_id": order, "cents": 100 * order if cents is None else cents}
    return (str(order), body, {"type": "order.placed", "data": data})


REPORT = [row(order) for order in PLACED]
GOT = [webhook(order) for order in PLACED]
DEAD = [(order, 1000 + order) for order in PLACED if order % 2 == 0]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, []),
        ({"got": [*GOT, GOT[0]]}, []),  # at least once, with the id by which it is dropped
        ({"report": REPORT[1:], "got": GOT[1:]}, ["placed are"]),
        ({"report": [*REPORT[:-1], row(29, partner="dead", status=500)]}, ["order 29: succeeded"]),
        ({"report": [REPORT[0], row(2, handler=None), *REPORT[2:]]}, ["order 2 of acme"]),
        ({"report": [REPORT[0], row(2, attempts=1), *REPORT[2:]]}, ["order 2 was tried 1 times"]),
        ({"report": [row(1, deliveries=3, erp="dead"), *REPORT[1:]]}, ["order 1 of globex"]),
        ({"indexed": [*PLACED, 1]}, ["in the index are [1, 1, 2"]),
        ({"missing": [(2, 7), *DEAD[1:]]}, ["dead deliveries to the ERP are"]),
        ({"refused": ["no"]}, ["the partner has refused a webhook: no"]),
        ({"got": [*GOT, webhook(1, body=b"2")]}, ["webhook 1 was repeated with other bytes"]),
        ({"got": GOT[1:]}, ["the partner was told"]),
        ({"got": [webhook(1, cents=7), *GOT[1:]]}, ["the partner was told"]),
    ],
)
def test_a_broken_promise_is_told(changed: dict[str, list[Any]], expected: list[str]) -> None:
    """The verdict sees where report, index, dead ones and webhooks do not agree."""
    demo = demo_module("erp_invoices")
    all_well: dict[str, list[Any]]
    all_well = {"report": REPORT, "indexed": PLACED, "missing": DEAD, "got": GOT, "refused": []}
    found = all_well | changed
    found["report"] = [demo.Row(*each) for each in found["report"]]
    found["got"] = [demo.Got(*each) for each in found["got"]]
    broken = list(demo.flaws(demo.Found(**found)))
    assert len(broken) == len(expected), broken
    assert all(said.startswith(start) for said, start in zip(broken, expected, strict=True)), broken
