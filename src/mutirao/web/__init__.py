"""The dashboard: pages that the server makes, and the actions that they offer.

`Mutirao.web(access=…)` makes it as an ASGI application, `mutirao web` serves it. It needs
`mutirao[web]`. It knows the client and the ports, and no SQL.
"""

from mutirao.web.access import Access, Permission
from mutirao.web.credentials import Credentials, Door
from mutirao.web.scoped_tokens import ScopedTokens

__all__ = ["Access", "Credentials", "Door", "Permission", "ScopedTokens"]
