"""The examples with Litestar, Quart, aiohttp and Pyramid work as a user runs them.

Which worker runs what, and what becomes of jobs of one that is killed, does not depend on them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.killing import Shop
from tests.support.served import Served

DECIDED = "tests/acceptance/test_with_fastapi.py"


@pytest.mark.repeats(decided=DECIDED)
@pytest.mark.parametrize(
    ("name", "serve"),
    [
        ("quart", "hypercorn -b 127.0.0.1:PORT tickets:web"),
        ("aiohttp", "aiohttp.web -P PORT parcels:make"),
        ("pyramid", "waitress --port=PORT library:web"),
    ],
)
def test_each_order_has_one_receipt(
    name: str, serve: str, migrated_postgresql_url: str, tmp_path: Path
) -> None:
    """Also while workers are killed and requests run; what was refused has none."""
    shop = Served(f"with_{name}", tmp_path, SHOP_URL=migrated_postgresql_url)
    module = serve.rpartition(" ")[2].partition(":")[0]
    if name == "pyramid":
        shop.run("library.py")
    with shop.running(*serve.split()):
        Shop(shop, migrated_postgresql_url).survives("mutirao", "worker", f"{module}:jobs")


@pytest.mark.repeats(decided=DECIDED)
def test_with_litestar(migrated_postgresql_url: str, tmp_path: Path) -> None:
    """The same, and the commands are those of Litestar."""
    market = Served("with_litestar", tmp_path, SHOP_URL=migrated_postgresql_url)
    litestar = ("litestar", "--app", "market:web")
    with market.running(*litestar, "run", "--port", "PORT"):
        Shop(market, migrated_postgresql_url).survives(*litestar, "mutirao", "worker")
