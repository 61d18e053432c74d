"""Federation: activities sent to other servers, signed, in order, and verified when they come."""

from mutirao.errors import ConfigurationError

try:
    import http_message_signatures as _signatures  # noqa: F401 (RFC 9421)

    import mutirao.webhooks as _webhooks  # noqa: F401 (makes the call, and guards it)
except ImportError as missing:
    raise ConfigurationError(
        f"mutirao.federation needs the package {missing.name!r}, which is not installed. "
        "Install the extra that brings it: pip install 'mutirao[federation]'"
    ) from missing

from mutirao.federation.federation import Federation, Gone
from mutirao.federation.keys import PublicKey, SigningKey
from mutirao.federation.outbox import ActorInbox, Outbox
from mutirao.federation.remote_keys import RemoteKeys
from mutirao.federation.signing import sign_cavage, sign_rfc9421
from mutirao.federation.verifying import Verified, verify

__all__ = [
    "ActorInbox",
    "Federation",
    "Gone",
    "Outbox",
    "PublicKey",
    "RemoteKeys",
    "SigningKey",
    "Verified",
    "sign_cavage",
    "sign_rfc9421",
    "verify",
]
