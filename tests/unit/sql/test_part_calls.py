"""The calls of parts of the store have the signatures that callers see."""

from inspect import signature

import pytest

from mutirao.sql.store.federation import SqlFederation
from mutirao.sql.store.limits import SqlLimits
from mutirao.sql.store.subscriptions import SqlSubscriptions


@pytest.mark.parametrize(
    ("call", "parameters"),
    [
        (SqlFederation.host, ["self", "name"]),
        (SqlSubscriptions.listed, ["self"]),
        (SqlSubscriptions.set_active, ["self", "id", "active", "now"]),
        (SqlLimits.remove, ["self", "name", "now"]),
    ],
)
def test_no_connection_and_no_dialect(call: object, parameters: list[str]) -> None:
    """The sender gives the connection and the dialect."""
    assert callable(call)
    assert [*signature(call).parameters] == parameters
    assert call.__doc__
