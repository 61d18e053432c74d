"""What the programs of this directory share: an application, and looks at its views.

REINDEX_DATABASE says where. `../demo.py` runs all of them in a database of their own.
"""

import os
from typing import Any

from sqlalchemy import NullPool, create_engine, text

from mutirao import Mutirao

DATABASE = os.environ.get("REINDEX_DATABASE", "sqlite:///reindex.db")

app = Mutirao(DATABASE)


def ask(question: str, **values: object) -> list[Any]:
    """Return the rows that a query finds."""
    engine = create_engine(DATABASE, poolclass=NullPool)
    with engine.connect() as connection:
        return list(connection.execute(text(question), values))
