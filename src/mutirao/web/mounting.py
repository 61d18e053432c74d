"""The dashboard in another application, which decides what each user may do."""

from collections.abc import Collection, Iterable

from mutirao.errors import ConfigurationError
from mutirao.web.access import Decide
from mutirao.web.security import GateRules, checked_origins
from mutirao.web.several.databases_site import DatabasesSite, ListingApp
from mutirao.web.site import Settings, Site


def mounted(
    app: ListingApp, access: Decide, origins: Iterable[str], redact: Collection[str]
) -> Site:
    """Return the dashboard of an application; see `Mutirao.web`.

    Raises:
        ConfigurationError: `access` cannot be called, or an origin is none.
    """
    if not callable(access):
        raise ConfigurationError(
            f"access= is {access!r}; give a function that returns the Access of a request, such as"
            " Access.read()"
        )
    try:
        rules = GateRules(origins=checked_origins(origins))
    except ValueError as unfit:
        raise ConfigurationError(str(unfit)) from unfit
    return made(app, Settings(access=access, rules=rules, redact=redact))


def made(app: ListingApp, settings: Settings) -> Site:
    """Return the dashboard of an application, or of each database that it lists."""
    return DatabasesSite(app, settings) if app.lists_databases else Site(app, settings)
