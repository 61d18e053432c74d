"""The tables of docs/webhooks.md list what there is, and nothing else."""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest

from mutirao.webhooks import Answer, DeliveryFailure, Guard, Timeouts, WebhookRequest, verify

PAGE = Path(__file__).parents[3] / "docs" / "webhooks.md"


@pytest.mark.parametrize(
    ("column", "names"),
    [
        ("parameter", [*inspect.signature(verify).parameters]),
        ("of a `WebhookRequest`", [field.name for field in fields(WebhookRequest)]),
        ("of an `Answer`", [*(field.name for field in fields(Answer)), "ok"]),
        ("failure", [str(failure) for failure in DeliveryFailure]),
        ("parameter of `Guard`", [field.name for field in fields(Guard) if field.init]),
    ],
)
def test_tables_are_complete(column: str, names: list[str]) -> None:
    """Each name has its row."""
    _, found, table = PAGE.read_text(encoding="utf-8").partition(f"\n| {column} | |\n")
    assert found, f"no table of {column}"
    rows = table.partition("\n\n")[0]
    assert sorted(re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE)) == sorted(names)


def test_usual_timeouts_are_shown() -> None:
    """As they are."""
    shown = ", ".join(f"{each.name}={each.default:g}" for each in fields(Timeouts))
    assert f"`Timeouts({shown})`" in PAGE.read_text(encoding="utf-8")
