"""Reports options of a URL that its driver does not know as a ConfigurationError.

Drivers raise a TypeError for them, or the error of a wrong statement.
"""

from typing import Any

from mutirao.errors import ConfigurationError

_UNKNOWN = ("unexpected keyword argument", "invalid keyword argument", "invalid connection option")


def refuse_unknown(dialect: Any, driver: str) -> None:
    """Make a dialect of SQLAlchemy raise ConfigurationError for an option that its driver names.

    Listeners that connect in their own way call it as well.
    """
    connect = dialect.connect

    def connected(*args: Any, **options: Any) -> Any:
        try:
            return connect(*args, **options)
        except Exception as error:
            said = str(error).strip()
            if not any(each in said for each in _UNKNOWN):
                raise
            raise ConfigurationError(
                f"{driver} does not know an option that the URL has: {said}; correct it, or leave"
                " it out"
            ) from error

    dialect.connect = connected
