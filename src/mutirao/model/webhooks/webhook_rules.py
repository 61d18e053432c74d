"""Checks of a webhook that need no network: method, headers, URL and secret.

Checked where an endpoint is put, and again where a request is made.
"""

import base64
import binascii
import re
from collections.abc import Collection, Mapping

from mutirao.errors import InvalidEndpoint, InvalidSecret
from mutirao.model.display import without_password

METHODS = ("POST", "PUT", "PATCH", "GET", "DELETE")
MOST_REDIRECTS = 5
LONGEST_VALUE = 8_192  # characters of a header
LONGEST_URL = 2_048
# These describe how the request is framed, and to which server it goes.
FRAMING = {
    *("host", "content-length", "transfer-encoding", "connection", "keep-alive", "te", "trailer"),
    *("upgrade", "expect", "accept-encoding", "proxy-authorization", "proxy-connection"),
}
OURS = {*FRAMING, "webhook-id", "webhook-timestamp", "webhook-signature"}
SHARED, PRIVATE, PUBLIC = "whsec_", "whsk_", "whpk_"
SHORTEST, LONGEST = 24, 64  # bytes of a shared secret, by Standard Webhooks
HALF = 32  # bytes of an ed25519 seed, and of a public key

_HOW = {
    SHARED: "make one with mutirao.webhooks.new_secret()",
    PRIVATE: "make one with mutirao.webhooks.new_key()",
    PUBLIC: "take it from the sender, or from Secret.parse('whsk_…').public()",
}
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}")
_VALUE = re.compile(rf"(?:[!-~](?:[ \t!-~]{{0,{LONGEST_VALUE - 2}}}[!-~])?)?")
_URL = re.compile(
    r"https?://(?P<host>\[[0-9a-f:.]+\]|[a-z0-9_-]+(?:\.[a-z0-9_-]+)*)"
    r"(?::(?P<port>[0-9]{1,5}))?(?:[/?][^#\\]*)?",
    re.IGNORECASE,
)
_SEEN = re.compile(rf"[!-~]{{1,{LONGEST_URL}}}")


def host_of(url: object) -> str:
    """Return the host in the URL of an endpoint, in lower case and without its port.

    The guard of a worker decides at each delivery whether it is called.

    Raises:
        InvalidEndpoint: it is no `http` or `https` URL with a host.
    """
    found = _URL.fullmatch(url) if isinstance(url, str) and _SEEN.fullmatch(url) else None
    if found is None or not 1 <= int(found["port"] or 443) <= 65_535:
        raise InvalidEndpoint(
            f"the URL is {shown_url(url)!r}; expected https://host[:port]/path of visible ASCII, at"
            f" most {LONGEST_URL:,} characters, without user and fragment, with a port of 1 to"
            " 65,535 if any; names as xn--…"
        )
    return found["host"].lower()


def shown_url(url: object) -> str:
    """Return the part of a URL that may be shown: what follows a `?` may be a secret."""
    address, question, _ = without_password(url)[:255].partition("?")
    return address + ("?…" if question else "")


def check_method(method: object) -> str:
    """Return a method in capitals; raise InvalidEndpoint if webhooks cannot use it."""
    known = method.upper() if isinstance(method, str) else method
    if known not in METHODS:
        raise InvalidEndpoint(f"the method is {method!r}; expected one of {METHODS}")
    return str(known)


def check_headers(headers: Mapping[str, str], ours: Collection[str] = OURS) -> None:
    """Refuse headers that cannot be sent, or that would change how the request is read.

    Parameters:
        ours: names, in small letters, that only the sender sets.

    Raises:
        InvalidEndpoint: a name or value that HTTP does not allow (line breaks, control
            characters, beyond ASCII), a name that occurs twice, or one that the sender sets.
    """
    if not isinstance(headers, Mapping):
        raise InvalidEndpoint(
            f"the headers are of type {type(headers).__name__}; give names and values, such as"
            ' {"X-Shop": "acme"}'
        )
    seen: set[str] = set()
    for name, value in headers.items():
        # Servers give programs both X-A and X_A as HTTP_X_A.
        plain = str(name).lower().replace("_", "-")
        if not _is(_NAME, name):
            raise InvalidEndpoint(
                f"{name!r} cannot be the name of a header; expected letters, digits and hyphens"
            )
        if not _is(_VALUE, value):
            raise InvalidEndpoint(
                f"the value of the header {name} is no text, has a line break, a control character"
                f" or what is not ASCII, begins or ends with a space, or is longer than"
                f" {LONGEST_VALUE:,}; expected visible ASCII, with spaces between"
            )
        if plain in ours:
            raise InvalidEndpoint(f"the header {name} is set by the sender; leave it out")
        if plain in seen:
            raise InvalidEndpoint(f"the header {name} is given twice; give it once")
        seen.add(plain)


def secret_parts(text: object) -> tuple[str, bytes]:
    """Return the prefix of a secret and its bytes; of a `whsk_` also what follows the seed.

    Raises:
        InvalidSecret: another prefix, no base64, too short or too long. The message does not have
            the secret.
    """
    prefix = _prefix(text)
    decoded = _decoded(prefix, str(text)[len(prefix) :])
    found = len(decoded)
    if prefix == SHARED and not SHORTEST <= found <= LONGEST:
        raise InvalidSecret(
            f"the whsec_ secret has {found} bytes; expected {SHORTEST} to {LONGEST} random ones: "
            f"{_HOW[SHARED]}"
        )
    if prefix == PUBLIC and found != HALF:
        raise InvalidSecret(f"the whpk_ key has {found} bytes, not {HALF}; {_HOW[PUBLIC]}")
    if prefix == PRIVATE and found not in (HALF, 2 * HALF):
        raise InvalidSecret(
            f"the whsk_ key has {found} bytes, not {HALF} or {2 * HALF}; {_HOW[PRIVATE]}"
        )
    return prefix, decoded


def how_to_get(prefix: str) -> str:
    """Return how to get a secret of this kind."""
    return _HOW[prefix]


def _prefix(text: object) -> str:
    for prefix in (SHARED, PRIVATE, PUBLIC):
        if isinstance(text, str) and text.startswith(prefix):
            return prefix
    raise InvalidSecret(
        f"the secret, a {type(text).__name__}, does not begin with whsec_, whsk_ or whpk_; for"
        f" HMAC-SHA256 {_HOW[SHARED]}"
    )


def _decoded(prefix: str, text: str) -> bytes:
    padded = text + "=" * (-len(text) % 4)  # some write it without padding
    try:
        return base64.b64decode(padded, validate=True)
    except (binascii.Error, ValueError):
        # The error, and its cause, would show the secret in a traceback with locals.
        raise InvalidSecret(f"what follows {prefix} is not base64; {_HOW[prefix]}") from None


def _is(form: re.Pattern[str], text: object) -> bool:
    return isinstance(text, str) and form.fullmatch(text) is not None
