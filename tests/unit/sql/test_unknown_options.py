"""An option of the URL that its driver does not know, before anything is connected to."""

from __future__ import annotations

import pytest

from mutirao import Mutirao
from mutirao.errors import ConfigurationError

REFUSED = r"does not know an option that the URL has: .*sslmoode"


@pytest.mark.parametrize(
    "scheme",
    [
        *("postgresql+psycopg", "postgresql+asyncpg", "postgresql+psycopg2"),
        *("mysql+pymysql", "mysql+aiomysql", "mysql+mysqldb"),
    ],
)
async def test_it_is_named(scheme: str) -> None:
    """By plain functions and by coroutines."""
    app = Mutirao(f"{scheme}://nobody@127.0.0.1:1/none?sslmoode=require")
    try:
        with pytest.raises(ConfigurationError, match=REFUSED):
            await app.ajob(1)
        with pytest.raises(ConfigurationError, match=REFUSED):
            app.job(1)
    finally:
        await app.aclose()
