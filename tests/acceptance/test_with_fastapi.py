"""The example with FastAPI works as a user runs it: under uvicorn, with workers that are killed."""

from __future__ import annotations

from pathlib import Path

from tests.support.killing import Shop
from tests.support.served import Served


def test_each_order_has_one_receipt(migrated_postgresql_url: str, tmp_path: Path) -> None:
    """Also while workers are killed and requests run; what was refused has none."""
    orders = Served("with_fastapi", tmp_path, SHOP_URL=migrated_postgresql_url)
    with orders.running("uvicorn", "orders:web", "--port", "PORT"):
        Shop(orders, migrated_postgresql_url).survives("mutirao", "worker", "orders:jobs")
