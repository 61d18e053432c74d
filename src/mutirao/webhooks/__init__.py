"""Webhooks: signing, verifying, and an HTTP client that refuses private addresses (SSRF)."""

from mutirao.errors import ConfigurationError

try:
    import cryptography as _cryptography  # noqa: F401 (ed25519 is by it)
    import httpcore2 as _httpcore2  # noqa: F401 (the guard stands where it connects)
    import httpx2 as _httpx2  # noqa: F401 (makes the call)
except ImportError as missing:
    raise ConfigurationError(
        f"mutirao.webhooks needs the package {missing.name!r}, which is not installed. "
        "Install the extra that brings it: pip install 'mutirao[webhooks]'"
    ) from missing

from mutirao.model.webhooks.breakers import BreakerTerms
from mutirao.model.webhooks.webhook_attempts import WebhookSettings
from mutirao.webhooks.answer import Answer, DeliveryFailure
from mutirao.webhooks.courier import Courier
from mutirao.webhooks.guard import Guard, Target
from mutirao.webhooks.keys import Secret, new_key, new_secret
from mutirao.webhooks.request import Signer, Timeouts, WebhookRequest
from mutirao.webhooks.signing import sign
from mutirao.webhooks.transport import GuardedTransport
from mutirao.webhooks.verifying import Received, averify, verify

__all__ = [
    "Answer",
    "BreakerTerms",
    "Courier",
    "DeliveryFailure",
    "Guard",
    "GuardedTransport",
    "Received",
    "Secret",
    "Signer",
    "Target",
    "Timeouts",
    "WebhookRequest",
    "WebhookSettings",
    "averify",
    "new_key",
    "new_secret",
    "sign",
    "verify",
]
