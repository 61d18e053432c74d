"""Why a database goes on refusing a statement: the schema may not fit any more."""

import asyncio

from mutirao.errors import SchemaError, StoreError
from mutirao.ports import Store

CHECK_LIMIT = 3.0  # seconds


async def cause_of(error: StoreError, store: Store) -> Exception:
    """Return the SchemaError that explains why a worker's statement was refused, or the error."""
    try:
        async with asyncio.timeout(CHECK_LIMIT):
            await store.check()
    except SchemaError as unfit:
        return unfit
    except Exception:  # noqa: BLE001 (the error that there was says more)
        return error
    return error
