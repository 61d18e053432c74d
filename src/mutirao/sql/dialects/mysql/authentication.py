"""Explains what a driver lacks to authenticate, and what to do."""

from typing import Any

from sqlalchemy import Engine

from mutirao.errors import MissingDriver

_LACKS = "'cryptography' package is required"  # PyMySQL's words; aiomysql calls the same function
_NEEDED = (
    "the server asks for the password as caching_sha2_password does, and without TLS PyMySQL and"
    " aiomysql need another package for that; run: pip install 'pymysql[rsa]', or connect with TLS"
    " (?ssl_ca=… in the URL), which needs none"
)


def say_what_is_missing(engine: Engine) -> None:
    """Make an engine report what a driver needs to sign in, and does not find."""

    dialect: Any = engine.dialect
    connect = dialect.connect

    def connected(*args: Any, **parameters: Any) -> Any:
        try:
            return connect(*args, **parameters)
        except Exception as error:
            if _LACKS in f"{error} {error.__cause__}":
                raise MissingDriver(_NEEDED) from error
            raise

    dialect.connect = connected  # a listener would connect in place of an application's creator
