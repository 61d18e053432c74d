"""What only an application on SQL has."""

from mutirao.app import Mutirao
from mutirao.errors import ConfigurationError
from mutirao.sql.engines import Engines
from mutirao.sql.store import SqlStore


def engines_of(app: Mutirao) -> Engines:
    """Return the engines of an application's database. Raises ConfigurationError."""
    if not isinstance(app.store, SqlStore):
        raise ConfigurationError(
            f"this application keeps its jobs in a {type(app.store).__name__}, which has no tables;"
            " give Mutirao(url) a database"
        )
    return app.store.engines
