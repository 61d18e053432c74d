"""Filters of subscriptions: what they ask of a payload, and which cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from mutirao.errors import InvalidSubscription
from mutirao.model.topics.payload_filter import MAX_FILTER, check_filter, matches, value_at

PAYLOAD = {"n": 1, "yes": True, "none": None, "to": {"country": "BR"}, "list": [1], "a.b": 1}


@pytest.mark.parametrize(
    ("filter", "passes"),
    [
        ({"n": 1}, True), ({"n": 1.0}, True), ({"n": 2}, False), ({"n": True}, False),
        ({"yes": True}, True), ({"yes": 1}, False), ({"n": "1"}, False), ({"none": None}, True),
        ({"missing": None}, False), ({"n": {"in": [3, 1]}}, True), ({"n": {"in": [True]}}, False),
        ({"missing": {"in": [None]}}, False), ({"none": {"exists": True}}, True),
        ({"none": {"exists": False}}, False), ({"missing": {"exists": False}}, True),
        ({"to.country": "BR"}, True), ({"to.country.x": {"exists": True}}, False),
        ({"to": {"exists": True}}, True), ({"list.0": {"exists": True}}, False),
        ({"a.b": {"exists": True}}, False), ({"n": 1, "yes": False}, False),
        ({"n": 1, "to.country": {"in": ["PT", "BR"]}}, True),
    ],
)  # fmt: skip
def test_matches(filter: dict[str, Any], passes: bool) -> None:
    """All fields have to be as is asked, by JSON's idea of equality."""
    assert matches(check_filter(filter), PAYLOAD) is passes


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", "1"), ("yes", "true"), ("to.country", "BR"), ("to", '{"country": "BR"}'),
        ("none", ""), ("missing", ""), ("to.country.x", ""),
    ],
)  # fmt: skip
def test_value_at(field: str, value: str) -> None:
    """As text; empty where there is nothing."""
    assert value_at(PAYLOAD, field) == value


@pytest.mark.parametrize("value", ["x" * 201, "line\nline", "\0", "\ud800"])
def test_values_that_are_no_keys(value: str) -> None:
    """By a digest; and numbers that are equal have one."""
    assert len(value_at({"a": value}, "a")) == 64
    assert value_at({"a": 1e20}, "a") == value_at({"a": 10**20}, "a")


@pytest.mark.parametrize("payload", [None, [], "text", 7])
def test_other_payloads(payload: object) -> None:
    """SQL may publish anything: what is no object has no fields."""
    assert not matches({"n": 1}, payload)
    assert matches({"n": {"exists": False}}, payload)


@pytest.mark.parametrize(
    "filter",
    [
        {}, [], "n", None, {"": 1}, {"a..b": 1}, {".a": 1}, {1: 1}, {"n": [1]}, {"n": {}},
        {"n": {"in": []}}, {"n": {"in": 1}}, {"n": {"in": "text"}}, {"n": {"in": [[1]]}},
        {"n": {"exists": 1}}, {"n": {"gt": 1}}, {"n": {"in": [1], "exists": True}},
        {"n": float("nan")}, {"n": {"in": [float("inf")]}}, {"n": "x" * MAX_FILTER},
    ],
)  # fmt: skip
def test_no_filter(filter: Any) -> None:
    """It says what is wrong with it."""
    with pytest.raises(InvalidSubscription, match=r"the filter (is|has|asks)"):
        check_filter(filter)
