"""Lets the tests of a class share an event loop, and so the connections that belong to one."""

from __future__ import annotations

import pytest
import pytest_asyncio


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of each class that says `shares_loop`.

    The contracts are marked already, and a class cannot replace the mark of its base.
    """
    for item in items:
        shares = getattr(getattr(item, "cls", None), "shares_loop", False)
        if shares and pytest_asyncio.is_async_test(item):
            item.add_marker(pytest.mark.asyncio(loop_scope="class"), append=False)
